from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.comparing import compare
from busbw.core.measurement import Results, Run
from busbw.errors import UsageError
from busbw.plots.figure import FigureOptions
from busbw.plots.figures.ratio_of_runs import FIGURE

from ..rows import row, two_runs


def test_the_ratio_of_each_row_with_its_interval() -> None:
    chart = FIGURE.build(two_runs(), FigureOptions())
    assert chart.title == "b.csv against a.csv"
    assert [panel.title for panel in chart.panels] == ["N = 2", "N = 4"]
    by_name = {series.label: series for series in chart.panels[0].series}
    assert by_name["all_reduce"].y == pytest.approx([1.5] * 6)
    assert by_name["all_gather"].y == pytest.approx([1.0] * 6)
    for series in by_name.values():
        assert all(lo < y < hi for lo, y, hi in zip(series.low, series.y, series.high, strict=True) if lo and hi)


def test_what_is_real_is_what_compare_calls_real() -> None:
    rows = [replace(r, repeat=i) for i in range(6) for r in two_runs() if r.call.world_size == 2]
    rows = [replace(r, time_s=r.time_s * (1 + 0.002 * r.repeat), summary=None, samples=None) for r in rows]
    sides = [tuple(r for r in rows if r.source and r.source.file == name) for name in ("a.csv", "b.csv")]
    found = compare(*(Results(Run(), side) for side in sides))
    chart = FIGURE.build(rows, FigureOptions())
    marked = {series.label: len(series.marked) for series in chart.panels[0].series}
    assert marked == {"all_gather": 0, "reduce_scatter": 0, "all_reduce": 6}
    assert sum(marked.values()) == sum(r.ratio.verdict == "slower" for r in found.rows)
    assert chart.notes[0].startswith("Slower: 6 of 18 rows slower")


def test_a_band_shows_what_counts_as_the_same() -> None:
    (band,) = FIGURE.build(two_runs(), FigureOptions()).panels[0].bands
    assert (band.y_low, band.y_high) == (0.95, 1.05)


@pytest.mark.parametrize(("files", "held"), [(("a",), "1 file"), (("a", "b", "c"), "3 files")])
def test_it_takes_two_files(files: tuple[str, ...], held: str) -> None:
    rows = [row("all_reduce", 2, 1024, 1e-5, file=file) for file in files]
    with pytest.raises(UsageError, match=r"^ratio_of_runs: takes the rows of two files") as raised:
        FIGURE.build(rows, FigureOptions())
    assert held in str(raised.value)


def test_files_without_a_common_row_are_refused_by_name() -> None:
    rows = [row("all_reduce", 2, 1024, 1e-5, file="a"), row("all_gather", 2, 1024, 1e-5, file="b")]
    with pytest.raises(UsageError, match=r"^ratio_of_runs: A and B have no row"):
        FIGURE.build(rows, FigureOptions())
