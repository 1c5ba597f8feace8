"""A larger message that takes less time than a smaller one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import Evidence
from busbw.findings._law import Law
from busbw.findings._words import signed
from busbw.units import format_size

LEAST = 0.03


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families:
        falls, steps = [], 0
        for curve in family.curves.values():
            for one, two in pairwise(curve.points):
                steps += 1
                fall = two.time_s / one.time_s - 1
                if fall < -LEAST:
                    what = f"{curve.name}, {format_size(one.size_bytes)} to {format_size(two.size_bytes)}"
                    falls.append((fall, what, Number(what, 100 * fall, "%", f"{one.source}, {two.source}")))
        if not falls:
            continue
        falls.sort(key=lambda item: item[0])
        named = "; ".join(f"{what} {signed(fall)}" for fall, what, _ in falls[:3])
        beyond = any(fall < -0.6 for fall, *_ in falls)
        yield Finding(
            "times_that_fall",
            f"{family.prefix}{len(falls)} of {steps} steps to a larger size take less time ({named}): such rows are known no better than that",
            "fails",
            "notice",
            tuple(number for *_, number in falls),
            (
                Cause("noise", "chance: one mean a row"),
                Cause(
                    "overlap",
                    "back-to-back calls overlap, so that launch and wire are hidden differently from size to size",
                ),
                *((Cause("first-row", "the first row was not warm"),) if beyond else ()),
            ),
            next="the same rows with an interval for each (busbw bench), and one call at a time",
            weight=0.05 * len(falls) / steps,
        )


LAW = Law(
    "times_that_fall",
    "A larger message never takes less time",
    "Neighbouring sizes of one curve: falls of more than 3 %.",
    _find,
)
