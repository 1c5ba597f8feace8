"""A figure as plain data: panels with axes, series, bands and reference lines, and the notes under them.

All numbers are SI: bytes, seconds, bytes a second. An axis names the unit in which its numbers are shown, and only
the renderer turns one into the other.

What lies in a panel, from back to front: bands, layers, lines to compare with, ribbons, strips, series, remarks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from busbw.core.measurement import Mark

Scale = Literal["linear", "log2", "log"]
Unit = Literal["size", "rate", "time", "count", "share", "ratio"]
Corner = Literal["top left", "top right", "bottom left", "bottom right"]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis. Its unit says how numbers are shown.

    size: bytes as 4 KiB, 1 MiB; rate: bytes a second as GB/s (1e9); time: seconds as us, ms or s; share: 0.14 as 14 %; ratio
    and count: as they are. A linear axis begins at 0 unless it is one of ratios.
    """

    name: str
    unit: Unit
    scale: Scale = "linear"
    least: float | None = None
    """The axis begins here, whatever the data; what lies below is drawn at the edge, with another marker."""
    most: float | None = None
    """The axis ends here, in the same way."""


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
    joined: bool = True
    """A line runs through the points; without it a ribbon does, or nothing."""

    def __post_init__(self) -> None:
        assert self.x, f"series {self.label!r} has no point"
        assert len(self.x) == len(self.y), f"series {self.label!r}: {len(self.x)} x for {len(self.y)} y"
        assert len(self.low) == len(self.high), f"series {self.label!r}: an interval has two ends"
        assert len(self.low) in (0, len(self.x)), f"series {self.label!r}: one interval a point, or none at all"
        assert all(a < b for a, b in pairwise(self.x)), f"series {self.label!r}: x must rise"


@dataclass(frozen=True, slots=True)
class Ribbon:
    """A smooth line without markers and the interval around it, such as a fit. It has the colour of its series."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    colour: str
    variant: int = 0

    def __post_init__(self) -> None:
        assert len(self.x) == len(self.y) == len(self.low) == len(self.high) > 1, f"ribbon {self.label!r} is torn"


@dataclass(frozen=True, slots=True)
class Layer:
    """One part of a stack: its thickness over x. The first layer of a panel lies at the bottom; all share one x."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: str
    """What the part is: `latency`, `launch`, `steps`, `bytes`, `reducing`."""

    def __post_init__(self) -> None:
        assert len(self.x) == len(self.y) > 0, f"layer {self.label!r}: {len(self.x)} x for {len(self.y)} y"
        assert min(self.y) >= 0, f"layer {self.label!r}: a part is never negative"


@dataclass(frozen=True, slots=True)
class Strip:
    """Many values at one x, in the order in which they were taken: drawn from left to right around x."""

    label: str
    x: float
    y: tuple[float, ...]
    colour: str
    """`rank=3`."""
    marks: tuple[Mark, ...] = ()


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
class Boundary:
    """A vertical line at a value of x, with its label at the top."""

    label: str
    x: float


@dataclass(frozen=True, slots=True)
class Remark:
    """A few words in a corner of the axes that the data leaves empty."""

    text: str
    corner: Corner


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes. Panels of one chart share the range of axes with the same unit and scale."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...] = ()
    bands: tuple[Band, ...] = ()
    lines: tuple[ReferenceLine, ...] = ()
    ribbons: tuple[Ribbon, ...] = ()
    layers: tuple[Layer, ...] = ()
    strips: tuple[Strip, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    remarks: tuple[Remark, ...] = ()
    dodge: bool = False
    """Points of several series at one x stand beside each other, so that their intervals can be told apart."""

    def __post_init__(self) -> None:
        assert self.series or self.layers or self.strips, f"panel {self.title!r} shows nothing"
        assert len({layer.x for layer in self.layers}) < 2, f"panel {self.title!r}: layers of one stack share their x"

    @property
    def colours(self) -> tuple[str, ...]:
        """Every key of a look that occurs, once, in order."""
        found = [series.colour for series in self.series] + [ribbon.colour for ribbon in self.ribbons]
        found += [layer.colour for layer in self.layers] + [strip.colour for strip in self.strips]
        return tuple(dict.fromkeys(found))

    @property
    def variants(self) -> frozenset[int]:
        """Every dash that occurs."""
        return frozenset(series.variant for series in self.series) | {ribbon.variant for ribbon in self.ribbons}

    @property
    def stack(self) -> tuple[tuple[float, ...], ...]:
        """The upper edges of the layers, from the bottom up."""
        edges: list[tuple[float, ...]] = []
        for layer in self.layers:
            below = edges[-1] if edges else (0.0,) * len(layer.x)
            edges.append(tuple(a + b for a, b in zip(below, layer.y, strict=True)))
        return tuple(edges)


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure: what it shows, its panels in reading order, and what the reader has to know (one sentence a note)."""

    title: str
    subtitle: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.panels, f"chart {self.title!r} has no panel"
