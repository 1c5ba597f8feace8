"""Can the GPUs of this host reach each other's memory directly?"""

from __future__ import annotations

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.doctor import _nvidia
from busbw.doctor._probe import Probe, Seen
from busbw.doctor.nccl_variables import settings
from busbw.host.files import Host
from busbw.host.pci import distance, gpus, listed

NAME = "peer_to_peer"
SOURCE = "nvidia-smi topo -p2p r"
STATUS = {
    "CNS": "the chipset does not support it",
    "GNS": "the GPU does not support it",
    "TNS": "the topology does not support it",
    "NS": "it is not supported",
    "DR": "a registry key of the driver disables it",
    "U": "unknown",
}
"""nvidia-smi's legend."""


def look(host: Host) -> Seen:
    """The driver's matrix, and whether NCCL uses what it allows."""
    count = _nvidia.count(host)
    if count < 2:
        return Seen(nothing=f"{'one' if count else 'no'} NVIDIA GPU, so no pair")
    answer = host.run("nvidia-smi-p2p")
    table = _nvidia.gpu_pairs(_nvidia.matrix(answer.text))
    if not table:
        found = Finding(
            NAME,
            f"Whether the GPUs reach each other directly is not known: {answer.trouble or 'nvidia-smi prints no matrix'}",
            "cannot_tell",
            "notice",
            next=f"{SOURCE}, on the host",
            needs=("p2p",),
        )
        return Seen((found,))
    refused = {pair: entry for pair, entry in table.items() if entry != "OK"}
    numbers = (Number("pairs", len(table), "", SOURCE), Number("pairs without peer access", len(refused), "", SOURCE))
    if refused:
        why = ", ".join(f"{entry}: {STATUS.get(entry, 'no')}" for entry in dict.fromkeys(refused.values()))
        found = Finding(
            NAME,
            f"{len(refused)} of {len(table)} pairs of GPUs have no peer access ({why}): "
            f"{listed(f'{one}-{other}' for one, other in refused)}; their traffic goes through host memory (SHM)",
            "fails",
            "problem",
            numbers,
            (Cause("host-memory", "pairs without peer access send through host memory"),),
            advice="GNS is a property of the card (GeForce since the RTX 40 series): judge results against host memory. "
            "CNS and TNS: look for a slot under one switch. DR: remove the driver's setting",
            weight=0.5,
            headline="GPUs have no peer access",
        )
        facts = Facts().having("p2p", False, SOURCE) if len(refused) == len(table) else Facts()
        return Seen((found,), facts)
    text = (
        f"The driver offers peer access between {'both GPUs' if len(table) == 1 else f'all {len(table)} pairs of GPUs'}"
    )
    off = settings(host).get("NCCL_P2P_DISABLE")
    if off is not None and off[0] == "1":
        found = Finding(NAME, f"{text}; NCCL_P2P_DISABLE=1 keeps NCCL from using it", "holds", "fact", numbers)
        return Seen((found,), Facts().having("p2p", False, f"NCCL_P2P_DISABLE=1, {off[1]}"))
    far = _far(host)
    if far:
        found = Finding(
            NAME,
            f"{text}, but {far} under one PCIe switch: NCCL uses host memory (SHM) for such pairs by default",
            "cannot_tell",
            "notice",
            numbers,
            (Cause("host-memory", "NCCL uses peer access up to PXB by default"),),
            next="NCCL_DEBUG=INFO: channel lines 'via P2P/...' or 'via SHM/...'; then compare with NCCL_P2P_LEVEL=SYS",
            needs=("p2p",),
        )
        return Seen((found,))
    return Seen((Finding(NAME, text, "holds", "fact", numbers),), Facts().having("p2p", True, SOURCE))


def _far(host: Host) -> str:
    """The pairs that are joined neither by NVLink nor under one switch, in words; "" where there are none."""
    joined = _nvidia.gpu_pairs(_nvidia.matrix(host.run("nvidia-smi-topo").text))
    known = gpus(host)
    if not joined:
        joined = {
            (f"GPU{one}", f"GPU{other}"): distance(known[one], known[other])
            for one in range(len(known))
            for other in range(one + 1, len(known))
        }
    far = [f"{one}-{other}" for (one, other), entry in joined.items() if entry in ("PHB", "NODE", "SYS")]
    return f"{listed(far)} {'is' if len(far) == 1 else 'are'} not" if far else ""


PROBE = Probe(
    NAME,
    "Can the GPUs of this host reach each other's memory directly, and will NCCL do so?",
    "nvidia-smi topo -p2p r, nvidia-smi topo -m, NCCL_P2P_DISABLE",
    look,
)
