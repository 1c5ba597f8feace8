"""Peer access between GPUs that have no PCIe switch: the CPU is the switch, and a poor one for many pairs at once."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding
from busbw.findings._evidence import Evidence
from busbw.findings._law import Law
from busbw.findings._symptoms import says
from busbw.findings._words import rate

FAR_BELOW = 0.35
MOST_IN_A_HOST = 8
"""More ranks than this may be on several hosts, where that is not known."""
CAUSE = Cause(
    "cpu-p2p-poor",
    "CPUs are poor PCIe switches: many pairs at once, as in all-to-all, saturate them; a ring loads fewer of their paths",
)
ADVICE = "Leave P2P off (NCCL_P2P_DISABLE=1) on such a machine: bouncing through host memory is usually better, and is NCCL's default there"


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    if (
        facts.flag("pcie_switch") is True
        or facts.flag("p2p") is False
        or facts.text("link") == "nvlink"
        or (facts.number("hosts") or 1) > 1
    ):
        return
    for family in evidence.families:
        off = any(
            row.labels.get("NCCL_P2P_DISABLE") == "1"
            for curve in family.curves.values()
            for row in curve.points[0].rows
        )
        for many in family.of("all_to_all"):
            if facts.number("hosts") is None and many.world_size > MOST_IN_A_HOST:
                continue
            ring = evidence.plateau(
                family.get("all_reduce", many.world_size) or family.get("all_gather", many.world_size)
            )
            level = evidence.plateau(many)
            if off or level is None or ring is None or many.world_size < 3 or level.value > FAR_BELOW * ring.value:
                continue
            yield Finding(
                "cpu_as_switch",
                f"{family.prefix}{level.name.removeprefix('plateau of ')} reaches {rate(level.value)} GB/s where a ring reaches {rate(ring.value)}",
                "fails" if facts.flag("pcie_switch") is False else "cannot_tell",
                "problem",
                (level.number, ring.number),
                (CAUSE, Cause("congestion", "the paths of many pairs cross one link")),
                next="the same with NCCL_P2P_DISABLE=1; nvidia-smi topo -m: PHB or NODE between the GPUs means no switch",
                needs=facts.unknown("p2p", "pcie_switch"),
                advice=ADVICE,
                weight=1 - level.value / ring.value,
            )
            return
    if says(facts, "p2p-made-it-slower"):
        known = facts.flag("pcie_switch") is False
        yield Finding(
            "cpu_as_switch",
            "With peer access all-to-all falls while all-reduce gains: peer traffic between GPUs without a PCIe switch runs through the CPU's root complex",
            "fails" if known else "cannot_tell",
            "problem",
            causes=(CAUSE,),
            next="" if known else "nvidia-smi topo -m: PHB or NODE between the GPUs means no switch",
            needs=facts.unknown("pcie_switch"),
            advice=ADVICE,
        )


LAW = Law(
    "cpu_as_switch",
    "All-to-all inside a host reaches what a ring reaches",
    "One host without NVLink and without a known switch, N above 2: all_to_all's plateau below 35 % of the ring's; or the user's words.",
    _find,
    "NVIDIA/nccl#1603",
)
