"""Axes: the values between their ends, the ticks on them, and how numbers are printed beside them.

Pure arithmetic in SI; pixels are counted from an axis's low end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from busbw import units
from busbw.plots.chart import Axis, Unit
from busbw.plots.text import text_width

TICK_SIZE = 12.0
EDGE = 12.0
"""Inside the axes, the outermost points keep this distance from the left and right edge."""


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


def format_value(value: float, unit: Unit) -> str:
    """A number as it is printed in the figure: sizes and times with their unit, rates without (the axis names it)."""
    if unit == "size":
        return units.format_size(round(value))
    if unit == "time":
        return units.format_time(value)
    if unit == "share":
        return f"{100 * value:.3g} %"
    return units.format_rate(value).split()[0] if unit == "rate" else f"{value:.4g}"


def axis_title(axis: Axis) -> str:
    """The axis's name with the unit of its numbers, where the numbers do not carry it themselves."""
    return f"{axis.name} (GB/s)" if axis.unit == "rate" else axis.name


def horizontal(axis: Axis, values: Sequence[float], ticks_at: Sequence[float], length: float, edge: float) -> Range:
    """An x axis of `length` pixels that shows all values, `edge` pixels away from its ends, with ticks at some sizes."""
    if axis.scale == "linear":
        return _linear(axis, values, length, 0.0)
    least, most = min(values), max(values)
    if least == most:
        low, high = least / 2, most * 2
    else:
        pad = (most / least) ** (edge / (length - 2 * edge))
        low, high = least / pad, most * pad
    bare = Range(low, high, length, True)
    ticks = _size_ticks(bare, ticks_at) if axis.unit == "size" else _decade_ticks(bare, axis.unit)
    return Range(low, high, length, True, tuple(ticks))


def vertical(axis: Axis, values: Sequence[float], length: float, headroom: float = 0.0) -> Range:
    """A y axis of `length` pixels that shows all values; `headroom` pixels at the top stay free for labels."""
    if axis.scale == "linear":
        return _linear(axis, values, length, headroom)
    low, high = _decade_step(min(values), down=True), _decade_step(max(values), down=False)
    if low == high:  # one value, and a tick lies on it
        low, high = low / 2, high * 2
    bare = Range(low, high * (high / low) ** (headroom / (length - headroom)), length, True)
    return Range(bare.low, bare.high, length, True, tuple(_decade_ticks(bare, axis.unit)))


def _linear(axis: Axis, values: Sequence[float], length: float, headroom: float) -> Range:
    least, most = min(values), max(values)
    if axis.unit == "ratio":  # far from 0: what matters is the distance from 1
        pad = 0.08 * (most - least) or 0.05 * abs(most) or 1.0
        low, high = least - pad, most + pad
    else:
        low = 1.05 * least if least < 0 else 0.0
        high = 1.05 * most if most > 0 else (1.0 if low == 0 else 0.0)
    low = low if axis.least is None else axis.least
    high = high if axis.most is None else axis.most
    rough = (high - low) / max(2.0, min(6.0, (length - headroom) / 40.0))
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.75 * rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = tuple(Tick(step * i, _tick_text(step * i, axis.unit)) for i in range(first, last + 1))
    return Range(low, high + (high - low) * headroom / (length - headroom), length, False, ticks)


def _tick_text(value: float, unit: Unit) -> str:
    if unit == "time":
        return _plain(units.format_time(value)) if value else "0"
    if unit == "size":
        return units.format_size(round(value))
    if unit == "share":
        return f"{100 * value:.6g} %"
    return f"{value / (units.GB if unit == 'rate' else 1.0):.6g}"


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
