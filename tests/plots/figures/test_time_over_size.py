from __future__ import annotations

from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.formats import read_results
from busbw.plots.figure import FigureOptions
from busbw.plots.figures.time_over_size import FIGURE

from ..rows import row


def test_seconds_on_two_logarithmic_axes_one_line_an_n(golden: Path) -> None:
    chart = FIGURE.build(read_results(str(golden / "plots.csv")).measurements, FigureOptions())
    (panel,) = chart.panels
    assert (panel.title, panel.x.scale, panel.y.scale, panel.y.unit) == ("all_reduce", "log2", "log", "time")
    assert [series.label for series in panel.series] == ["N = 2", "N = 4"]
    assert panel.series[0].y[:3] == pytest.approx((10.24e-6, 13.1072e-6, 65.536e-6))


def test_an_interval_of_times_is_kept_as_it_is() -> None:
    chart = FIGURE.build([row("all_reduce", 2, 1024, 1e-3, low_high=(0.9e-3, 1.2e-3))], FigureOptions())
    series = chart.panels[0].series[0]
    assert (series.low, series.y, series.high) == ((0.9e-3,), (1e-3,), (1.2e-3,))


def test_a_panel_for_each_collective_that_is_asked_for(golden: Path) -> None:
    rows = read_results(str(golden / "plots.csv")).measurements
    chart = FIGURE.build(rows, FigureOptions(collectives=("all_reduce", "all_gather")))
    assert [panel.title for panel in chart.panels] == ["all_gather", "all_reduce"]


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(UsageError, match="time_over_size: no row moves data"):
        FIGURE.build([row("barrier", 4, 0, 1e-5)], FigureOptions())


def test_the_posts_own_results(seed_files: list[Path]) -> None:
    rows = [m for file in seed_files for m in read_results(str(file)).measurements]
    (panel,) = FIGURE.build(rows, FigureOptions()).panels
    assert [series.y[0] for series in panel.series] == pytest.approx([11.4e-6, 14.2e-6, 58.9e-6])
