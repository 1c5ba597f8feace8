"""What a figure is, and the registry of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from busbw.core.measurement import Measurement
from busbw.plots.chart import Chart, ReferenceLine
from busbw.registry import Registry
from busbw.units import MIB, format_rate


@dataclass(frozen=True, slots=True)
class FigureOptions:
    """What a user may ask of any figure. Empty means "what the figure shows by default"."""

    collectives: tuple[str, ...] = ()
    world_sizes: tuple[int, ...] = ()
    wire_limit_Bps: float | None = None  # noqa: N815 - the unit's own capitals
    """Bytes a second that one wire can carry one way, drawn in figures of busbw."""
    wire_source: str = ""
    """Where that rate is from, for a note; "" where the user gave it."""
    model: str = "gpt2"
    """Whose gradients `bucketed_sync` prices: what `busbw.pricing.readers.read_model` takes."""
    bucket_bytes: int = 25 * MIB
    """The bucket that `bucketed_sync` points at; PyTorch's DDP takes 25 MiB."""

    @property
    def wire(self) -> tuple[ReferenceLine, ...]:
        """The wire's limit as a line; empty where it is not known."""
        limit = self.wire_limit_Bps
        return () if limit is None else (ReferenceLine(f"wire {format_rate(limit)}", limit),)

    @property
    def wire_note(self) -> tuple[str, ...]:
        """Where the wire's limit is from."""
        return (f"Wire: {self.wire_source}.",) if self.wire_limit_Bps is not None and self.wire_source else ()


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. Each file of `busbw.plots.figures` defines one, named FIGURE."""

    name: str
    summary: str
    """What it shows, in one sentence."""
    build: Callable[[Sequence[Measurement], FigureOptions], Chart]
    """Rows -> Chart; UsageError when none of the rows can be drawn."""


FIGURES: Registry[Figure] = Registry("busbw.plots.figures", "FIGURE", "figure")
"""Every figure by name."""
