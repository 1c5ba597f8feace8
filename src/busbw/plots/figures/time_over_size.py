"""Time over S on two logarithmic axes, one line an N: flat where latency is paid, of slope 1 where bytes are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from busbw.core.measurement import Measurement
from busbw.errors import UsageError
from busbw.plots.chart import Axis, Band, Chart, Panel, Remark, Series
from busbw.plots.figure import Figure, FigureOptions
from busbw.plots.fits import boundary, fit_line, ribbon, rough_size
from busbw.plots.lines import Line, left_out, make_lines, marks_notes, pick_collectives, repeats_note, select, to_series

if TYPE_CHECKING:
    from busbw.costs.curve import CurveFit

X = Axis("message size S", "size", "log2")
Y = Axis("time per call", "time", "log")
REMARKS = (Remark("latency-bound: flat", "top left"), Remark("bandwidth-bound: slope 1", "bottom right"))


def _seconds(size_bytes: int, time_s: float) -> float:
    return time_s


def build(measurements: Sequence[Measurement], options: FigureOptions) -> Chart:
    """One panel for each collective, all_reduce unless others are asked for: its rows, their fit, the latency floor."""
    rows = select(measurements, options)
    lines = pick_collectives(make_lines(rows), options)
    if not lines:
        raise UsageError("time_over_size: no row moves data between ranks; that takes N >= 2 and S > 0")
    panels, floors, untold = [], [], []
    for collective in dict.fromkeys(line.collective for line in lines):
        fits = [(line, fit_line(line)) for line in lines if line.collective == collective]
        panels.append(_panel(collective, fits))
        for line, fit in fits:
            found = boundary(fit)
            if found is None:
                untold.append(_name(line, lines))
            else:
                span = f"{rough_size(found.low)} to {rough_size(found.high)}"
                floors.append(f"{rough_size(found.value)} at {_name(line, lines)} ({span})")
    return Chart(
        "Time over message size",
        "Flat: latency, paid by every call. Rising with slope 1 (ten times the bytes, ten times the time): bandwidth.",
        tuple(panels),
        (
            *_notes(panels, floors, untold),
            *repeats_note(lines),
            *marks_notes(lines),
            *left_out(rows),
        ),
    )


def _panel(collective: str, fits: Sequence[tuple[Line, CurveFit | None]]) -> Panel:
    series: list[Series] = []
    ribbons, bands = [], []
    for line, fit in fits:
        drawn = to_series(line, _seconds, by_world_size=True)
        series.append(replace(drawn, joined=fit is None))
        if fit is not None:
            ribbons.append(ribbon(line, fit, drawn.colour))
        edge = boundary(fit)
        if edge is not None:  # one band over the other: darkest where every line is latency-bound
            bands.append(Band(f"latency floor of {line.name} at N = {line.world_size}", x_high=edge.value))
    remarks = REMARKS if bands else ()
    return Panel(collective, X, Y, tuple(series), tuple(bands), ribbons=tuple(ribbons), remarks=remarks)


def _notes(panels: Sequence[Panel], floors: Sequence[str], untold: Sequence[str]) -> tuple[str, ...]:
    notes = []
    if any(panel.ribbons for panel in panels):
        notes.append("Line: the fit, with the 95 % interval of a row measured in the same way.")
    if floors:
        shown = _some(floors, 4)
        notes.append(f"Shaded: up to the boundary, where latency and bytes cost the same; {shown}, 95 %.")
    if untold:
        notes.append(f"No boundary: the sizes of {_some(untold, 6)} do not show both a floor and a rate.")
    return tuple(notes)


def _some(words: Sequence[str], most: int) -> str:
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def _name(line: Line, lines: Sequence[Line]) -> str:
    several = len({other.collective for other in lines}) > 1
    words = [line.collective if several else "", f"N = {line.world_size}", line.variant]
    return " ".join(word for word in words if word)


FIGURE = Figure(
    "time_over_size", "time over size, log-log, one line an N: rows, fit, latency floor and boundary", build
)
