from __future__ import annotations

from pathlib import Path

import pytest

from busbw.core.finding import Facts
from busbw.core.measurement import Mark
from busbw.errors import UsageError
from busbw.findings._evidence import Evidence
from busbw.formats import read_results
from busbw.plots.chart import Chart, Panel
from busbw.plots.figure import FigureOptions
from busbw.plots.figures.busbw_over_size import FIGURE, find_plateau
from busbw.units import GIB, KIB, MIB

from ..rows import row

SIZES = (4.0 * KIB, 64.0 * KIB, 1.0 * MIB, 16.0 * MIB, 256.0 * MIB, 1.0 * GIB)


@pytest.fixture
def chart(golden: Path) -> Chart:
    return FIGURE.build(read_results(str(golden / "plots.csv")).measurements, FigureOptions(wire_limit_Bps=25e9))


def test_one_panel_an_n_and_one_line_an_op(chart: Chart) -> None:
    assert [(panel.title, [s.label for s in panel.series]) for panel in chart.panels] == [
        ("N = 2", ["all_reduce"]),
        ("N = 4", ["all_gather", "all_reduce"]),
    ]
    panel = chart.panels[0]
    assert (panel.x.unit, panel.x.scale, panel.y.unit, panel.y.scale) == ("size", "log2", "rate", "linear")


def test_busbw_worked_by_hand(chart: Chart) -> None:
    two, four = chart.panels
    assert two.series[0].x == SIZES
    # Bus factor 2(N-1)/N: 1 at N = 2, 1.5 at N = 4; all_gather's (N-1)/N is 0.75 there.
    assert two.series[0].y == pytest.approx((0.4e9, 5e9, 16e9, 20e9, 21e9, 20.6e9), rel=1e-5)
    assert four.series[0].y == pytest.approx((0.3e9, 4.5e9, 15e9, 18e9, 19.5e9, 22.5e9), rel=1e-5)
    assert four.series[1].y == pytest.approx((0.3e9, 6e9, 15e9, 19.2e9, 19.5e9, 19.8e9), rel=1e-5)


def test_plateau_is_the_median_of_the_largest_sizes_that_agree(chart: Chart) -> None:
    two, four = chart.panels
    assert two.series[0].value == pytest.approx(20.8e9, rel=1e-5)  # of 21 and 20.6: 16 MiB is below an eighth of 1 GiB
    assert four.series[1].value == pytest.approx(19.65e9, rel=1e-5)  # of 19.5 and 19.8
    assert four.series[0].value is None  # 19.5 and 22.5 are 14 % apart: still rising
    (band,) = four.bands
    assert (band.x_low, band.x_high, band.colour) == (16.0 * MIB, 1.0 * GIB, "all_reduce")
    assert (band.y_low, band.y_high) == (
        pytest.approx(0.95 * 19.65e9, rel=1e-5),
        pytest.approx(1.05 * 19.65e9, rel=1e-5),
    )


def test_the_wire_limit_is_a_line_in_each_panel(chart: Chart) -> None:
    assert [[(line.label, line.y) for line in panel.lines] for panel in chart.panels] == [
        [("wire 25.0 GB/s", 25e9)]
    ] * 2


def test_notes_say_what_the_reader_has_to_know(chart: Chart) -> None:
    assert chart.notes == (
        "Number at a line's end: its plateau in GB/s, the median busbw of the largest sizes (down to an eighth of the "
        "largest). Band: the sizes that agree within 5 %.",
        "No plateau: all_gather at N = 4. The largest sizes differ by more than 5 %, span less than a factor of 4, "
        "or carry marks.",
        "Left out, having no busbw: 1 row at N = 1, 1 row without data to move (barrier, S = 0).",
    )


@pytest.mark.parametrize(
    ("y", "plateau"),
    [
        ((1, 10, 20, 20, 20, 20), (20, SIZES[2])),
        ((1, 10, 15, 19, 20, 21), (20.5, SIZES[3])),  # the median of 256 MiB and 1 GiB
        ((1, 10, 15, 18, 20, 22), (21, SIZES[4])),  # 18 is more than 5 % below the median of 18, 20, 22
        ((1, 2, 4, 8, 16, 32), None),
        ((30, 25, 20, 16, 13, 10), None),
    ],
)
def test_plateau_rule(y: tuple[float, ...], plateau: tuple[float, float] | None) -> None:
    found = find_plateau(SIZES, y)
    assert (None if found is None else (found.busbw_Bps, found.from_bytes)) == plateau


def test_the_number_is_that_of_the_findings(seed_files: list[Path]) -> None:
    results = [read_results(str(path)) for path in seed_files]
    rows = [each for result in results for each in result.measurements]
    evidence = Evidence(rows, Facts(), results)
    levels = {level.name: level.value for level in map(evidence.plateau, evidence.curves) if level}
    bands = 0
    for panel in FIGURE.build(rows, FigureOptions()).panels:
        for series in panel.series:
            if series.value is not None:
                bands += 1
                name = f"plateau of {series.label} {panel.title.replace(' ', '')}"
                assert series.value == pytest.approx(levels[name], rel=1e-12), name
    assert bands == 18


def test_a_plateau_spans_at_least_a_factor_of_four() -> None:
    assert find_plateau((512.0, 1024.0), (20.0, 20.0)) is None
    assert find_plateau((256.0, 1024.0), (20.0, 20.0)) is not None
    assert find_plateau((1024.0,), (20.0,)) is None


def test_marked_rows_are_marked_points() -> None:
    mark = Mark("few_samples", "3 samples only")
    chart = FIGURE.build([row("all_reduce", 2, MIB, 1e-3, marks=(mark,))], FigureOptions())
    (point,) = chart.panels[0].series[0].marked
    assert (point.x, point.y, point.marks) == (MIB, pytest.approx(MIB / 1e-3), (mark,))
    assert "○ Read with care: all_reduce, N = 2, 1 MiB: 3 samples only." in chart.notes


def test_marked_points_make_no_plateau() -> None:
    mark = Mark("drift", "the level drifts")
    rows = [row("all_reduce", 2, int(size), size / 20e9) for size in SIZES]
    assert FIGURE.build(rows, FigureOptions()).panels[0].series[0].value == pytest.approx(20e9)
    rows = [row("all_reduce", 2, int(size), size / 20e9, marks=(mark,)) for size in SIZES]
    chart = FIGURE.build(rows, FigureOptions())
    assert (chart.panels[0].series[0].value, chart.panels[0].bands) == (None, ())


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(UsageError, match="busbw_over_size: no row has a busbw"):
        FIGURE.build([row("all_reduce", 1, MIB, 1e-3), row("barrier", 4, 0, 1e-5)], FigureOptions())


def test_the_posts_own_results(seed_files: list[Path]) -> None:
    rows = [m for file in seed_files for m in read_results(str(file)).measurements]
    chart = FIGURE.build(rows, FigureOptions())
    assert [panel.title for panel in chart.panels] == ["N = 2", "N = 4", "N = 8"]
    at_8: Panel = chart.panels[2]
    plateaus = {series.label: round(series.value / 1e9, 1) for series in at_8.series if series.value is not None}
    assert plateaus == {
        "broadcast": 19.4,
        "scatter": 50.1,
        "gather": 44.2,
        "all_gather": 19.0,
        "reduce_scatter": 15.9,
        "all_reduce": 17.8,
    }
