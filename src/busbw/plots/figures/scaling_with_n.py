"""How one collective scales with N: algbw and busbw over S side by side, one line an N.

algbw is what the user feels and falls with N; where busbw falls onto one curve, the wires carry as much at every N and
only the algorithm's share of bytes has grown.
"""

from __future__ import annotations

from collections.abc import Sequence

from busbw.core.measurement import Measurement
from busbw.errors import UsageError
from busbw.plots.chart import Axis, Chart, Panel
from busbw.plots.figure import Figure, FigureOptions
from busbw.plots.lines import left_out, make_lines, marks_notes, pick_collectives, repeats_note, select, to_series

X = Axis("message size S", "size", "log2")


def build(measurements: Sequence[Measurement], options: FigureOptions) -> Chart:
    """Two panels for each collective; all_reduce unless others are asked for."""
    rows = select(measurements, options)
    lines = pick_collectives(make_lines(rows), options)
    if not lines:
        raise UsageError("scaling_with_n: no row has a busbw; that takes N >= 2, S > 0 and an op that moves data")
    collectives = tuple(dict.fromkeys(line.collective for line in lines))
    panels = []
    for collective in collectives:
        same = [line for line in lines if line.collective == collective]
        algbw = tuple(to_series(line, line.algbw_Bps, by_world_size=True) for line in same)
        busbw = tuple(to_series(line, line.busbw_Bps, by_world_size=True) for line in same)
        panels.append(Panel(f"{collective}: what the user feels", X, Axis("algbw = S / t", "rate"), algbw))
        panels.append(Panel(f"{collective}: what the wires carry", X, Axis("busbw", "rate"), busbw, lines=options.wire))
    return Chart(
        f"Scaling of {', '.join(collectives)} with N",
        "busbw = algbw x bus factor. Lines of busbw that lie on each other: N costs bytes, not wire speed.",
        tuple(panels),
        (*options.wire_note, *repeats_note(lines), *marks_notes(lines), *left_out(rows)),
    )


FIGURE = Figure("scaling_with_n", "algbw and busbw over size side by side, one line an N", build)
