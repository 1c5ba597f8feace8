"""Can NICs read and write GPU memory, or does traffic between hosts pass through host memory?"""

from __future__ import annotations

import re

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.doctor import _nvidia
from busbw.doctor._probe import Probe, Seen
from busbw.doctor.nccl_variables import settings
from busbw.host.files import Host
from busbw.host.pci import PATHS, distance, gpus, listed, nics, rdma_devices

NAME = "gpudirect_rdma"
MODULES = ("nvidia_peermem", "nv_peer_mem", "efa_nv_peermem")
DMABUF_KERNEL = (5, 12)
"""The first kernel whose RDMA core takes DMA-BUF memory."""
LOG = "NCCL_DEBUG=INFO on two hosts: channel lines end in 'via NET/IB/0/GDRDMA' when it is used"


def look(host: Host) -> Seen:
    """The module (or DMA-BUF), then how far each GPU is from its nearest NIC."""
    count = _nvidia.count(host)
    if not count or not rdma_devices(host):
        return Seen(nothing=f"no {'RDMA NIC' if count else 'NVIDIA GPU'}")
    finding, ready = _module(host)
    nearest = _nearest(host)
    findings, facts = [finding], Facts()
    if nearest:
        far = {name: path for name, path in nearest.items() if path not in ("PIX", "PXB")}
        source = "/sys/bus/pci/devices"
        facts = facts.having("gdr_distance", max(nearest.values(), key=PATHS.index), source)
        facts = facts.having("near_nics", not far, source)
        findings.append(_distances(nearest, far))
        if ready is True and not far and not _kept_off(host):
            facts = facts.having("gdr", True, f"{finding.numbers[0].source}; every GPU has a NIC within PXB")
    if ready is False:
        facts = facts.having("gdr", False, finding.numbers[0].source)
    return Seen(tuple(findings), facts)


def _module(host: Host) -> tuple[Finding, bool | None]:
    loaded = [name for name in MODULES if host.has(f"/sys/module/{name}")]
    source = f"/sys/module/{(loaded or MODULES)[0]}"
    numbers = (Number("peer-memory modules loaded", len(loaded), "", source),)
    if loaded:
        return Finding(
            NAME, f"The module {loaded[0]} is loaded: NICs can reach GPU memory", "holds", "fact", numbers
        ), True
    version = host.text("/proc/driver/nvidia/version")
    release = re.match(r"(\d+)\.(\d+)", host.text("/proc/sys/kernel/osrelease"))
    kernel = (int(release[1]), int(release[2])) if release else (0, 0)
    if "Open Kernel Module" in version and kernel >= DMABUF_KERNEL:
        found = Finding(
            NAME,
            f"nvidia_peermem is not loaded; the open driver on kernel {kernel[0]}.{kernel[1]} offers DMA-BUF instead, which NCCL 2.13 "
            "and newer use where the NIC's driver takes it",
            "cannot_tell",
            "notice",
            numbers,
            next=LOG,
            needs=("gdr",),
            advice="If the log shows no GDRDMA: sudo modprobe nvidia_peermem",
        )
        return found, None
    if not version and not host.names("/sys/module"):
        found = Finding(
            NAME,
            "Whether NICs can reach GPU memory is not known: /sys/module and /proc/driver/nvidia do not show here",
            "cannot_tell",
            "notice",
            numbers,
            next=LOG,
            needs=("gdr",),
        )
        return found, None
    found = Finding(
        NAME,
        "GPUDirect RDMA is off: no peer-memory module is loaded (nvidia_peermem), and this driver and kernel offer no DMA-BUF; "
        "what goes between hosts is copied through host memory",
        "fails",
        "problem",
        numbers,
        (Cause("gdr-off", "NICs cannot read and write GPU memory"),),
        next=LOG,
        advice="sudo modprobe nvidia_peermem (comes with the driver; load it at boot: echo nvidia_peermem > "
        "/etc/modules-load.d/nvidia_peermem.conf), or the open driver on kernel 5.12 or newer",
        weight=0.6,
        headline="GPUDirect RDMA is off",
    )
    return found, False


def _nearest(host: Host) -> dict[str, str]:
    """For each GPU the path to its nearest NIC; nothing where a virtual machine hides the bridges."""
    ends, known = list(nics(host).values()), gpus(host)
    if not ends or not any(gpu.above for gpu in known):
        return {}
    return {
        f"GPU{number}": min((distance(gpu, nic) for nic in ends), key=PATHS.index) for number, gpu in enumerate(known)
    }


def _distances(nearest: dict[str, str], far: dict[str, str]) -> Finding:
    numbers = (
        Number("GPUs with a NIC within PXB", len(nearest) - len(far), "", "/sys/bus/pci/devices"),
        Number("GPUs", len(nearest), "", "/sys/bus/pci/devices"),
    )
    if not far:
        return Finding(
            NAME, "Every GPU has an RDMA NIC under its own PCIe switch (PIX or PXB)", "holds", "fact", numbers
        )
    paths = ", ".join(f"{name} {path}" for name, path in list(far.items())[:4])
    return Finding(
        NAME,
        f"{len(far)} of {len(nearest)} GPUs have no NIC under their own PCIe switch (nearest: {paths}"
        f"{', ...' if len(far) > 4 else ''}): NCCL does not use GPUDirect RDMA that far by default",
        "fails",
        "notice" if len(far) < len(nearest) else "problem",
        numbers,
        (Cause("gdr-distance", f"GPU and NIC are {max(far.values(), key=PATHS.index)} apart, NCCL's limit is PXB"),),
        next=LOG,
        advice=f"Put a NIC under the GPUs' switch ({listed(far)}); where there is none, compare NCCL_NET_GDR_LEVEL=SYS with the default",
        weight=0.4 * len(far) / len(nearest),
        headline="GPUs have no NIC near them",
    )


def _kept_off(host: Host) -> bool:
    set_ = settings(host)
    return any(name in set_ for name in ("NCCL_NET_GDR_LEVEL", "NCCL_IB_DISABLE", "NCCL_NET_GDR_READ", "NCCL_NET"))


PROBE = Probe(
    NAME,
    "Can NICs read and write GPU memory (GPUDirect RDMA), and is one near each GPU?",
    "/sys/module/nvidia_peermem, /proc/driver/nvidia/version and the kernel's version (DMA-BUF), PCI paths",
    look,
)
