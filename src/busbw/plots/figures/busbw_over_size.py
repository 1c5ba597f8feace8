"""busbw over S, one line an op and one panel an N: what the wires carry, and where it stops growing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from busbw.core.measurement import Measurement
from busbw.errors import UsageError
from busbw.plots.chart import Axis, Band, Chart, Panel, Series
from busbw.plots.figure import Figure, FigureOptions
from busbw.plots.lines import Line, left_out, make_lines, marks_notes, repeats_note, select, to_series

X = Axis("message size S", "size", "log2")
Y = Axis("busbw", "rate")

TOLERANCE = 0.05
"""Sizes belong to the plateau while all of them lie this close to their median."""
LEAST_SPAN = 4.0
"""The plateau's largest size over its smallest; less is not called a plateau."""
LEVEL_SPAN = 8.0
"""The sizes whose median is the plateau's number: within this factor of the largest, as in `busbw explain`."""


@dataclass(frozen=True, slots=True)
class Plateau:
    """The largest sizes of a line, where busbw no longer grows: their median, and the sizes that it holds for."""

    busbw_Bps: float  # noqa: N815 - the unit's own capitals
    from_bytes: float
    to_bytes: float


def find_plateau(x: Sequence[float], y: Sequence[float]) -> Plateau | None:
    """The plateau of busbw `y` over sizes `x`, or None.

    It is the longest run of the largest sizes whose busbw all lie within 5 % of their median, when it spans at least a
    factor of 4 in size. A line that still climbs or falls at its end has none. Its number is the median of those sizes
    that lie within a factor of 8 of the largest: the one that findings print.
    """
    best: Plateau | None = None
    for count in range(2, len(x) + 1):
        run = y[-count:]
        median = statistics.median(run)
        if any(abs(value - median) > TOLERANCE * median for value in run):
            break
        if x[-1] / x[-count] >= LEAST_SPAN:
            level = [value for size, value in zip(x[-count:], run, strict=True) if size * LEVEL_SPAN >= x[-1]]
            best = Plateau(statistics.median(level), x[-count], x[-1])
    return best


def build(measurements: Sequence[Measurement], options: FigureOptions) -> Chart:
    """One panel for each N; in it one line for each collective, and for each variant of it."""
    rows = select(measurements, options)
    lines = make_lines(rows)
    if not lines:
        raise UsageError("busbw_over_size: no row has a busbw; that takes N >= 2, S > 0 and an op that moves data")
    panels = []
    moving: list[str] = []
    for world_size in sorted({line.world_size for line in lines}):
        series, bands = [], []
        for line in lines:
            if line.world_size == world_size:
                drawn = to_series(line, line.busbw_Bps)
                plateau = _plateau_of(drawn)
                if plateau is None:
                    moving.append(f"{line.name} at N = {world_size}")
                else:
                    drawn = replace(drawn, value=plateau.busbw_Bps)
                    bands.append(_band(line, plateau))
                series.append(drawn)
        panels.append(Panel(f"N = {world_size}", X, Y, tuple(series), tuple(bands), options.wire))
    return Chart(
        "busbw over message size",
        "What the wires carry: busbw = algbw x bus factor, comparable across collectives.",
        tuple(panels),
        (
            *_plateau_notes(panels, moving),
            *options.wire_note,
            *repeats_note(lines),
            *marks_notes(lines),
            *left_out(rows),
        ),
    )


def _plateau_of(series: Series) -> Plateau | None:
    """The plateau of the points that carry no mark."""
    marked = {point.x for point in series.marked}
    trusted = [(x, y) for x, y in zip(series.x, series.y, strict=True) if x not in marked]
    return find_plateau([x for x, _ in trusted], [y for _, y in trusted])


def _band(line: Line, plateau: Plateau) -> Band:
    return Band(
        f"plateau of {line.name}",
        x_low=plateau.from_bytes,
        x_high=plateau.to_bytes,
        y_low=plateau.busbw_Bps * (1 - TOLERANCE),
        y_high=plateau.busbw_Bps * (1 + TOLERANCE),
        colour=line.collective,
    )


def _plateau_notes(panels: Sequence[Panel], moving: Sequence[str]) -> tuple[str, ...]:
    notes = []
    if any(panel.bands for panel in panels):
        notes.append(
            "Number at a line's end: its plateau in GB/s, the median busbw of the largest sizes (down to an eighth of the "
            "largest). Band: the sizes that agree within 5 %."
        )
    if moving:
        shown = ", ".join(moving[:6]) + (f" and {len(moving) - 6} more" if len(moving) > 6 else "")
        which = f"No plateau: {shown}" if notes else "No line has a plateau"
        notes.append(
            f"{which}. The largest sizes differ by more than 5 %, span less than a factor of 4, or carry marks."
        )
    return tuple(notes)


FIGURE = Figure("busbw_over_size", "busbw over message size, one line an op: plateaus and the wire's limit", build)
