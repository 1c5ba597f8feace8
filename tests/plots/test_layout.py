from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.plots.axes import TICK_SIZE, axis_title, format_value
from busbw.plots.chart import Axis, Boundary, Chart, Layer, Panel, ReferenceLine, Remark, Series, Strip
from busbw.plots.layout import LABEL_HEIGHT, PanelLayout, lay_out, spread
from busbw.plots.text import text_width
from busbw.units import GIB, KIB, MIB

SIZES = (4.0 * KIB, 64.0 * KIB, 1.0 * MIB, 16.0 * MIB, 256.0 * MIB, 1.0 * GIB)
X, RATE = Axis("message size S", "size", "log2"), Axis("busbw", "rate")


def line(label: str, *y: float, x: tuple[float, ...] = SIZES) -> Series:
    return Series(label, x, y, label)


def place(panel: Panel, width: float = 760.0) -> PanelLayout:
    return lay_out(Chart("t", "s", (panel,)), width).panels[0]


def test_labels_keep_to_their_lines_where_there_is_room() -> None:
    assert spread([10.0, 100.0, 50.0], 16, 8, 200) == [10.0, 100.0, 50.0]


def test_labels_that_want_one_place_share_it_around_their_mean() -> None:
    assert spread([50.0, 50.0, 50.0], 16, 8, 200) == [34.0, 50.0, 66.0]


def test_labels_stay_inside() -> None:
    assert spread([0.0, 0.0], 16, 8, 200) == [8.0, 24.0]
    assert spread([200.0, 200.0], 16, 8, 192) == [176.0, 192.0]


@given(st.lists(st.floats(0, 300), min_size=1, max_size=18))
def test_labels_never_overlap_and_keep_their_order(wanted: list[float]) -> None:
    places = spread(wanted, 16, 8, 300)
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    assert all(places[b] - places[a] >= 16 - 1e-9 for a, b in pairwise(order))
    assert min(places) >= 8 - 1e-9
    assert max(places) <= max(300, 8 + 16 * (len(wanted) - 1)) + 1e-9


def test_six_lines_that_end_together_have_six_labels_apart() -> None:
    lines = tuple(line(name, 0.1e9, 1e9, 9e9, 18e9, 19e9, 19e9 + i * 1e7) for i, name in enumerate("abcdef"))
    laid = place(Panel("", X, RATE, lines))
    middles = sorted(label.y for label in laid.labels)
    assert all(b - a >= LABEL_HEIGHT for a, b in pairwise(middles))
    assert [label.text for label in sorted(laid.labels, key=lambda label: label.y)] == list("fedcba")


def test_a_panel_grows_when_its_labels_need_room() -> None:
    lines = tuple(line(f"op{i}", *(1e9 + i * 1e6 for _ in SIZES)) for i in range(40))
    laid = place(Panel("", X, RATE, lines))
    assert laid.height == 40 * LABEL_HEIGHT
    assert max(label.y for label in laid.labels) <= laid.height


def test_ticks_are_sizes_of_the_data_in_binary_units() -> None:
    laid = place(Panel("", X, RATE, (line("a", 1e9, 2e9, 3e9, 4e9, 5e9, 6e9),)))
    assert [tick.text for tick in laid.x.ticks] == ["4 KiB", "64 KiB", "1 MiB", "16 MiB", "256 MiB", "1 GiB"]
    assert [tick.value for tick in laid.x.ticks] == list(SIZES)


@pytest.mark.parametrize("width", [320, 380, 500, 760, 1200])
@pytest.mark.parametrize("octaves", [range(3, 31), range(10, 27, 2), range(12, 14), range(20, 21)])
def test_tick_texts_do_not_touch_and_name_both_ends(width: float, octaves: range) -> None:
    x = tuple(2.0**k for k in octaves)
    laid = place(Panel("", X, RATE, (line("a", *(1e9 for _ in x), x=x),)), width)
    boxes = [(laid.x.pixel(tick.value), text_width(tick.text, TICK_SIZE) / 2) for tick in laid.x.ticks]
    assert all(b - wide_b > a + wide_a for (a, wide_a), (b, wide_b) in pairwise(boxes))
    assert laid.x.ticks[-1].value == x[-1]
    assert laid.x.ticks[0].value == x[0]


