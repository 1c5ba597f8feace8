"""Chart -> pixels: ranges and ticks of the axes, the size of each panel, and labels that do not overlap.

Pure arithmetic, so that tests can check every position without a renderer. Pixels are counted from a panel's top left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from busbw.plots.axes import EDGE, TICK_SIZE, Range, format_value, horizontal, vertical
from busbw.plots.chart import Axis, Chart, Panel
from busbw.plots.text import text_width, wrap

LABEL_SIZE = 12.5
TITLE_SIZE = 17.0
SUBTITLE_SIZE = 13.0
NOTE_SIZE = 11.5
LABEL_HEIGHT = 16.0
"""Least distance between the middles of two labels at line ends."""
LABEL_GAP = 30.0
"""From the right edge of the axes to a label's first letter; its marker and leader lie between."""
MARKER_GAP = 16.0
SAMPLE_LENGTH = 26.0
DEFAULT_WIDTH = 760.0
PADDING = 14.0
_PANEL_WIDTH = 340.0  # narrower than this, panels stand under each other
SPACING = 22.0
_WIDEST_SLOT = 46.0
_DODGE = 7.0  # between points of two series at one x
_SLACK = 1.06  # a reader's own font may be a little wider than the one that is counted with


@dataclass(frozen=True, slots=True)
class EndLabel:
    """The label of a line, at the right of the axes: its text, its middle, and the end of the line that it names."""

    text: str
    colour: str | None
    variant: int
    x: float
    y: float
    end: tuple[float, float] | None
    """Where the line (or layer) ends; None for one of a list of colours, which needs no leader."""


@dataclass(frozen=True, slots=True)
class InnerLabel:
    """A text inside the axes: its edge, its middle, and which way it runs."""

    text: str
    x: float
    y: float
    align: str
    """left or right."""


@dataclass(frozen=True, slots=True)
class PanelLayout:
    """One panel: the size of its axes in pixels, their ranges, the labels at the right and those inside."""

    panel: Panel
    left: float
    """Room for the y axis's texts, left of the axes."""
    width: float
    height: float
    x: Range
    y: Range
    labels: tuple[EndLabel, ...]
    inner: tuple[InnerLabel, ...]
    slot: float
    """Pixels that a strip takes."""

    def shifted(self, x: float, index: int) -> float:
        """Where a point of the series of this index stands: at x, or beside it where points would cover each other."""
        if not self.panel.dodge:
            return x
        return self.x.value(self.x.pixel(x) + (index - (len(self.panel.series) - 1) / 2) * self._dodge)

    @property
    def _dodge(self) -> float:
        return min(_DODGE, 0.8 * _gap(self.x, _own_x(self.panel)) / len(self.panel.series))


@dataclass(frozen=True, slots=True)
class Layout:
    """A chart, laid out. `width` is without the padding around everything."""

    width: float
    columns: int
    title: tuple[str, ...]
    subtitle: tuple[str, ...]
    panels: tuple[PanelLayout, ...]
    notes: tuple[str, ...]


