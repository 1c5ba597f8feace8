"""Time over S on two logarithmic axes, one line an N: flat where latency is paid, of slope 1 where bytes are."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.core.measurement import Measurement
from busbw.errors import UsageError
from busbw.plots.chart import Axis, Chart, Panel
from busbw.plots.figure import Figure, FigureOptions
from busbw.plots.lines import left_out, make_lines, marks_notes, pick_collectives, repeats_note, select, to_series

X = Axis("message size S", "size", "log2")
Y = Axis("time per call", "time", "log")


def _seconds(size_bytes: int, time_s: float) -> float:
    return time_s


def build(measurements: Sequence[Measurement], options: FigureOptions) -> Chart:
    """One panel for each collective; all_reduce unless others are asked for."""
    rows = select(measurements, options)
    lines = pick_collectives(make_lines(rows), options)
    if not lines:
        raise UsageError("time_over_size: no row moves data between ranks; that takes N >= 2 and S > 0")
    collectives = tuple(dict.fromkeys(line.collective for line in lines))
    panels = tuple(
        Panel(
            collective,
            X,
            Y,
            tuple(to_series(line, _seconds, by_world_size=True) for line in lines if line.collective == collective),
        )
        for collective in collectives
    )
    return Chart(
        "Time over message size",
        "Flat: latency, paid by every call. Rising with slope 1 (ten times the bytes, ten times the time): bandwidth.",
        panels,
        (*repeats_note(lines), *marks_notes(lines), *left_out(rows)),
    )


FIGURE = Figure("time_over_size", "time over size, log-log, one line an N: the latency floor and the slope", build)
