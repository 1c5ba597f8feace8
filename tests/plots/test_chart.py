from __future__ import annotations

import pytest

from busbw.plots.chart import Chart, Series


@pytest.mark.parametrize(
    ("x", "y", "low", "high", "why"),
    [
        ((), (), (), (), "has no point"),
        ((1.0, 2.0), (1.0,), (), (), "2 x for 1 y"),
        ((2.0, 1.0), (1.0, 1.0), (), (), "x must rise"),
        ((1.0, 1.0), (1.0, 1.0), (), (), "x must rise"),
        ((1.0, 2.0), (1.0, 1.0), (0.9,), (1.1,), "one interval a point"),
        ((1.0,), (1.0,), (0.9,), (), "two ends"),
    ],
)
def test_a_series_that_cannot_be_a_line_is_our_own_mistake(
    x: tuple[float, ...], y: tuple[float, ...], low: tuple[float, ...], high: tuple[float, ...], why: str
) -> None:
    with pytest.raises(AssertionError, match=why):
        Series("all_reduce", x, y, "all_reduce", low, high)


def test_a_chart_has_a_panel() -> None:
    with pytest.raises(AssertionError, match="no panel"):
        Chart("busbw", "", ())
