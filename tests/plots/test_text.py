from __future__ import annotations

import pytest

from busbw.plots.text import text_width, wrap


def test_widths_are_helveticas() -> None:
    assert text_width("iW", 1000) == 222 + 944
    assert text_width("1 GiB", 10) == pytest.approx((556 + 278 + 778 + 222 + 667) / 100)
    assert text_width("all_reduce", 12, bold=True) > text_width("all_reduce", 12)


def test_wrap_keeps_every_word_in_order_and_no_line_too_long() -> None:
    text = "the median busbw of the largest sizes that agree"
    lines = wrap(text, 90, 12)
    assert " ".join(lines) == text
    assert all(text_width(line, 12) <= 90 for line in lines)


@pytest.mark.parametrize("kept", ["5 %", "16 MiB", "N = 8", "11.4 us", "50 GB/s"])
def test_wrap_keeps_a_number_with_its_unit(kept: str) -> None:
    for width in range(40, 200, 5):
        assert any(kept in line for line in wrap(f"within about {kept} of it all", width, 12))


def test_a_word_that_is_too_long_stands_alone() -> None:
    assert wrap("a reduce_scatter_of_everything b", 30, 12) == ["a", "reduce_scatter_of_everything", "b"]
