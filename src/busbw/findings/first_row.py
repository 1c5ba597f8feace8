"""The first row is slower than the next ones: it was not warm."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import Evidence, where
from busbw.findings._law import Law
from busbw.units import format_size, format_time

SLOW = 1.4


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families:
        for curve in family.curves.values():
            if len(curve.points) < 4:
                continue
            first, following = curve.points[0], curve.points[1:4]
            own = [row for row in first.rows if row.source is not None]
            later = [row.source.line for point in following for row in point.rows if row.source is not None]
            if own and later and own[0].source is not None and own[0].source.line > min(later):
                continue  # it was not measured first
            usual = median(point.time_s for point in following[:2])
            ratio = first.time_s / usual
            allowance = max(evidence.row_allowance(curve, following[0]), 1.96 * evidence.widest_spread("small"))
            if ratio < SLOW or first.time_s < SLOW * following[1].time_s or math.log(ratio) < 3 * allowance:
                continue
            yield Finding(
                "first_row",
                f"{family.prefix}the first row of {curve.name} ({format_size(first.size_bytes)}) takes {format_time(first.time_s)}, {ratio:.1f} times the next: leave it out",
                "fails",
                "notice",
                (
                    Number(f"{curve.name}, {format_size(first.size_bytes)}", first.time_s, "s", where(first.rows[0])),
                    Number("the next sizes", usual, "s", following[0].source),
                ),
                (Cause("not-warm", "connections are made, buffers mapped and clocks raised in the first calls"),),
                next="more warm-up calls (-w 20), or the sizes in another order",
                weight=0.1,
            )


LAW = Law(
    "first_row",
    "The first row is as fast as the next ones",
    "The smallest size, where it was measured first, against the two next: 1.4 times both, and beyond three times the allowance.",
    _find,
    "nccl-tests warms up at the largest and the smallest size only, before 2.16.8",
)
