from __future__ import annotations

import pytest

from busbw.core.finding import Number
from busbw.findings import place_text
from busbw.report.words import ended, sentence


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("../runs/n2.csv:12 to 13", "n2.csv:12 to 13"),
        ("a/b.csv:3, c/d.csv:9", "b.csv:3, d.csv:9"),
        ("50 GB/s on paper, 50 one way", "50 GB/s on paper, 50 one way"),
        ("", ""),
    ],
)
def test_places_lose_their_folders_and_nothing_else(source: str, shown: str) -> None:
    assert place_text(Number("a", 1.0, "", source)) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the floor is flat", "The floor is flat."),
        ("all_reduce at N=8 is slow.", "all_reduce at N=8 is slow."),
        ("", "."),
    ],
)
def test_a_statement_begins_with_a_capital_unless_it_begins_with_an_op(text: str, shown: str) -> None:
    assert sentence(text) == shown


def test_a_command_keeps_its_first_letter() -> None:
    assert ended("sudo lspci -vvv") == "sudo lspci -vvv."
