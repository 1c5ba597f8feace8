"""Runs compared on the page: each later one against the first, with the verdict and the changes row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from busbw.comparing import Comparison, compare
from busbw.errors import UsageError
from busbw.report.sides import Side


@dataclass(frozen=True, slots=True)
class ComparedPage:
    """One comparison B / A. `why_none` says why there is none."""

    a: str
    b: str
    name_a: str
    name_b: str
    comparison: Comparison | None = None
    why_none: str = ""

    @property
    def verdict(self) -> str:
        """The verdict in a word; `not compared` where there is none."""
        return "not compared" if self.comparison is None else self.comparison.verdict

    @property
    def sentence(self) -> str:
        """The verdict with what it rests on."""
        return self.why_none if self.comparison is None else self.comparison.sentence()


def compare_sides(sides: Sequence[Side], across: tuple[str, ...] = ()) -> tuple[ComparedPage, ...]:
    """Each later run against the first."""
    return tuple(_compared(sides[0], other, across) for other in sides[1:])


def _compared(a: Side, b: Side, across: tuple[str, ...]) -> ComparedPage:
    try:
        comparison = compare(a.files, b.files, across=across)
    except UsageError as error:
        return ComparedPage(a.letter, b.letter, a.name, b.name, why_none=str(error))
    return ComparedPage(a.letter, b.letter, a.name, b.name, comparison)
