"""What a figure is, and the registry of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from busbw.core.measurement import Measurement
from busbw.plots.chart import Chart
from busbw.registry import Registry


@dataclass(frozen=True, slots=True)
class FigureOptions:
    """What a user may ask of any figure. Empty means "what the figure shows by default"."""

    collectives: tuple[str, ...] = ()
    world_sizes: tuple[int, ...] = ()
    wire_limit_Bps: float | None = None  # noqa: N815 - the unit's own capitals
    """Bytes a second that one wire can carry one way, drawn in figures of busbw."""


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
