"""One NIC among several is slower: rows measured over one NIC at a time."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from busbw.core.finding import Cause, Facts, Finding
from busbw.findings._evidence import Evidence, Level
from busbw.findings._law import Law
from busbw.findings._words import rate, share

LABELS = ("NCCL_IB_HCA", "nic", "NCCL_SOCKET_IFNAME")
LOSS = 0.15


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    label = next((label for label in LABELS if any(label in row.labels for row in evidence.usable)), None)
    if label is None:
        return
    levels: dict[str, Level] = {}
    for family in evidence.families:
        for curve in family.curves.values():
            level = evidence.plateau(curve)
            nic = curve.points[0].rows[0].labels.get(label)
            if level is not None and nic and "," not in nic and nic not in levels:
                levels[nic] = level
    if len(levels) < 3:
        return
    middle = median(level.value for level in levels.values())
    typical = min(levels.values(), key=lambda level: abs(level.value - middle))
    slow = {
        nic: level for nic, level in levels.items() if level.value < (1 - LOSS) * middle and level.differs(typical, 1.5)
    }
    numbers = tuple(level.number for level in levels.values())
    if not slow or len(slow) > len(levels) / 3:
        if not slow:
            yield Finding(
                "slow_nic",
                f"all {len(levels)} NICs, measured one by one, are alike ({rate(middle)} GB/s)",
                "holds",
                "fact",
                numbers,
            )
        return
    named = ", ".join(f"{nic} ({rate(level.value)} GB/s)" for nic, level in slow.items())
    loss = 1 - min(level.value for level in slow.values()) / middle
    yield Finding(
        "slow_nic",
        f"{named} is slower than the other NICs ({rate(middle)} GB/s) by {share(loss)}; a collective over all of them runs at the pace of the slowest",
        "fails",
        "problem",
        numbers,
        (
            Cause("slow-nic", "a bad cable or port, a lower link rate or width, errors on the link"),
            Cause("far-nic", "the GPUs in use are far from this NIC"),
        ),
        next="ibstat and perfquery on this NIC; LnkSta against LnkCap in lspci -vvv; the same test from a GPU next to it",
        weight=loss,
    )


LAW = Law(
    "slow_nic",
    "All NICs are equally fast",
    "At least three NICs with rows of their own (label NCCL_IB_HCA or nic): one is slow when its plateau lies 15 % and 1.5 times the allowance below the "
    "median of all, and at most a third of them do.",
    _find,
)
