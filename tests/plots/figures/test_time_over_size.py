from __future__ import annotations

from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.formats import read_results
from busbw.plots.figure import FigureOptions
from busbw.plots.figures.time_over_size import FIGURE

from ..rows import SIZES, row, two_runs


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


def test_the_floor_is_shaded_up_to_the_fitted_boundary() -> None:
    # T = 12 us + S / 20 GB/s at N = 2: both terms cost the same at 240 kB.
    (panel,) = FIGURE.build(two_runs()[:36], FigureOptions(world_sizes=(2,))).panels
    (band,) = panel.bands
    assert band.x_high == pytest.approx(12e-6 * 20e9, rel=0.01)
    assert [remark.text for remark in panel.remarks] == ["latency-bound: flat", "bandwidth-bound: slope 1"]
    (fit,) = panel.ribbons
    assert (fit.x[0], fit.x[-1]) == (SIZES[0], SIZES[-1])
    assert fit.y[0] == pytest.approx(12e-6 + SIZES[0] / 20e9, rel=0.01)
    assert all(low <= middle <= high for low, middle, high in zip(fit.low, fit.y, fit.high, strict=True))
    assert not panel.series[0].joined


def test_without_a_floor_nothing_is_shaded_and_a_note_says_so() -> None:
    rows = [row("all_reduce", 2, size, size / 20e9) for size in SIZES]
    chart = FIGURE.build(rows, FigureOptions())
    assert (chart.panels[0].bands, chart.panels[0].remarks) == ((), ())
    assert "No boundary: the sizes of N = 2 do not show both a floor and a rate." in chart.notes


def test_the_posts_boundaries(seed_files: list[Path]) -> None:
    rows = [m for file in seed_files for m in read_results(str(file)).measurements]
    (panel,) = FIGURE.build(rows, FigureOptions()).panels
    found = [band.x_high / 2**20 for band in panel.bands if band.x_high is not None]
    assert found == pytest.approx([0.20, 0.17, 0.59], abs=0.02)
