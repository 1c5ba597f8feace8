"""Below some size the time does not depend on the size."""

from __future__ import annotations

import math
from collections.abc import Iterator

from busbw.core.finding import Facts, Finding, Number, Verdict
from busbw.findings._evidence import Curve, Evidence, joint
from busbw.findings._law import Law
from busbw.findings._words import share, signed, times
from busbw.units import KIB, format_size

FLAT = 0.06
WIRE_SHARE = 0.35
"""Sizes are looked at up to this share of wire time: where launch and wire overlap, they are flat up to there."""


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families:
        op = next((op for op in ("all_reduce", "all_gather", "broadcast") if family.of(op)), None)
        if op is None and family.curves:
            op = next(iter(family.curves))[0]
        if op is None:
            continue
        verdicts: list[Verdict] = []
        parts, numbers = [], []
        curves = [curve for curve in family.of(op) if len(curve.below(WIRE_SHARE)) >= 2]
        for curve in curves:
            small = curve.below(WIRE_SHARE)
            first, last = small[0], small[-1]
            rise = last.time_s / first.time_s - 1
            allowance = joint(evidence.row_allowance(curve, first), evidence.row_allowance(curve, last))
            if abs(math.log1p(rise)) <= FLAT and allowance <= 2 * FLAT:
                verdict: Verdict = "holds"
            elif abs(math.log1p(rise)) > max(FLAT, allowance):
                verdict = "fails"
            else:
                verdict = "cannot_tell"
            verdicts.append(verdict)
            parts.append(
                f"N={curve.world_size} {signed(rise)} from {format_size(first.size_bytes)} to {format_size(last.size_bytes)}"
                f" ({_verdict(verdict, allowance)})"
            )
            what = f"time of {curve.name} at {format_size(first.size_bytes)}"
            numbers.append(Number(what, first.time_s, "s", first.source))
            numbers.append(Number(f"the same at {format_size(last.size_bytes)}", last.time_s, "s", last.source))
        if not parts:
            continue
        floors = [floor for curve in curves if (floor := curve.floor_s) is not None]
        text = f"{family.prefix}latency floor of {op}: {times(floors)}; is it flat? {'; '.join(parts)}"
        text += _first_size(curves)
        overall: Verdict = verdicts[0] if len(set(verdicts)) == 1 else "cannot_tell"
        yield Finding(
            "latency_is_flat",
            text,
            overall,
            "fact",
            numbers=tuple(numbers),
            next=""
            if overall == "holds"
            else "more sizes below 64 KiB with an interval for each: busbw bench -b 8 -e 64K",
        )


def _verdict(verdict: str, allowance: float) -> str:
    if verdict == "holds":
        return "flat"
    if verdict == "fails":
        return f"rises; rows differ by {share(allowance)} by chance"
    return f"cannot tell: rows differ by {share(allowance)} by chance"


def _first_size(curves: list[Curve]) -> str:
    """A grid that begins high may begin above the floor."""
    first = min(curve.points[0].size_bytes for curve in curves)
    return f". The sizes begin at {format_size(first)}: the floor may lie lower" if first > KIB else ""


LAW = Law(
    "latency_is_flat",
    "Small sizes all take the same time",
    "The smallest size against the largest one whose wire time is at most 35 % of its time. Flat is 6 %; a rise counts when it "
    "is more than that and more than the allowance of the two rows.",
    _find,
    "T = t0 + alpha terms + S f(N)/B: docs/numbers.md",
)