def test_dense_sizes_get_ticks_at_a_regular_distance() -> None:
    x = tuple(2.0**k for k in range(3, 31))
    laid = place(Panel("", X, RATE, (line("a", *(1e9 for _ in x), x=x),)))
    gaps = [round(b.value / a.value) for a, b in pairwise(laid.x.ticks)]
    assert len(set(gaps[1:-1])) == 1  # the first and the last size have their ticks in any case


def test_sizes_that_are_no_powers_of_two_are_ticked_too() -> None:
    x = (1e3, 3e4, 1e6, 2.5e7, 1e9)
    panel = Panel("", X, RATE, (line("a", 1e9, 2e9, 3e9, 4e9, 5e9, x=x),))
    assert [tick.value for tick in place(panel).x.ticks] == list(x)
    x = (3e4, 3.1e4, 1e6, 1.2e6, 1e9)
    panel = Panel("", X, RATE, (line("a", 1e9, 2e9, 3e9, 4e9, 5e9, x=x),))
    assert [tick.value for tick in place(panel).x.ticks] == [3e4, 1e6, 1e9]


def test_sizes_rounded_to_whole_shards_are_ticked_at_the_power_of_two() -> None:
    x = (4092.0, 65535.0, 1048575.0)  # N = 3 does not divide the powers
    laid = place(Panel("", X, RATE, (line("a", 1e9, 2e9, 3e9, x=x),)))
    assert [tick.text for tick in laid.x.ticks] == ["4 KiB", "64 KiB", "1 MiB"]


def test_rates_start_at_zero_and_are_ticked_in_GBps() -> None:  # noqa: N802
    laid = place(Panel("", X, RATE, (line("a", 0.1e9, 1e9, 9e9, 18e9, 19e9, 19e9),)))
    assert [tick.text for tick in laid.y.ticks] == ["0", "5", "10", "15"]
    assert (laid.y.low, laid.y.high) == (0.0, pytest.approx(19e9 * 1.05))


def test_a_reference_line_is_inside_the_range_and_has_a_label() -> None:
    panel = Panel("", X, RATE, (line("a", *(1e9 for _ in SIZES)),), lines=(ReferenceLine("wire 50.0 GB/s", 50e9),))
    laid = place(panel)
    assert laid.y.high > 50e9
    assert [label.text for label in laid.labels] == ["a", "wire 50.0 GB/s"]
    assert laid.labels[1].colour is None


def test_times_are_ticked_at_decades_with_their_unit() -> None:
    y = (11.4e-6, 11.4e-6, 64e-6, 835e-6, 12.8e-3, 49.8e-3)
    laid = place(Panel("", X, Axis("time per call", "time", "log"), (line("a", *y),)))
    assert [tick.text for tick in laid.y.ticks] == ["10 us", "100 us", "1 ms", "10 ms"]
    assert (laid.y.low, laid.y.high) == (pytest.approx(10e-6), pytest.approx(50e-3))


def test_times_within_two_decades_get_ticks_between() -> None:
    laid = place(
        Panel("", X, Axis("time per call", "time", "log"), (line("a", *(3e-3, 4e-3, 5e-3, 6e-3, 7e-3, 9e-3)),))
    )
    assert [tick.text for tick in laid.y.ticks] == ["2 ms", "5 ms", "10 ms"]


def test_a_range_maps_there_and_back() -> None:
    laid = place(Panel("", X, RATE, (line("a", 1e9, 2e9, 3e9, 4e9, 5e9, 6e9),)))
    for axis in (laid.x, laid.y):
        assert axis.pixel(axis.low) == 0.0
        assert axis.pixel(axis.high) == pytest.approx(axis.length)
        assert axis.pixel(axis.value(-20.0)) == pytest.approx(-20.0)


