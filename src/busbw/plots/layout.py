"""Chart -> pixels: ranges and ticks of the axes, the size of each panel, and labels that do not overlap.

Pure arithmetic, so that tests can check every position without a renderer. Pixels are counted from a panel's top left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from busbw import units
from busbw.plots.chart import Axis, Chart, Panel, Unit
from busbw.plots.text import text_width, wrap

TICK_SIZE = 12.0
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
_EDGE = 12.0  # inside the axes: the outermost points keep this distance from the left and right edge
_SLACK = 1.06  # a reader's own font may be a little wider than the one that is counted with


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled place on an axis, in SI."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Range:
    """The values between an axis's two ends, and the map to pixels (0 at `low`)."""

    low: float
    high: float
    length: float
    is_log: bool
    ticks: tuple[Tick, ...] = ()

    def pixel(self, value: float) -> float:
        """Where a value lies, in pixels from the axis's low end."""
        low, high = self._forward(self.low), self._forward(self.high)
        return (self._forward(value) - low) / (high - low) * self.length

    def value(self, pixel: float) -> float:
        """The value at a pixel, also outside the axis."""
        low, high = self._forward(self.low), self._forward(self.high)
        at = low + pixel / self.length * (high - low)
        return 2.0**at if self.is_log else at

    def _forward(self, value: float) -> float:
        return math.log2(value) if self.is_log else value


@dataclass(frozen=True, slots=True)
class EndLabel:
    """The label of a line, at the right of the axes: its text, its middle, and the end of the line that it names."""

    text: str
    colour: str | None
    variant: int
    x: float
    y: float
    end_x: float
    end_y: float


@dataclass(frozen=True, slots=True)
class PanelLayout:
    """One panel: the size of its axes in pixels, their ranges, and the labels at the right."""

    panel: Panel
    left: float
    """Room for the y axis's texts, left of the axes."""
    width: float
    height: float
    x: Range
    y: Range
    labels: tuple[EndLabel, ...]


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
    texts = _label_texts(panel)
    rows = max(len(_label_texts(other)) for other in chart.panels)
    widest = max(text_width(text, LABEL_SIZE) for other in chart.panels for text in _label_texts(other))
    gap = LABEL_GAP + sample_length(chart)
    right = gap + widest * _SLACK  # the same in each panel, so that their axes are aligned
    # The y ticks depend on the height, that on the width, and that on the texts of the y ticks: guess them first.
    guess = _range(panel.y, _y_values(chart, panel), 260.0, vertical=True)
    left = 10.0 + max(text_width(tick.text, TICK_SIZE) for tick in guess.ticks)
    width = max(120.0, outer - left - right)
    tall = 340.0 if len(chart.panels) == 1 else 220.0
    height = max(min(max(0.62 * width, 190.0), tall), rows * LABEL_HEIGHT)
    x = _range(panel.x, _x_values(chart, panel), width, vertical=False)
    y = _range(panel.y, _y_values(chart, panel), height, vertical=True)
    ends = [(x.pixel(series.x[-1]), height - y.pixel(series.y[-1])) for series in panel.series]
    ends += [(width, height - y.pixel(line.y)) for line in panel.lines]
    looks: list[tuple[str | None, int]] = [(series.colour, series.variant) for series in panel.series]
    looks += [(None, 0)] * len(panel.lines)
    places = spread([end_y for _, end_y in ends], LABEL_HEIGHT, LABEL_HEIGHT / 2, height - LABEL_HEIGHT / 2)
    labels = tuple(
        EndLabel(text, colour, variant, width + gap, place, end_x, end_y)
        for text, (colour, variant), place, (end_x, end_y) in zip(texts, looks, places, ends, strict=True)
    )
    return PanelLayout(panel, left, width, height, x, y, labels)


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


def format_value(value: float, unit: Unit) -> str:
    """A number as it is printed in the figure: sizes and times with their unit, rates without (the axis names it)."""
    if unit == "size":
        return units.format_size(round(value))
    if unit == "time":
        return units.format_time(value)
    return units.format_rate(value).split()[0] if unit == "rate" else f"{value:g}"


def axis_title(axis: Axis) -> str:
    """The axis's name with the unit of its numbers, where the numbers do not carry it themselves."""
    return f"{axis.name} (GB/s)" if axis.unit == "rate" else axis.name


def sample_length(chart: Chart) -> float:
    """Pixels of the piece of line beside each label: none when all lines are solid, since the marker says enough."""
    return SAMPLE_LENGTH if any(series.variant for panel in chart.panels for series in panel.series) else 0.0


def _label_texts(panel: Panel) -> list[str]:
    texts = [
        series.label if series.value is None else f"{series.label} {format_value(series.value, panel.y.unit)}"
        for series in panel.series
    ]
    return texts + [line.label for line in panel.lines]


def _alike(chart: Chart, axis: Axis, of: str) -> Iterable[Panel]:
    for panel in chart.panels:
        other: Axis = getattr(panel, of)
        if (other.unit, other.scale) == (axis.unit, axis.scale):
            yield panel


