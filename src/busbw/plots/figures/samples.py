"""The samples of each row: a strip a size, in the order in which they were taken, ranks as colours.

Inside a strip time runs from left to right, so a drift is a slope, a change of level a step, and two speeds are two rows
of dots. Heights are relative to the row's time, so that all sizes share an axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from busbw.core.measurement import Measurement
from busbw.errors import UsageError
from busbw.plots.chart import Axis, Chart, Panel, ReferenceLine, Strip
from busbw.plots.figure import Figure, FigureOptions
from busbw.plots.lines import Line, count, has_bandwidth, left_out, make_groups, select

X = Axis("message size S", "size", "log2")
MOST_RANKS = 8
"""Ranks of one row that are drawn; of more, the slowest and others evenly."""
MOST_SAMPLES = 48
"""Samples of one rank and row that are drawn; of more, the least and the largest of each stretch."""
MOST_PANELS = 6
SHOWN = 0.98
"""The share of all samples that the y axis holds; the others stand at its edge."""
LEAST_HALF = 0.05


def build(measurements: Sequence[Measurement], options: FigureOptions) -> Chart:
    """One panel for each line of rows with samples; those that vary most where there are many."""
    rows = select(measurements, options)
    groups = [(line, kept) for line, members in make_groups(rows) if (kept := _with_samples(members))]
    if not groups:
        raise UsageError(
            "samples: no row keeps its raw samples; busbw bench writes them into its results file (.jsonl)"
        )
    chosen = sorted(groups, key=lambda group: -_restlessness(group[1]))[:MOST_PANELS]
    shown = [group for group in groups if group in chosen]
    strips = {line: tuple(_strips(members)) for line, members in shown}
    values = sorted(
        sample / row.time_s
        for _, members in shown
        for row in members
        if row.samples is not None
        for rank in row.samples.per_rank_s
        for sample in rank
    )
    low, high = _limits(values)
    axis = Axis("time / the row's time", "ratio", least=low, most=high)
    panels = tuple(
        Panel(f"{line.name}, N = {line.world_size}", X, axis, lines=(ReferenceLine("row", 1.0),), strips=parts)
        for line, parts in strips.items()
    )
    beyond = sum(not low <= y <= high for y in values)
    return Chart(
        "Samples of each row",
        "One strip a size; in it, time runs from left to right. A slope is drift, a step is a change of level.",
        panels,
        (
            *_thinned(shown),
            *([f"{count(beyond, 'sample')} beyond the axis, at its edge as a triangle."] if beyond else []),
            *_marks(strips.values()),
            *_missing(rows, groups, shown),
            *left_out(rows),
        ),
    )


def _with_samples(rows: Iterable[Measurement]) -> list[Measurement]:
    return [row for row in rows if row.samples is not None and any(row.samples.per_rank_s) and row.time_s > 0]


def _restlessness(rows: Sequence[Measurement]) -> float:
    """How far samples lie from the time of their row, over all rows of a line: what is worth a look comes first."""
    return max(
        median(abs(math.log(value / row.time_s)) for rank in row.samples.per_rank_s for value in rank if value > 0)
        for row in rows
        if row.samples is not None
    )


def _strips(rows: Sequence[Measurement]) -> Iterable[Strip]:
    """Rows of one size, one after the other; each rank's samples in order."""
    sizes = sorted({row.call.size_bytes for row in rows})
    for size in sizes:
        same = [row for row in rows if row.call.size_bytes == size]
        marks = tuple(dict.fromkeys(mark for row in same for mark in row.marks))
        for rank in _ranks(same):
            values = tuple(
                sample / row.time_s
                for row in same
                if row.samples is not None and rank < len(row.samples.per_rank_s)
                for sample in row.samples.per_rank_s[rank]
            )
            if values:
                yield Strip(f"rank {rank}", float(size), _thinned_out(values), f"rank={rank}", marks)
                marks = ()  # one ring a size


def _ranks(rows: Sequence[Measurement]) -> list[int]:
    """All ranks, or the slowest of these rows and others evenly."""
    most = max(len(row.samples.per_rank_s) for row in rows if row.samples is not None)
    if most <= MOST_RANKS:
        return list(range(most))
    slowest = next((row.summary.slowest_rank for row in rows if row.summary is not None), 0)
    return sorted({*(round(i * (most - 1) / (MOST_RANKS - 2)) for i in range(MOST_RANKS - 1)), slowest})


def _thinned_out(values: tuple[float, ...]) -> tuple[float, ...]:
    """The least and the largest of each of 24 stretches, in their order: no outlier is lost."""
    if len(values) <= MOST_SAMPLES:
        return values
    kept: list[int] = []
    stretches = MOST_SAMPLES // 2
    for i in range(stretches):
        places = range(i * len(values) // stretches, (i + 1) * len(values) // stretches)
        kept += sorted((min(places, key=values.__getitem__), max(reversed(places), key=values.__getitem__)))
    return tuple(values[place] for place in kept)


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """An axis around 1 that holds most samples, and is no narrower than 5 % each way."""
    out = int(len(values) * (1 - SHOWN) / 2)
    low, high = values[out], values[-1 - out]
    pad = 0.1 * (high - low)
    return min(low - pad, 1 - LEAST_HALF), max(high + pad, 1 + LEAST_HALF)


def _thinned(groups: Sequence[tuple[Line, Sequence[Measurement]]]) -> tuple[str, ...]:
    rows = [row for _, members in groups for row in members]
    ranks = max(len(row.samples.per_rank_s) for row in rows if row.samples is not None)
    samples = max(len(rank) for row in rows if row.samples is not None for rank in row.samples.per_rank_s)
    notes = []
    if ranks > MOST_RANKS:
        notes.append(f"Of {ranks} ranks the slowest and others evenly are drawn.")
    if samples > MOST_SAMPLES:
        notes.append(
            f"Of up to {samples} samples a row and rank {MOST_SAMPLES} are drawn: the least and the largest of each stretch."
        )
    return tuple(notes)


def _marks(strips: Iterable[Sequence[Strip]]) -> tuple[str, ...]:
    codes = [mark.code for parts in strips for strip in parts for mark in strip.marks]
    if not codes:
        return ()
    counts = ", ".join(f"{code} ({count(codes.count(code), 'row')})" for code in sorted(set(codes)))
    return (f"\N{WHITE CIRCLE} Read with care: {counts}; busbw show gives the reasons.",)


def _missing(
    rows: Sequence[Measurement],
    groups: Sequence[tuple[Line, Sequence[Measurement]]],
    shown: Sequence[tuple[Line, Sequence[Measurement]]],
) -> tuple[str, ...]:
    notes = []
    if len(groups) > len(shown):
        notes.append(f"{count(len(groups) - len(shown), 'calmer line')} not drawn; --op and --world choose.")
    without = sum(map(has_bandwidth, rows)) - sum(len(members) for _, members in groups)
    if without:
        notes.append(f"Left out, having no samples: {count(without, 'row')}.")
    return tuple(notes)


FIGURE = Figure("samples", "the samples of each row in order, ranks as colours: drift, steps, two speeds", build)
