from __future__ import annotations

import pytest

from busbw.plots.axes import format_value, horizontal, vertical
from busbw.plots.chart import Axis
from busbw.units import KIB, MIB


def texts(axis: Axis, *values: float, headroom: float = 0.0) -> list[str]:
    return [tick.text for tick in vertical(axis, values, 200.0, headroom).ticks]


def test_ratios_are_shown_around_one_and_not_from_zero() -> None:
    found = vertical(Axis("B / A", "ratio"), (0.95, 1.1), 200.0)
    assert 0.9 < found.low < 0.95
    assert "1" in [tick.text for tick in found.ticks]


def test_an_axis_may_be_held_to_its_own_ends() -> None:
    found = vertical(Axis("B / A", "ratio", least=0.5, most=2.0), (0.1, 9.0), 200.0)
    assert (found.low, found.high) == (0.5, 2.0)


def test_shares_below_zero_have_room_and_a_tick_at_zero() -> None:
    assert texts(Axis("difference", "share"), -0.2, 0.9) == ["-20 %", "0 %", "20 %", "40 %", "60 %", "80 %"]
    assert texts(Axis("share", "share", most=1.0), 0.0, 1.0) == ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]


def test_times_on_a_linear_axis_carry_their_unit() -> None:
    assert texts(Axis("time", "time"), 0.0, 0.033) == ["0", "10 ms", "20 ms", "30 ms"]


@pytest.mark.parametrize("axis", [Axis("share", "share", most=1.0), Axis("time", "time", "log")])
def test_headroom_keeps_the_top_free_of_data(axis: Axis) -> None:
    found = vertical(axis, (0.1, 1.0), 200.0, headroom=20.0)
    assert found.pixel(1.0) == pytest.approx(180.0)
    assert max(tick.value for tick in found.ticks) <= 1.0


def test_under_layers_the_axis_begins_and_ends_with_the_data() -> None:
    axis = Axis("S", "size", "log2")
    ticks = [float(KIB), float(MIB)]
    assert horizontal(axis, ticks, ticks, 300.0, 0.0).pixel(KIB) == pytest.approx(0.0)
    assert horizontal(axis, ticks, ticks, 300.0, 12.0).pixel(KIB) == pytest.approx(12.0)


def test_numbers_as_they_are_printed() -> None:
    assert format_value(0.0305, "share") == "3.05 %"
    assert format_value(1.5, "ratio") == "1.5"


def test_an_axis_of_one_value_on_a_tick_has_a_length() -> None:
    found = vertical(Axis("time", "time", "log"), (1e-3, 1e-3), 200.0)
    assert (found.low, found.high) == (5e-4, 2e-3)
    assert found.pixel(1e-3) == pytest.approx(100.0)
