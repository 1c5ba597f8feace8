"""Bandwidth that falls again at the largest sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import Curve, Evidence, Family
from busbw.findings._law import Law
from busbw.findings._symptoms import says
from busbw.findings._words import both, rate, share
from busbw.units import MIB, format_size

LOSS = 0.15
ENVIRONMENT = Cause(
    "env-not-on-every-host",
    "NCCL_* variables (such as NCCL_NET_GDR_LEVEL) are set on one host only: mpirun passes none without -x",
)


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families:
        for curve in family.curves.values():
            finding = _of(evidence, family, curve, facts)
            if finding is not None:
                yield finding
    if not evidence.usable and (facts.number("drop_at") is not None or says(facts, "drop-at-large")):
        yield _asked(facts)


def _of(evidence: Evidence, family: Family, curve: Curve, facts: Facts) -> Finding | None:
    points = [point for point in curve.points if point.busbw_Bps and point.size_bytes >= 4 * MIB]
    if len(points) < 3:
        return None
    peak = max(range(len(points) - 1), key=lambda i: points[i].busbw_Bps or 0.0)
    top, after = points[peak], points[peak + 1 :]
    rates = [point.busbw_Bps or 0.0 for point in after]
    # the drop begins where the rate leaves the peak for good
    below = [point for point in after if (point.busbw_Bps or 0.0) < (1 - LOSS) * (top.busbw_Bps or 0.0)]
    allowance = math.hypot(evidence.row_allowance(curve, top), evidence.row_allowance(curve, points[-1]))
    if (
        not below
        or below[-1] is not points[-1]
        or max(rates[len(after) - len(below) :]) > (1 - LOSS) * (top.busbw_Bps or 0.0)
    ):
        return None
    loss = 1 - (points[-1].busbw_Bps or 0.0) / (top.busbw_Bps or 1.0)
    if -math.log1p(-loss) < 1.5 * allowance or (len(below) < 2 and loss < 0.25):
        return None
    return _finding(
        family.prefix + curve.name,
        below[0].size_bytes,
        top.busbw_Bps or 0.0,
        points[-1].busbw_Bps or 0.0,
        facts,
        (
            Number(f"best of {curve.name}", top.busbw_Bps or 0.0, "B/s", top.source),
            Number("at the largest size", points[-1].busbw_Bps or 0.0, "B/s", points[-1].source),
        ),
    )


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
    "From 4 MiB up: all sizes behind some point lie 15 % below the best one, beyond 1.5 times the allowance; one size alone counts from 25 %.",
    _find,
    "NVIDIA/nccl-tests#350, aws/aws-ofi-nccl#65",
)
