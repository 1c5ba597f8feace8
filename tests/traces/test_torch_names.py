"""S from what one rank gave and took."""

from __future__ import annotations

import pytest

from busbw.traces.torch_names import whole_elements


@pytest.mark.parametrize(
    ("collective", "given", "taken", "whole"),
    [
        ("gather", 4, 0, 16),  # a rank that is not the root: its shard alone
        ("gather", 4, 16, 16),
        ("scatter", 0, 4, 16),
        ("scatter", 16, 4, 16),
        ("all_gather", 4, 16, 16),
        ("reduce_scatter", 16, 4, 16),
        ("all_reduce", 16, 16, 16),
        ("barrier", 1, 1, 0),
    ],
)
def test_the_whole_tensor_of_four_ranks(collective: str, given: int, taken: int, whole: int) -> None:
    assert whole_elements(collective, given, taken, 4) == whole
