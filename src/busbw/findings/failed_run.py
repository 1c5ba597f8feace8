"""It hangs, or ends in an error: what is known to do that."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import Evidence
from busbw.findings._law import Law
from busbw.findings._symptoms import says
from busbw.units import format_size

ACS = Cause(
    "acs-enabled",
    "PCIe access control (ACS) or the IOMMU redirects peer traffic at the root bridges, where it is lost or refused",
)
ACS_NEXT = "sudo lspci -vvv | grep -i ACSCtl: ReqRedir+, CmpltRedir+ or EgressCtrl+ on a bridge means on"
ACS_ADVICE = "Disable ACS (BIOS, or setpci on the bridges) and the IOMMU's translation (iommu=pt); no variables are needed afterwards"


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    need, have = facts.number("shared_memory_needed"), facts.number("shared_memory_available")
    if (need is not None and have is not None and need > have) or (
        says(facts, "launch-failure") and not says(facts, "hangs", "network-error")
    ):
        yield _kernel(facts, need, have)
        return
    peer = says(facts, "hangs") and (facts.text("link") == "pcie" or says(facts, "works-without-p2p"))
    direct = says(facts, "network-error") or says(facts, "works-without-gdr")
    if not (peer or direct):
        if says(facts, "hangs"):
            yield Finding(
                "failed_run",
                "It hangs. A rank is missing, calls are not the same on every rank, or the transport is stuck",
                "cannot_tell",
                "wrong",
                next="NCCL_DEBUG=INFO on every rank: which one stops first; py-spy dump of each",
                needs=facts.unknown("acs", "p2p"),
            )
        return
    what = (
        "Fails with a network error while GPUDirect RDMA is on: a NIC's reads or writes of GPU memory do not arrive"
        if direct
        else "Hangs on peer-to-peer traffic between PCIe GPUs and works without it: peer writes do not arrive"
    )
    if facts.flag("acs") is False:
        yield Finding(
            "failed_run",
            f"{what}. ACS is off ({facts.source('acs')}), so look at the IOMMU, the peer-memory module and the driver",
            "cannot_tell",
            "wrong",
            ruled_out=(Cause("acs-enabled", f"ACS is off ({facts.source('acs')})"),),
            causes=(
                Cause("iommu", "the IOMMU translates or blocks peer traffic"),
                Cause("driver", "a driver or firmware fault of peer access"),
            ),
            next="dmesg | grep -i -e iommu -e DMAR -e AMD-Vi -e Xid; the p2pBandwidthLatencyTest sample",
            needs=facts.unknown("iommu"),
        )
        return
    known = facts.flag("acs") is True
    yield Finding(
        "failed_run",
        what,
        "fails" if known else "cannot_tell",
        "wrong",
        causes=(ACS,),
        next="" if known else ACS_NEXT,
        needs=facts.unknown("acs"),
        advice=ACS_ADVICE,
    )


def _fixed(version: str) -> bool:
    """Whether this NCCL is 2.26 or newer."""
    numbers = re.match(r"(\d{1,4})\.(\d{1,4})", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= (2, 26)


def _kernel(facts: Facts, need: float | None, have: float | None) -> Finding:
    version = facts.text("nccl_version")
    numbers = []
    text = "A kernel of the library cannot be launched"
    if need is not None and have is not None:
        text += f": it asks for {format_size(int(need))} of shared memory a block, the GPU has {format_size(int(have))}"
        numbers = [
            Number("shared memory needed", need, "B", facts.source("shared_memory_needed")),
            Number("available", have, "B", facts.source("shared_memory_available")),
        ]
    if _fixed(version):
        return Finding(
            "failed_run",
            f"{text}. NCCL {version} should fit: a program that was built with an older one, or for another GPU, may be loaded",
            "cannot_tell",
            "wrong",
            tuple(numbers),
            (Cause("other-build", "the library that is loaded is not the one that was asked for"),),
            next="NCCL_DEBUG=VERSION in the failing program; cuobjdump --list-elf of the library",
        )
    geforce = "RTX" in facts.text("gpu").upper() or "GEFORCE" in facts.text("gpu").upper()
    return Finding(
        "failed_run",
        f"{text}. That is a fault of the library for this kind of GPU, not of the machine",
        "fails" if need is not None else "cannot_tell",
        "wrong",
        tuple(numbers),
        (Cause("library-bug", "NCCL before 2.26 does not fit GeForce Blackwell's shared memory; fixed in 2.26"),),
        next="" if version else "NCCL_DEBUG=VERSION prints the version",
        needs=facts.unknown("nccl_version"),
        advice="Upgrade NCCL to 2.26 or newer"
        + (". GeForce cards have no peer access: traffic goes through host memory" if geforce else ""),
    )


LAW = Law(
    "failed_run",
    "The run came to its end",
    "The user's words (hangs, network error, launch failure), with what makes it go away; or more shared memory needed than there is.",
    _find,
    "NVIDIA/nccl-tests#252, #287, NVIDIA/nccl#2079",
)