def _x_values(chart: Chart, panel: Panel) -> list[float]:
    return [x for other in _alike(chart, panel.x, "x") for series in other.series for x in series.x]


def _y_values(chart: Chart, panel: Panel) -> list[float]:
    values: list[float] = []
    for other in _alike(chart, panel.y, "y"):
        for series in other.series:
            values += [*series.y, *(y for y in (*series.low, *series.high) if y is not None)]
        values += [line.y for line in other.lines]
        values += [y for band in other.bands for y in (band.y_low, band.y_high) if y is not None]
    return values


def _range(axis: Axis, values: Sequence[float], length: float, vertical: bool) -> Range:
    if axis.scale == "linear":
        return _linear_range(axis, values, length)
    least, most = min(values), max(values)
    if vertical:
        low, high = _decade_step(least, down=True), _decade_step(most, down=False)
    elif least == most:
        low, high = least / 2, most * 2
    else:
        pad = (most / least) ** (_EDGE / (length - 2 * _EDGE))
        low, high = least / pad, most * pad
    bare = Range(low, high, length, True)
    ticks = _size_ticks(bare, values) if axis.unit == "size" else _decade_ticks(bare, axis.unit)
    return Range(low, high, length, True, tuple(ticks))


def _linear_range(axis: Axis, values: Sequence[float], length: float) -> Range:
    most = max(values)
    high = (most if most > 0 else 1.0) * 1.05
    rough = high / max(2.0, min(6.0, length / 40.0))
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.75 * rough)
    scale = units.GB if axis.unit == "rate" else 1.0
    ticks = tuple(Tick(step * i, f"{step * i / scale:.6g}") for i in range(math.floor(high / step + 1e-9) + 1))
    return Range(0.0, high, length, False, ticks)


def _decade_step(value: float, down: bool) -> float:
    """The nearest of 1, 2, 5 times a power of ten at or below (above) the value."""
    power = 10.0 ** math.floor(math.log10(value))
    steps = [factor * power for factor in (1, 2, 5, 10)]
    return max(s for s in steps if s <= value * 1.0001) if down else min(s for s in steps if s >= value * 0.9999)


def _decade_ticks(bare: Range, unit: Unit) -> list[Tick]:
    lowest, highest = math.floor(math.log10(bare.low)), math.ceil(math.log10(bare.high))
    factors = (1,) if highest - lowest > 2 else (1, 2, 5)
    values = [factor * 10.0**power for power in range(lowest, highest + 1) for factor in factors]
    inside = [value for value in values if bare.low * 0.9999 <= value <= bare.high * 1.0001]
    return [Tick(value, _plain(format_value(value, unit))) for value in inside]


def _plain(text: str) -> str:
    number, _, unit = text.partition(" ")
    number = number.rstrip("0").rstrip(".") if "." in number else number
    return f"{number} {unit}".rstrip()


def _size_ticks(bare: Range, values: Iterable[float]) -> list[Tick]:
    """Sizes that exist in the data, with texts that do not touch.

    Both ends, and between them every size or every n-th octave: the choice that shows most, where each gap unlike the
    others costs half a tick, then the one with the widest gaps.
    """
    sizes = sorted({_snap(value) for value in values})
    ends = sorted({sizes[0], sizes[-1]}) if _apart(bare, sizes[0], sizes[-1]) else sizes[-1:]
    choices: list[list[float]] = []
    for stride in range(1, 11):
        for offset in range(stride):
            inner = [size for size in sizes if stride == 1 or math.log2(size) % stride == offset]
            inner = [size for size in inner if all(_apart(bare, size, end) for end in ends)]
            if all(_apart(bare, a, b) for a, b in pairwise(inner)):
                choices.append(sorted(ends + inner))

    def worth(choice: list[float]) -> tuple[float, float, int]:
        octaves = [round(math.log2(b / a), 2) for a, b in pairwise(choice)]
        odd = len(octaves) - max((octaves.count(gap) for gap in octaves), default=0)
        return len(choice) - odd / 2, min(octaves, default=0.0), sum(math.log2(size) % 10 == 0 for size in choice)

    best = max(choices, key=worth)
    if len(best) < 3:  # sizes that are no powers of two
        best = _fit(bare, ends, sizes)
    return [Tick(size, units.format_size(round(size))) for size in best]


def _snap(size: float) -> float:
    """The power of two within 1 % of a size (S is rounded to whole elements per rank), or the size itself."""
    power = 2.0 ** round(math.log2(size))
    return power if abs(size / power - 1) < 0.01 else size


def _fit(bare: Range, kept: Sequence[float], more: Iterable[float]) -> list[float]:
    out = list(kept)
    for size in more:
        if all(_apart(bare, size, other) for other in out):
            out.append(size)
    return sorted(out)


def _apart(bare: Range, first: float, second: float) -> bool:
    widths = [text_width(units.format_size(round(size)), TICK_SIZE) for size in (first, second)]
    return abs(bare.pixel(first) - bare.pixel(second)) >= sum(widths) / 2 + 7.0