def lay_out(chart: Chart, width: float = DEFAULT_WIDTH) -> Layout:
    """Give everything in the chart its place on a sheet of about `width` pixels."""
    width -= 2 * PADDING
    columns = max(1, min(len(chart.panels), int(width // _PANEL_WIDTH)))
    while columns > 1 and len(chart.panels) < 2 * columns and len(chart.panels) % columns:
        columns -= 1  # three panels stand under each other, rather than leave a hole
    outer = (width - (columns - 1) * SPACING) / columns
    return Layout(
        width,
        columns,
        tuple(wrap(chart.title, width, TITLE_SIZE, bold=True)),
        tuple(wrap(chart.subtitle, width, SUBTITLE_SIZE)),
        tuple(_panel(chart, panel, outer) for panel in chart.panels),
        tuple(line for note in chart.notes for line in wrap(note, width, NOTE_SIZE)),
    )


def _panel(chart: Chart, panel: Panel, outer: float) -> PanelLayout:
    texts = [text for text, *_ in _labelled(panel)]
    every = [text for other in chart.panels for text, *_ in _labelled(other)]
    rows = max(len(_labelled(other)) for other in chart.panels)
    gap = LABEL_GAP + sample_length(chart)
    # The same in each panel, so that their axes are aligned.
    right = gap + max(text_width(text, LABEL_SIZE) for text in every) * _SLACK
    # The y ticks depend on the height, that on the width, and that on the texts of the y ticks: guess them first.
    guess = vertical(panel.y, _y_values(chart, panel), 260.0)
    left = 10.0 + max(text_width(tick.text, TICK_SIZE) for tick in guess.ticks)
    width = max(120.0, outer - left - right)
    tall = 340.0 if len(chart.panels) == 1 else 220.0
    height = max(min(max(0.62 * width, 190.0), tall), rows * LABEL_HEIGHT)
    values, ticks_at = _x_values(chart, panel)
    edge = EDGE
    if panel.layers:
        edge = 0.0
    elif panel.strips or panel.dodge:
        edge = max(EDGE, min(_WIDEST_SLOT, width / len(set(values))) / 2)
    x = horizontal(panel.x, values, ticks_at, width, edge)
    y = vertical(panel.y, _y_values(chart, panel), height, len(panel.boundaries) * LABEL_HEIGHT)
    ends = _ends(panel, x, y, width, height)
    wanted = [LABEL_HEIGHT / 2 if end is None else end[1] for end in ends]
    places = spread(wanted, LABEL_HEIGHT, LABEL_HEIGHT / 2, height - LABEL_HEIGHT / 2)
    labels = tuple(
        EndLabel(text, colour, variant, width + gap, place, end)
        for text, (_, colour, variant), place, end in zip(texts, _labelled(panel), places, ends, strict=True)
    )
    slot = min(_WIDEST_SLOT, 0.8 * _gap(x, _own_x(panel)))
    return PanelLayout(panel, left, width, height, x, y, labels, _inner(panel, x, width, height), slot)


def _ends(panel: Panel, x: Range, y: Range, width: float, height: float) -> list[tuple[float, float] | None]:
    """Where each of `_labelled` ends."""
    ends: list[tuple[float, float] | None] = [
        (x.pixel(series.x[-1]), height - y.pixel(min(max(series.y[-1], y.low), y.high))) for series in panel.series
    ]
    edges = [(0.0,) * len(panel.layers[0].x), *panel.stack] if panel.layers else []
    for index in reversed(range(len(panel.layers))):
        ends.append((width, height - y.pixel((edges[index][-1] + edges[index + 1][-1]) / 2)))
    ends += [None] * len(_strip_keys(panel))
    return ends + [(width, height - y.pixel(line.y)) for line in panel.lines]


def _inner(panel: Panel, x: Range, width: float, height: float) -> tuple[InnerLabel, ...]:
    """Boundaries have a row each at the top, on the side of their line where there is more room."""
    labels = []
    for row, boundary in enumerate(sorted(panel.boundaries, key=lambda boundary: boundary.x)):
        at = x.pixel(boundary.x)
        to_right = at + 5 + text_width(boundary.label, LABEL_SIZE) * _SLACK <= width or at < width / 2
        place = (at + 5, "left") if to_right else (at - 5, "right")
        labels.append(InnerLabel(boundary.label, place[0], LABEL_HEIGHT * (row + 0.5), place[1]))
    for remark in panel.remarks:
        upper, leftmost = remark.corner.startswith("top"), remark.corner.endswith("left")
        y = LABEL_HEIGHT * (len(panel.boundaries) + 0.75) if upper else height - LABEL_HEIGHT * 0.75
        labels.append(InnerLabel(remark.text, 7.0 if leftmost else width - 7.0, y, "left" if leftmost else "right"))
    return tuple(labels)


def _gap(x: Range, values: Iterable[float]) -> float:
    """Least distance in pixels between two values of x."""
    pixels = sorted(x.pixel(value) for value in set(values))
    return min((b - a for a, b in pairwise(pixels)), default=_WIDEST_SLOT)


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places at least `gap` apart, inside low..high, in the order of `wanted` and as near to it as can be.

    Least squares: with the gaps subtracted it is an isotonic regression, solved by pooling adjacent violators; clipping
    its result to the bounds keeps it the best. When they do not all fit, they keep the gap and run over `high`.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    pools: list[tuple[float, int]] = []
    for rank, i in enumerate(order):
        mean, size = wanted[i] - rank * gap, 1
        while pools and pools[-1][0] > mean:
            other, count = pools.pop()
            mean, size = (mean * size + other * count) / (size + count), size + count
        pools.append((mean, size))
    top = max(low, high - (len(wanted) - 1) * gap)
    flat = [min(max(mean, low), top) for mean, size in pools for _ in range(size)]
    places = [0.0] * len(wanted)
    for rank, i in enumerate(order):
        places[i] = flat[rank] + rank * gap
    return places


def sample_length(chart: Chart) -> float:
    """Pixels of the piece of line beside each label: none when all lines are solid, since the marker says enough."""
    return SAMPLE_LENGTH if any(series.variant for panel in chart.panels for series in panel.series) else 0.0


def _labelled(panel: Panel) -> list[tuple[str, str | None, int]]:
    """Everything that has a label at the right: its text, its colour (None for a neutral line), its dash."""
    found: list[tuple[str, str | None, int]] = [
        (
            series.label if series.value is None else f"{series.label} {format_value(series.value, panel.y.unit)}",
            series.colour,
            series.variant,
        )
        for series in panel.series
    ]
    found += [(layer.label, layer.colour, 0) for layer in reversed(panel.layers)]
    found += [(label, colour, 0) for label, colour in _strip_keys(panel)]
    return found + [(line.label, None, 0) for line in panel.lines]


def _strip_keys(panel: Panel) -> list[tuple[str, str]]:
    return list(dict.fromkeys((strip.label, strip.colour) for strip in panel.strips))


def _alike(chart: Chart, axis: Axis, of: str) -> Iterable[Panel]:
    for panel in chart.panels:
        other: Axis = getattr(panel, of)
        if (other.unit, other.scale) == (axis.unit, axis.scale):
            yield panel


def _own_x(panel: Panel) -> list[float]:
    found = [x for series in panel.series for x in series.x] + [strip.x for strip in panel.strips]
    return found or [x for layer in panel.layers for x in layer.x]


def _x_values(chart: Chart, panel: Panel) -> tuple[list[float], list[float]]:
    """What the x axis has to show, and where ticks may stand: at sizes of rows, or at powers of two under layers."""
    values = [x for other in _alike(chart, panel.x, "x") for x in _own_x(other)]
    if not panel.layers or panel.x.scale != "log2":
        return values, values
    powers = [2.0**power for power in range(math.ceil(math.log2(min(values))), math.floor(math.log2(max(values))) + 1)]
    return values, powers or values


def _y_values(chart: Chart, panel: Panel) -> list[float]:
    values: list[float] = []
    for other in _alike(chart, panel.y, "y"):
        for series in other.series:
            values += [*series.y, *(y for y in (*series.low, *series.high) if y is not None)]
        values += [line.y for line in other.lines]
        values += [y for band in other.bands for y in (band.y_low, band.y_high) if y is not None]
        values += [y for ribbon in other.ribbons for y in (*ribbon.low, *ribbon.high)]
        values += [y for strip in other.strips for y in strip.y]
        values += [y for edge in other.stack for y in edge]
    return values
