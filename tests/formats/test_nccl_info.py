from __future__ import annotations

import pytest

from busbw.formats._nccl_info import algorithm_name, protocol_name


@pytest.mark.parametrize(
    ("text", "name"),
    [("1", "Ring"), ("ring", "Ring"), ("NVLS", "NVLS"), ("99", "99"), ("²", "²"), ("9" * 5000, "9" * 40)],
)
def test_an_algorithm_by_number_or_name(text: str, name: str) -> None:
    assert algorithm_name(text) == name


def test_a_protocol_by_number_or_name() -> None:
    assert [protocol_name(text) for text in ("0", "1", "2", "SIMPLE", "3")] == ["LL", "LL128", "Simple", "Simple", "3"]
