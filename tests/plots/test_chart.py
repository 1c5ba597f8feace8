from __future__ import annotations

import pytest

from busbw.plots.chart import Axis, Chart, Layer, Panel, Series


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


def test_layers_of_one_stack_share_their_x_and_add_up() -> None:
    axis = Axis("x", "size", "log2"), Axis("y", "share")
    layers = (Layer("bytes", (1.0, 2.0), (0.25, 0.75), "bytes"), Layer("latency", (1.0, 2.0), (0.75, 0.25), "latency"))
    panel = Panel("p", *axis, layers=layers)
    assert panel.stack == ((0.25, 0.75), (1.0, 1.0))
    assert panel.colours == ("bytes", "latency")
    with pytest.raises(AssertionError, match="share their x"):
        Panel("p", *axis, layers=(layers[0], Layer("latency", (1.0, 4.0), (0.75, 0.25), "latency")))
    with pytest.raises(AssertionError, match="never negative"):
        Layer("bytes", (1.0,), (-0.1,), "bytes")


def test_a_panel_shows_something() -> None:
    with pytest.raises(AssertionError, match="shows nothing"):
        Panel("p", Axis("x", "size", "log2"), Axis("y", "rate"))
