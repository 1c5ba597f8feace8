"""Filters of the template: core's values as a person writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from busbw.comparing.comparison import RowComparison
from busbw.core.finding import Finding
from busbw.findings import LAWS, place_text
from busbw.units import GB, format_size

VERDICTS = {"holds": "holds", "fails": "does not hold", "cannot_tell": "cannot tell"}


def verdict_word(finding: Finding) -> str:
    """The verdict of a finding in words."""
    return VERDICTS[finding.verdict]


def claim(finding: Finding) -> str:
    """What was checked: the sentence that the verdict is about."""
    return LAWS.get(finding.law).claim


def ended(text: str) -> str:
    """A text with a full stop, as it begins: it may begin with a command."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def sentence(text: str) -> str:
    """A statement with a capital and an end; an op keeps its own spelling."""
    first = text.split(" ", 1)[0]
    begun = text if "_" in first or not text else text[0].upper() + text[1:]
    return ended(begun)


def busbw_pair(row: RowComparison) -> str:
    """busbw of both sides of a compared row, in GB/s."""
    rates = [row.call.busbw_Bps(time_s) for time_s in (row.time_a_s, row.time_b_s)]
    return " / ".join("n/a" if rate is None else f"{rate / GB:.2f}" for rate in rates)


def size(size_bytes: float) -> str:
    """A size with its unit."""
    return format_size(round(size_bytes))


FILTERS: Mapping[str, Callable[..., Any]] = {
    "verdict_word": verdict_word,
    "claim": claim,
    "ended": ended,
    "place": place_text,
    "sentence": sentence,
    "busbw_pair": busbw_pair,
    "size": size,
}
