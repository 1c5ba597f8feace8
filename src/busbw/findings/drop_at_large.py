"""Bandwidth that falls again at the largest sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import Curve, Evidence, Family
from busbw.findings._law import Law
from busbw.findings._symptoms import says
from busbw.findings._words import both, rate, share
from busbw.units import MIB, format_size

LOSS = 0.15
BEYOND = 2.2
"""Times the allowance: every curve is cut at every size, so chance has many tries."""
ENVIRONMENT = Cause(
    "env-not-on-every-host",
    "NCCL_* variables (such as NCCL_NET_GDR_LEVEL) are set on one host only: mpirun passes none without -x",
)


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    found = False
    for family in evidence.families:
        for curve in family.curves.values():
            finding = _of(evidence, family, curve, facts)
            if finding is not None:
                found = True
                yield finding
    if not found and (facts.number("drop_at") is not None or says(facts, "drop-at-large")):
        yield _asked(facts)


def _of(evidence: Evidence, family: Family, curve: Curve, facts: Facts) -> Finding | None:
    points = [point for point in curve.points if point.busbw_Bps and point.size_bytes >= 4 * MIB]
    rates = [point.busbw_Bps or 0.0 for point in points]
    spread = 1.96 * evidence.widest_spread("large")
    best = None
    for cut in range(2, len(points)):
        before, after = rates[max(0, cut - 4) : cut], rates[cut:]
        level, later = median(before), median(after)
        noise = 1.25 * spread * math.sqrt(1 / len(before) + 1 / len(after))
        loss = 1 - later / level
        if max(after) > (1 - LOSS / 2) * level or loss < (LOSS if len(after) > 1 else 0.25):
            continue
        if -math.log1p(-loss) > BEYOND * noise and (best is None or loss > best[1]):
            best = cut, loss, level, later
    if best is None:
        return None
    cut, _, level, later = best
    numbers = (
        Number(f"{curve.name} below", level, "B/s", points[cut - 1].source),
        Number(f"from {format_size(points[cut].size_bytes)} on", later, "B/s", points[cut].source),
    )
    return _finding(family.prefix + curve.name, points[cut].size_bytes, level, later, facts, numbers)


def _finding(name: str, size: int, before: float, after: float, facts: Facts, numbers: tuple[Number, ...]) -> Finding:
    loss = 1 - after / before
    causes, ruled_out = _causes(facts, loss)
    return Finding(
        "drop_at_large",
        f"{name} falls from {rate(before)} to {rate(after)} GB/s ({share(loss)} less) from {format_size(size)} on; why these numbers alone cannot tell",
        "fails",
        "problem",
        numbers,
        tuple(causes),
        tuple(ruled_out),
        next=_next(facts),
        needs=facts.unknown("same_environment", "gdr"),
        advice=_advice(causes),
        weight=loss,
    )


def _causes(facts: Facts, loss: float | None) -> tuple[list[Cause], list[Cause]]:
    hosts = facts.number("hosts")
    causes, ruled_out = [], []
    if hosts != 1:
        same = facts.flag("same_environment")
        if same is True:
            ruled_out.append(
                Cause(
                    "env-not-on-every-host", f"every host has the same variables ({facts.source('same_environment')})"
                )
            )
        else:
            causes.append(ENVIRONMENT)
        if facts.flag("gdr") is True:
            ruled_out.append(Cause("gdr-off", f"GPUDirect RDMA is in use ({facts.source('gdr')})"))
        else:
            causes.append(Cause("gdr-off", "GPUDirect RDMA is used by one side or for some sizes only"))
        if facts.text("network") in ("efa", ""):
            causes.append(
                Cause(
                    "provider-limit",
                    "the network plugin or provider changes its protocol, or runs out of registered memory, at that size",
                )
            )
        causes.append(Cause("congestion", "the fabric congests, once messages are long enough to overlap"))
    causes.append(
        Cause(
            "memory-window",
            "buffers exceed what is mapped or cached: BAR size, TLB or IOMMU translations, the last-level cache",
        )
    )
    causes.append(Cause("clocks", "clocks fall (power, heat) in the longer rows"))
    return causes, ruled_out


def _next(facts: Facts) -> str:
    if facts.number("hosts") == 1:
        return "the large sizes alone, then from large to small; nvidia-smi -q -d PERFORMANCE while they run"
    return "NCCL_DEBUG=INFO on every host: 'NCCL_... set by environment' and GDRDMA must appear for each; then the large sizes alone, and from large to small"


def _advice(causes: list[Cause]) -> str:
    return "Pass every NCCL_* variable to every host: mpirun -x NAME for each" if ENVIRONMENT in causes else ""


def _asked(facts: Facts) -> Finding:
    size, before, after = facts.number("drop_at"), facts.number("before"), facts.number("after")
    if before is not None and after is not None and after < before:
        numbers = (
            Number("before", before, "B/s", facts.source("before")),
            Number("after", after, "B/s", facts.source("after")),
        )
        return _finding(facts.text("op") or "busbw", int(size or 0), before, after, facts, numbers)
    causes, ruled_out = _causes(facts, None)
    at = f" from {format_size(int(size))} on" if size is not None else " at large sizes"
    return Finding(
        "drop_at_large",
        f"Bandwidth falls{at}. Without the rows on both sides of it the cause cannot be told; {both([cause.code for cause in causes])} would fit",
        "cannot_tell",
        "problem",
        causes=tuple(causes),
        ruled_out=tuple(ruled_out),
        next=_next(facts),
        needs=facts.unknown("same_environment", "gdr"),
        advice=_advice(causes),
    )


LAW = Law(
    "drop_at_large",
    "Bandwidth does not fall at the largest sizes",
    "From 4 MiB up, each curve is cut at each size: the median behind it lies 15 % below the median of the four sizes before it (25 % for a last size alone), "
    "beyond 2.2 times the allowance of both.",
    _find,
    "NVIDIA/nccl-tests#350, aws/aws-ofi-nccl#65",
)
