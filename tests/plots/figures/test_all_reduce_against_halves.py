from __future__ import annotations

from pathlib import Path

import pytest

from busbw.core.measurement import Mark
from busbw.errors import UsageError
from busbw.formats import read_results
from busbw.plots.figure import FigureOptions
from busbw.plots.figures.all_reduce_against_halves import FIGURE
from busbw.units import KIB, MIB

from ..rows import row


def rows_at(n: int, size: int, whole_s: float, scatter_s: float, gather_s: float, **more: object) -> list:
    names = ("all_reduce", "reduce_scatter", "all_gather")
    return [row(name, n, size, time_s, **more) for name, time_s in zip(names, (whole_s, scatter_s, gather_s))]  # type: ignore[arg-type]  # noqa: B905


def test_times_and_their_relative_difference_worked_by_hand() -> None:
    rows = rows_at(4, 64 * KIB, 10e-6, 8e-6, 7e-6) + rows_at(4, 16 * MIB, 2e-3, 1.1e-3, 0.95e-3)
    times, differences = FIGURE.build(rows, FigureOptions()).panels
    assert [(s.label, s.y) for s in times.series] == [
        ("AR N = 4", (10e-6, 2e-3)),
        ("RS + AG N = 4", (pytest.approx(15e-6), pytest.approx(2.05e-3))),
    ]
    (series,) = differences.series
    assert series.y == pytest.approx((0.5, 0.025))
    assert differences.y.unit == "share"


def test_the_interval_is_that_of_three_rows_together() -> None:
    # Each row is known to 1 %: the ratio to 1 % x sqrt(1 + 1/4 + 1/4) = 1.22 %.
    rows = rows_at(2, MIB, 2e-4, 1e-4, 1e-4)
    rows = [row(r.call.collective, 2, MIB, r.time_s, low_high=(0.99 * r.time_s, 1.01 * r.time_s)) for r in rows]
    _, differences = FIGURE.build(rows, FigureOptions()).panels
    (series,) = differences.series
    assert (series.low[0], series.high[0]) == (pytest.approx(-0.0121, abs=2e-4), pytest.approx(0.0122, abs=2e-4))


def test_a_mark_on_any_of_the_three_marks_the_difference() -> None:
    mark = Mark("drift", "the level drifts")
    rows = rows_at(2, MIB, 2e-4, 1e-4, 1e-4)
    rows[1] = row("reduce_scatter", 2, MIB, 1e-4, marks=(mark,))
    chart = FIGURE.build(rows, FigureOptions())
    assert chart.panels[1].series[0].marked[0].marks == (mark,)
    assert any(note.startswith("○ Read with care: 1 point;") for note in chart.notes)


def test_without_all_three_it_says_what_it_takes() -> None:
    with pytest.raises(UsageError, match="all_reduce, reduce_scatter and all_gather at one N"):
        FIGURE.build(rows_at(2, MIB, 2e-4, 1e-4, 1e-4)[:2], FigureOptions())


def test_the_posts_own_results(seed_files: list[Path]) -> None:
    rows = [m for file in seed_files for m in read_results(str(file)).measurements]
    chart = FIGURE.build(rows, FigureOptions())
    at = {series.label: series.y for series in chart.panels[1].series}
    assert [round(100 * at[f"N = {n}"][0]) for n in (2, 4, 8)] == [91, 98, 14]
    assert at["N = 8"][-1] == pytest.approx(0.0305, abs=0.0005)  # 59.2 + 49.3 ms against 105.3
    assert chart.notes[0].endswith("at N = 8 within 3.3 % from 16 MiB on.")
