"""Ways to do one collective over S: time and busbw, one line an algorithm, and where the fastest one changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from busbw.core.measurement import Measurement
from busbw.errors import UsageError
from busbw.plots.chart import Axis, Chart, Panel, Series
from busbw.plots.lines import has_bandwidth
from busbw.units import format_size

MOST_LINES = 8
TIME = (Axis("message size S", "size", "log2"), Axis("time per call", "time", "log"))
RATE = (Axis("message size S", "size", "log2"), Axis("busbw", "rate"))


def ways_chart(rows: Sequence[Measurement]) -> Chart:
    """One collective at one N by several algorithms (the label `algorithm`); UsageError where nothing can be drawn."""
    drawn = [row for row in rows if has_bandwidth(row)]
    if not drawn:
        raise UsageError("no row has a busbw; that takes N >= 2, S > 0 and an op that moves data")
    call = drawn[0].call
    ways: dict[str, dict[int, float]] = defaultdict(dict)
    for row in drawn:
        ways[row.labels.get("algorithm", "?")][row.call.size_bytes] = row.time_s
    sizes = sorted({row.call.size_bytes for row in drawn})
    best = {size: min((times[size], name) for name, times in ways.items() if size in times) for size in sizes}
    winners = list(dict.fromkeys(name for _, name in best.values()))
    others = sorted(
        (name for name in ways if name not in winners),
        key=lambda name: min(ways[name][size] / best[size][0] for size in ways[name]),
    )
    shown = (winners + others)[:MOST_LINES]
    series = [[], []]  # type: list[list[Series]]
    for name in shown:
        points = sorted(ways[name].items())
        x = tuple(float(size) for size, _ in points)
        for panel, y in (
            (0, tuple(time_s for _, time_s in points)),
            (1, tuple(_busbw(call.collective, call.world_size, size, time_s) for size, time_s in points)),
        ):
            series[panel].append(Series(name, x, y, f"way {name}"))
    return Chart(
        f"Ways to {call.collective} on {call.world_size} ranks",
        f"Predicted on {drawn[0].labels.get('topology', 'a machine')}.",
        (Panel("time", *TIME, tuple(series[0])), Panel("busbw", *RATE, tuple(series[1]))),
        _notes(best, ways, shown, len(rows) - len(drawn)),
    )


def _busbw(collective: str, world_size: int, size_bytes: int, time_s: float) -> float:
    from busbw.core.call import Call

    rate = Call(collective, size_bytes, world_size).busbw_Bps(time_s)
    assert rate is not None, "rows without a busbw were left out"
    return rate


def _notes(
    best: dict[int, tuple[float, str]], ways: dict[str, dict[int, float]], shown: Sequence[str], undrawn: int
) -> tuple[str, ...]:
    sizes = sorted(best)
    runs = [f"{best[sizes[0]][1]} from {format_size(sizes[0])}"]
    runs += [f"{best[b][1]} from {format_size(b)}" for a, b in pairwise(sizes) if best[a][1] != best[b][1]]
    notes = [f"Fastest of the sizes drawn: {', '.join(runs)}."]
    hidden = [name for name in ways if name not in shown]
    if hidden:
        notes.append(f"Not drawn, slower: {', '.join(hidden)}.")
    if undrawn:
        notes.append(f"Left out: {undrawn} rows without a busbw.")
    return tuple(notes)
