"""Two runs: the ratio of their times over S with its 95 % interval, and what of it is real."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePath

from busbw.comparing.comparison import CANNOT_TELL, FASTER, SAME, SLOWER, Comparison, RowComparison
from busbw.core.measurement import Mark, Measurement, Results, Run
from busbw.errors import UsageError
from busbw.plots.chart import Axis, Band, Chart, MarkedPoint, Panel, ReferenceLine, Series
from busbw.plots.figure import Figure, FigureOptions
from busbw.plots.lines import collective_order, count, has_bandwidth, left_out, select

X = Axis("message size S", "size", "log2")
WIDEST = 4.0
"""Intervals that reach further than this factor beyond the points end at the axis's edge."""


def build(measurements: Sequence[Measurement], options: FigureOptions) -> Chart:
    """One panel for each N, one line for each collective; B is the file that comes second."""
    from busbw.comparing import compare

    rows = select(measurements, options)
    files = list(dict.fromkeys(row.source.file for row in rows if row.source is not None))
    if len(files) != 2:
        held = f"these rows are of {count(len(files), 'file')}" if files else "these rows are of no file"
        raise UsageError(f"ratio_of_runs: takes the rows of two files, the one before and the one after; {held}")
    drawable = [row for row in rows if row.source is not None and has_bandwidth(row)]
    a, b = (tuple(row for row in drawable if row.source is not None and row.source.file == file) for file in files)
    try:
        found = compare(Results(Run(), a), Results(Run(), b))
    except UsageError as error:
        raise UsageError(f"ratio_of_runs: {error}") from error
    drawn = found.rows
    names = [PurePath(file).name for file in files]
    if names[0] == names[1]:
        names = files
    axis = _axis(drawn)
    worlds = sorted({row.call.world_size for row in drawn})
    panels = tuple(_panel(n, [row for row in drawn if row.call.world_size == n], axis, found) for n in worlds)
    return Chart(
        f"{names[1]} against {names[0]}",
        f"Time of B over time of A: above 1, B ({names[1]}) is slower.",
        panels,
        (f"{_capital(found.sentence())}.", *_legend(drawn, found), *_rest(found), *left_out(rows)),
    )


def _axis(rows: Sequence[RowComparison]) -> Axis:
    """From the points and, as far as it is reasonable, their intervals."""
    ratios = [row.ratio for row in rows]
    least, most = min(1.0, *(r.ratio for r in ratios)), max(1.0, *(r.ratio for r in ratios))
    reach = max(most - least, 0.05) * WIDEST / 2
    low = max(min([0.95, *(r.low for r in ratios)]), least - reach, 0.0)
    high = min(max([1.05, *(r.high for r in ratios)]), most + reach)
    pad = 0.05 * (high - low)
    return Axis("time B / time A", "ratio", least=max(0.0, low - pad), most=high + pad)


def _panel(n: int, rows: Sequence[RowComparison], axis: Axis, found: Comparison) -> Panel:
    by_line: dict[tuple[str, str], list[RowComparison]] = defaultdict(list)
    for row in rows:
        by_line[row.call.collective, row.work.curve_text()].append(row)
    keys = sorted(by_line, key=lambda key: (collective_order(key[0]), key[1]))
    several = {name for name, _ in keys if sum(other == name for other, _ in keys) > 1}
    series = []
    for collective, text in keys:
        members = sorted(by_line[collective, text], key=lambda row: row.call.size_bytes)
        variant = [other for name, other in keys if name == collective].index(text)
        label = text.replace(f" N={n}", "") if collective in several else collective
        series.append(_series(label, collective, variant, members))
    band = Band("the same", y_low=1 - found.resolution, y_high=1 + found.resolution)
    return Panel(f"N = {n}", X, axis, tuple(series), (band,), (ReferenceLine("no change", 1.0),), dodge=len(series) > 1)


def _series(label: str, collective: str, variant: int, rows: Sequence[RowComparison]) -> Series:
    real = tuple(
        MarkedPoint(
            float(row.call.size_bytes), row.ratio.ratio, (Mark(row.ratio.verdict, f"really {row.ratio.verdict}"),)
        )
        for row in rows
        if row.ratio.verdict in (SLOWER, FASTER)
    )
    return Series(
        label,
        tuple(float(row.call.size_bytes) for row in rows),
        tuple(row.ratio.ratio for row in rows),
        collective,
        tuple(row.ratio.low for row in rows),
        tuple(row.ratio.high for row in rows),
        real,
        variant,
    )


def _legend(rows: Sequence[RowComparison], found: Comparison) -> tuple[str, ...]:
    verdicts = [row.ratio.verdict for row in rows]
    counts = ", ".join(
        f"{verdicts.count(verdict)} {verdict}" for verdict in (SLOWER, FASTER, SAME, CANNOT_TELL) if verdict in verdicts
    )
    real = "\N{WHITE CIRCLE} A change that is real. " if {SLOWER, FASTER} & set(verdicts) else ""
    return (
        f"{real}Rows: {counts}. Bar: 95 % interval; band: within {100 * found.resolution:.0f} % counts as the same.",
    )


def _rest(found: Comparison) -> tuple[str, ...]:
    notes = [f"{_capital(note)}." for note in found.notes[:1]]
    if found.unmatched:
        notes.append(f"{count(len(found.unmatched), 'row')} of one file alone not drawn.")
    if found.refused:
        notes.append(f"{count(len(found.refused), 'row')} not compared: {found.refused[0].reason}.")
    return tuple(notes)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


FIGURE = Figure("ratio_of_runs", "two files: the ratio of their times over size with its interval", build)
