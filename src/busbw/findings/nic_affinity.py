"""Which GPUs sit next to a NIC: why different subsets of GPUs get different bandwidth between hosts."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding
from busbw.findings._evidence import Evidence
from busbw.findings._law import Law
from busbw.findings._symptoms import says


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    if (facts.number("hosts") or 2) < 2:
        return
    near = facts.flag("near_nics")
    if near is True or not (near is False or says(facts, "subsets-differ")):
        return
    yield Finding(
        "nic_affinity",
        "Between hosts the bandwidth depends on which GPUs take part: only those next to a NIC (PIX or PXB) use it with GPUDirect RDMA, the others "
        "go through the CPU or another GPU",
        "fails" if near is False else "cannot_tell",
        "problem",
        causes=(Cause("nic-affinity", "too few NICs are visible, and only some GPUs sit next to one"),),
        next=""
        if near is False
        else "nvidia-smi topo -m: the NIC columns of each GPU's row; 'NET/IB : Using ...' for the NICs that NCCL sees",
        needs=facts.unknown("near_nics", "nics"),
        advice="Choose GPUs next to the NIC, or make more NICs visible (NCCL_IB_HCA, the container's devices): each adds bandwidth",
    )


LAW = Law(
    "nic_affinity",
    "Every GPU has a NIC next to it",
    "The fact near_nics, or the user's words that subsets of GPUs differ between hosts.",
    _find,
    "NVIDIA/nccl-tests#128",
)
