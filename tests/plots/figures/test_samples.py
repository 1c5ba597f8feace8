from __future__ import annotations

import pytest

from busbw.core.measurement import Mark, Samples
from busbw.errors import UsageError
from busbw.plots.figure import FigureOptions
from busbw.plots.figures.samples import FIGURE, MOST_RANKS, MOST_SAMPLES
from busbw.units import KIB, MIB

from ..rows import row


def test_one_strip_a_rank_in_the_order_of_the_samples() -> None:
    taken = Samples(10, ((1.0e-5, 1.1e-5, 1.2e-5), (1.0e-5, 1.0e-5, 1.0e-5)))
    (panel,) = FIGURE.build([row("all_reduce", 2, KIB, 1e-5, samples=taken)], FigureOptions()).panels
    assert [(strip.label, strip.colour, strip.x) for strip in panel.strips] == [
        ("rank 0", "rank=0", 1024.0),
        ("rank 1", "rank=1", 1024.0),
    ]
    assert panel.strips[0].y == pytest.approx((1.0, 1.1, 1.2))
    assert panel.y.unit == "ratio"


def test_of_many_ranks_the_slowest_is_among_those_drawn() -> None:
    times = [1e-5] * 64
    taken = row("all_reduce", 64, KIB, 1e-5, samples=Samples(1, tuple((t,) for t in times)), low_high=(9e-6, 1.1e-5))
    summary = taken.summary
    assert summary is not None
    chart = FIGURE.build([taken], FigureOptions())
    drawn = {strip.label for strip in chart.panels[0].strips}
    assert f"rank {summary.slowest_rank}" in drawn
    assert len(drawn) <= MOST_RANKS
    assert "Of 64 ranks the slowest and others evenly are drawn." in chart.notes


def test_many_samples_are_thinned_and_no_outlier_is_lost() -> None:
    values = (*(1e-5 + 1e-9 * i for i in range(500)), 9e-5, *(1e-5 + 1e-9 * i for i in range(501, 1000)))
    chart = FIGURE.build([row("all_reduce", 2, KIB, 1e-5, samples=Samples(1, (values, values)))], FigureOptions())
    strip = chart.panels[0].strips[0]
    assert len(strip.y) == MOST_SAMPLES
    assert (strip.y[0], strip.y[-1], max(strip.y)) == pytest.approx((1.0, 1.0999, 9.0))


def test_the_axis_holds_most_samples_and_counts_the_others() -> None:
    values = (*([1e-5] * 199), 9e-5)
    rows = [row("all_reduce", 2, size, 1e-5, samples=Samples(1, (values, values))) for size in (KIB, MIB)]
    chart = FIGURE.build(rows, FigureOptions())
    assert chart.panels[0].y.most == pytest.approx(1.05)
    assert "4 samples beyond the axis, at its edge as a triangle." in chart.notes


def test_marks_stand_once_a_size() -> None:
    mark = Mark("drift", "the level drifts")
    taken = Samples(1, ((1e-5,), (1e-5,)))
    chart = FIGURE.build([row("all_reduce", 2, KIB, 1e-5, samples=taken, marks=(mark,))], FigureOptions())
    assert [strip.marks for strip in chart.panels[0].strips] == [(mark,), ()]


def test_rows_without_samples_are_counted_or_refused() -> None:
    with pytest.raises(UsageError, match="samples: no row keeps its raw samples"):
        FIGURE.build([row("all_reduce", 2, KIB, 1e-5)], FigureOptions())
    taken = Samples(1, ((1e-5,), (1e-5,)))
    rows = [row("all_reduce", 2, KIB, 1e-5, samples=taken), row("all_reduce", 2, MIB, 1e-5)]
    assert "Left out, having no samples: 1 row." in FIGURE.build(rows, FigureOptions()).notes
