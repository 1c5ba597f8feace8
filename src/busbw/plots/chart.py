"""A figure as plain data: panels with axes, series, bands and reference lines, and the notes under them.

All numbers are SI: bytes, seconds, bytes a second. An axis names the unit in which its numbers are shown, and only
the renderer turns one into the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from busbw.core.measurement import Mark

Scale = Literal["linear", "log2", "log"]
Unit = Literal["size", "rate", "time", "count"]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis. Its unit says how numbers are shown.

    size: bytes as 4 KiB, 1 MiB; rate: bytes a second as GB/s (1e9); time: seconds as us, ms or s; count: as they are.
    """

    name: str
    unit: Unit
    scale: Scale = "linear"


@dataclass(frozen=True, slots=True)
class MarkedPoint:
    """A point of a series that cannot be trusted, or must be read with care, with the reasons."""

    x: float
    y: float
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """One line. Points are ordered by x; `low` and `high` bound y where an interval is known."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: str
    """What colour and marker stand for: a collective's name, or `N=8`. A collective looks the same in every figure."""
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    marked: tuple[MarkedPoint, ...] = ()
    variant: int = 0
    """Which of several lines of one colour: the dash."""
    value: float | None = None
    """The number that is printed at the line's end, in the unit of the y axis: its plateau, for example."""

    def __post_init__(self) -> None:
        assert self.x, f"series {self.label!r} has no point"
        assert len(self.x) == len(self.y), f"series {self.label!r}: {len(self.x)} x for {len(self.y)} y"
        assert len(self.low) == len(self.high), f"series {self.label!r}: an interval has two ends"
        assert len(self.low) in (0, len(self.x)), f"series {self.label!r}: one interval a point, or none at all"
        assert all(a < b for a, b in pairwise(self.x)), f"series {self.label!r}: x must rise"


@dataclass(frozen=True, slots=True)
class Band:
    """A shaded rectangle; None is the edge of the panel. `colour` as in Series, None for a neutral one."""

    label: str
    x_low: float | None = None
    x_high: float | None = None
    y_low: float | None = None
    y_high: float | None = None
    colour: str | None = None


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """A horizontal line to compare with, such as the wire's limit."""

    label: str
    y: float


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes. Panels of one chart share the range of axes with the same unit and scale."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    bands: tuple[Band, ...] = ()
    lines: tuple[ReferenceLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure: what it shows, its panels in reading order, and what the reader has to know (one sentence a note)."""

    title: str
    subtitle: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.panels, f"chart {self.title!r} has no panel"