def test_panels_share_ranges_and_align() -> None:
    small = Panel("N = 2", X, RATE, (line("a", *(1e9 for _ in SIZES)),))
    large = Panel("N = 8", X, RATE, (line("reduce_scatter", *(40e9 for _ in SIZES)),))
    first, second = lay_out(Chart("t", "s", (small, large))).panels
    assert (first.y.high, first.width) == (second.y.high, second.width)


@pytest.mark.parametrize(
    ("panels", "width", "columns"), [(1, 760, 1), (2, 760, 2), (3, 760, 1), (4, 760, 2), (4, 380, 1)]
)
def test_columns(panels: int, width: float, columns: int) -> None:
    panel = Panel("N = 2", X, RATE, (line("a", *(1e9 for _ in SIZES)),))
    assert lay_out(Chart("t", "s", (panel,) * panels), width).columns == columns


def test_numbers_are_shown_in_the_axis_unit() -> None:
    assert format_value(4096.0, "size") == "4 KiB"
    assert format_value(17.7e9, "rate") == "17.7"
    assert format_value(11.4e-6, "time") == "11.4 us"
    assert format_value(8.0, "count") == "8"
    assert axis_title(RATE) == "busbw (GB/s)"
    assert axis_title(X) == "message size S"


def stack(*boundaries: Boundary) -> Panel:
    layers = (Layer("bytes", SIZES, (0.1,) * 6, "bytes"), Layer("latency", SIZES, (0.9,) * 6, "latency"))
    return Panel("p", X, Axis("share", "share", most=1.0), layers=layers, boundaries=boundaries)


def test_layers_are_named_from_the_top_down_at_their_middles() -> None:
    found = place(stack())
    assert [label.text for label in found.labels] == ["latency", "bytes"]
    assert [label.y for label in found.labels] == pytest.approx([0.45 * found.height, 0.95 * found.height], abs=3)
    assert found.x.pixel(SIZES[-1]) == pytest.approx(found.width)


def test_boundaries_have_a_row_each_above_the_data_on_the_side_with_room() -> None:
    found = place(stack(Boundary("left", 16.0 * KIB), Boundary("a rather long label", 900.0 * MIB)))
    first, second = found.inner
    assert (first.align, second.align) == ("left", "right")
    assert second.y - first.y == LABEL_HEIGHT
    assert found.height - found.y.pixel(1.0) == pytest.approx(2 * LABEL_HEIGHT)


def test_remarks_stand_in_their_corners() -> None:
    panel = Panel(
        "p", X, RATE, (line("a", *[1e9] * 6),), remarks=(Remark("up", "top left"), Remark("down", "bottom right"))
    )
    found = place(panel)
    up, down = found.inner
    assert (up.x < 20, up.y < 20, down.x > found.width - 20, down.y > found.height - 20) == (True,) * 4


def test_points_at_one_x_stand_beside_each_other_and_never_reach_the_next_size() -> None:
    sizes = tuple(2.0**i for i in range(10, 31))
    series = tuple(Series(f"s{i}", sizes, (1e9,) * 21, f"s{i}") for i in range(6))
    found = place(Panel("p", X, RATE, series, dodge=True), 380.0)
    at = [found.x.pixel(found.shifted(sizes[0], i)) for i in range(6)]
    assert all(b > a for a, b in pairwise(at))
    assert sum(at) / 6 == pytest.approx(found.x.pixel(sizes[0]))
    assert at[-1] < found.x.pixel(found.shifted(sizes[1], 0))


def test_strips_keep_clear_of_each_other_and_list_their_colours() -> None:
    strips = tuple(Strip(f"rank {r}", size, (1.0, 1.1), f"rank={r}") for size in SIZES for r in (0, 1))
    found = place(Panel("p", X, Axis("t", "ratio"), strips=strips), 380.0)
    pixels = [found.x.pixel(size) for size in SIZES]
    assert all(b - a > found.slot for a, b in pairwise(pixels))
    assert pixels[0] - found.slot / 2 >= 0
    assert [(label.text, label.end) for label in found.labels] == [("rank 0", None), ("rank 1", None)]
