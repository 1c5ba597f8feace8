"""Are GPUs, their NICs and the CPUs that this process may use on the same NUMA nodes?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.core.finding import Cause, Finding, Number
from busbw.doctor._probe import Probe, Seen
from busbw.host.files import Host
from busbw.host.pci import DEVICES, Device, gpus, is_guest, listed, nics

NAME = "numa_placement"
NODES = "/sys/devices/system/node"
BIND = "Bind each rank to its GPU's node: numactl --cpunodebind=N --membind=N, srun --cpu-bind, mpirun --map-by"


def look(host: Host) -> Seen:
    """Nodes of each end, and of the CPUs."""
    nodes = {
        int(name[4:]): cpus(host.text(f"{NODES}/{name}/cpulist"))
        for name in host.names(NODES)
        if re.fullmatch(r"node\d+", name)
    }
    with_cpus = {node: members for node, members in nodes.items() if members}
    if len(with_cpus) < 2:
        return Seen(
            nothing=f"{len(with_cpus) or 'no'} NUMA node{'' if len(with_cpus) == 1 else 's'} with CPUs, so nothing can be far"
        )
    found_gpus, found_nics = {f"GPU{at}": gpu for at, gpu in enumerate(gpus(host))}, nics(host)
    ends = {**found_gpus, **found_nics}
    findings = [*_unsaid(host, ends), *_far_nics(found_gpus, found_nics), *_affinity(host, found_gpus, with_cpus)]
    if host.text("/proc/sys/kernel/numa_balancing") not in ("", "0"):
        findings.append(
            Finding(
                NAME,
                "Automatic NUMA balancing is on: the kernel moves pages while they are in use, which adds noise",
                "fails",
                "notice",
                (Number("numa_balancing", 1, "", "/proc/sys/kernel/numa_balancing"),),
                (Cause("numa-balancing", "pages move during a run"),),
                advice="echo 0 | sudo tee /proc/sys/kernel/numa_balancing, for a measurement",
            )
        )
    if not any(finding.severity == "problem" or finding.verdict == "cannot_tell" for finding in findings) and ends:
        where = ", ".join(f"{name} on {device.numa}" for name, device in list(ends.items())[:8])
        text = f"GPUs, NICs and this process's CPUs are placed well over {len(with_cpus)} NUMA nodes ({where}{', ...' if len(ends) > 8 else ''})"
        findings.append(Finding(NAME, text, "holds", "fact", (Number("NUMA nodes", len(with_cpus), "", NODES),)))
    return Seen(tuple(findings), nothing="" if findings else "no GPU and no RDMA NIC to place")


def cpus(text: str) -> frozenset[int]:
    """The CPUs of a list such as 0-3,8."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", part)
        if match is not None:
            found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)


def _unsaid(host: Host, ends: dict[str, Device]) -> Iterator[Finding]:
    silent = [name for name, device in ends.items() if device.numa is None]
    if silent:
        yield Finding(
            NAME,
            f"The firmware does not say on which NUMA node {listed(silent)} {'is' if len(silent) == 1 else 'are'} (numa_node -1)",
            "cannot_tell",
            "notice",
            (Number("devices without a node", len(silent), "", f"{DEVICES}/{ends[silent[0]].address}/numa_node"),),
            next="ask the owner of the hardware, and give NCCL the machine's topology with NCCL_TOPO_FILE"
            if is_guest(host)
            else "the board's manual; a BIOS update or its NUMA setting (NPS, SNC) often mends it",
        )


def _far_nics(found_gpus: dict[str, Device], found_nics: dict[str, Device]) -> Iterator[Finding]:
    homes = {nic.numa for nic in found_nics.values()}
    if not homes or None in homes:
        return
    far = [name for name, gpu in found_gpus.items() if gpu.numa is not None and gpu.numa not in homes]
    if far:
        yield Finding(
            NAME,
            f"{listed(far)} {'is' if len(far) == 1 else 'are'} on NUMA node {found_gpus[far[0]].numa}, where no RDMA NIC is (they are on "
            f"{', '.join(str(home) for home in sorted(home for home in homes if home is not None))}): traffic to other hosts crosses the sockets",
            "fails",
            "problem",
            tuple(Number(f"{name} on node", device.numa or 0, "", f"{DEVICES}/{device.address}/numa_node") for name, device in (*((name, found_gpus[name]) for name in far[:2]), *list(found_nics.items())[:2])),
            (Cause("nic-affinity", "GPU and NIC hang on different sockets"),),
            advice="A NIC in a slot of that socket; with fewer ranks than GPUs, use the GPUs beside the NIC (CUDA_VISIBLE_DEVICES)",
            weight=0.4 * len(far) / len(found_gpus),
            headline="GPUs have no NIC on their socket",
        )  # fmt: skip


def _affinity(host: Host, found_gpus: dict[str, Device], nodes: dict[int, frozenset[int]]) -> Iterator[Finding]:
    line = re.search(r"^Cpus_allowed_list:\s*(\S+)", host.text("/proc/self/status"), re.MULTILINE)
    allowed = cpus(line[1]) if line else frozenset()
    if not allowed:
        return
    far = [
        name
        for name, gpu in found_gpus.items()
        if gpu.numa is not None and nodes.get(gpu.numa) and not nodes[gpu.numa] & allowed
    ]
    if far:
        used = sorted(node for node, members in nodes.items() if members & allowed)
        yield Finding(
            NAME,
            f"This process may run on NUMA node {', '.join(map(str, used))} only, and {listed(far)} "
            f"{'is' if len(far) == 1 else 'are'} on node {', '.join(str(node) for node in sorted({found_gpus[name].numa or 0 for name in far}))}: "
            "launches and host buffers cross the sockets",
            "fails",
            "problem",
            (Number("CPUs allowed", len(allowed), "", "/proc/self/status, Cpus_allowed_list"),),
            (Cause("cpu-affinity", "the process is bound to the wrong socket"),),
            advice=BIND,
            weight=0.3,
            headline="the process is bound to the wrong NUMA node",
        )


PROBE = Probe(
    NAME,
    "Are GPUs, their NICs and this process's CPUs on the same NUMA nodes?",
    "numa_node of GPUs and NICs, /sys/devices/system/node, /proc/self/status (Cpus_allowed_list), numa_balancing",
    look,
)
