from __future__ import annotations

from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.formats import read_results
from busbw.plots.figure import FigureOptions
from busbw.plots.figures.scaling_with_n import FIGURE

from ..rows import row


def test_algbw_and_busbw_of_all_reduce_side_by_side(golden: Path) -> None:
    chart = FIGURE.build(read_results(str(golden / "plots.csv")).measurements, FigureOptions(wire_limit_Bps=25e9))
    algbw, busbw = chart.panels
    assert [panel.title for panel in chart.panels] == [
        "all_reduce: what the user feels",
        "all_reduce: what the wires carry",
    ]
    assert [(series.label, series.colour) for series in algbw.series] == [("N = 2", "N=2"), ("N = 4", "N=4")]
    assert algbw.series[1].y == pytest.approx((0.2e9, 4e9, 10e9, 12.8e9, 13e9, 13.2e9), rel=1e-5)
    assert busbw.series[1].y == pytest.approx((0.3e9, 6e9, 15e9, 19.2e9, 19.5e9, 19.8e9), rel=1e-5)
    assert busbw.series[0].y == algbw.series[0].y  # at N = 2 the factor is 1
    assert ([line.y for line in algbw.lines], [line.y for line in busbw.lines]) == ([], [25e9])


def test_other_collectives_when_asked_for(golden: Path) -> None:
    rows = read_results(str(golden / "plots.csv")).measurements
    chart = FIGURE.build(rows, FigureOptions(collectives=("all_gather", "all_reduce")))
    assert [panel.title.split(":")[0] for panel in chart.panels] == ["all_gather"] * 2 + ["all_reduce"] * 2
    assert chart.title == "Scaling of all_gather, all_reduce with N"


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(UsageError, match="scaling_with_n: no row has a busbw"):
        FIGURE.build([row("all_reduce", 1, 1024, 1e-3)], FigureOptions())


def test_the_posts_own_results(seed_files: list[Path]) -> None:
    rows = [m for file in seed_files for m in read_results(str(file)).measurements]
    algbw, busbw = FIGURE.build(rows, FigureOptions()).panels
    assert [round(series.y[-1] / 1e9, 1) for series in algbw.series] == [21.6, 13.1, 10.2]
    assert [round(series.y[-1] / 1e9, 1) for series in busbw.series] == [21.6, 19.7, 17.8]
