"""A Topology from NCCL's XML, by NCCL's rules for the speeds of links."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from busbw.core.topology import Device, Link, TopologyBuilder
from busbw.errors import FileError
from busbw.topologies.assumed import (
    COSTS,
    LOCAL_BPS,
    NOTE,
    PXB_NOTE,
    nccl_nvlink_Bps,
    nccl_pcie_Bps,
    nccl_socket_Bps,
    policies,
)
from busbw.topologies.readers.nccl_xml import LINKS, Element, number

if TYPE_CHECKING:
    from busbw.core.topology import Topology
    from busbw.topologies.readers.nccl_xml import NcclSystem

FASTEST_NIC_MBPS = 1_600_000
"""Mb/s; what is above is a slip of units and is not used."""
_SLOWEST_NIC_BPS = 10e9 / 8
"""NCCL's rule for a speed of 0 or less."""
_MEMORY_BPS = 100e9


@dataclass(slots=True)
class _Machine:
    """What is being built."""

    system: NcclSystem
    builder: TopologyBuilder
    prefix: str = ""
    host: str = "host0"
    gpus: dict[str, tuple[str, Element]] = field(default_factory=dict)
    """Bus id -> device, PCI function."""
    cpu_of: dict[str, str] = field(default_factory=dict)
    """GPU's device -> CPU's."""
    bridges: dict[str, str] = field(default_factory=dict)
    pci_rate: dict[str, float] = field(default_factory=dict)
    order: list[tuple[int, int, str]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    notes: dict[str, None] = field(default_factory=dict)

    def name(self, kind: str) -> str:
        """The next name of a kind."""
        self.counts[self.prefix + kind] += 1
        return f"{self.prefix}{kind}{self.counts[self.prefix + kind] - 1}"

    def add_pci(self, element: Element, above: str, cpu: str) -> None:
        """A PCI function or bridge with all below it."""
        busid = element.get("busid").lower()
        rate = nccl_pcie_Bps(_gigatransfers(element), number(element.get("link_width"), 16))
        if not _gigatransfers(element) or not number(element.get("link_width"), 16):
            self.notes["a PCIe link of unknown speed or width is taken for Gen3 x16 (12 GB/s), NCCL's rule"] = None
        if element.is_gpu:
            self.add_gpu(element, busid, above, cpu, rate)
        elif element.is_nic:
            self.add_nic(element, above, rate, "pcie")
        elif element.of("pci"):
            switch = self.builder.add(
                Device(self.name("switch"), "pcie_switch", self.host, details=_kept(element, "busid"))
            )
            self.bridges[busid] = switch
            self.pci_rate[busid] = rate
            self.builder.link(Link(switch, above, "pcie", rate, rate, basis="assumed"))
            for child in element.of("pci"):
                self.add_pci(child, switch, cpu)
            for nic in element.of("nic"):
                self.add_nic(nic, switch, rate, "pcie")

    def add_gpu(self, element: Element, busid: str, above: str, cpu: str, rate: float) -> None:
        if busid in self.gpus:
            raise FileError(f"{self.system.file}: the GPU with busid {busid!r} is there twice; each has one place")
        gpu = next(iter(element.of("gpu")), Element("gpu", {}))
        details = {**_kept(element, "busid"), **_kept(gpu, "sm", "gcn", "dev")}
        place = number(gpu.get("rank"), -1), number(gpu.get("dev"), len(self.gpus))
        name = self.builder.add(Device(self.name("gpu"), "gpu", self.host, details=details))
        self.gpus[busid] = (name, element)
        self.cpu_of[name] = cpu
        self.order.append((place[0] if place[0] >= 0 else 1 << 30, len(self.order) if place[0] < 0 else place[1], name))
        self.builder.link(Link(name, above, "pcie", rate, rate, basis="assumed"))

    def add_nic(self, element: Element, above: str, rate: float, kind: str) -> None:
        nets = [inner for inner in element.walk() if inner.tag == "net"]
        speeds = [self._net_Bps(net) for net in nets]
        details = _kept(element, "busid")
        if nets:
            details["device"] = ",".join(net.get("name") for net in nets)
        known = [speed for speed in speeds if speed is not None]
        if known:
            details["rate_Bps"] = repr(sum(known))
        name = self.builder.add(Device(self.name("nic"), "nic", self.host, details=details))
        self.builder.link(Link(name, above, kind, rate, rate, basis="assumed"))

    def _net_Bps(self, net: Element) -> float | None:  # noqa: N802 - the unit's own capitals
        speed = number(net.get("speed"), 0)
        if speed > FASTEST_NIC_MBPS:
            self.notes[
                f"{net.get('name') or 'net'}: speed {speed} Mb/s is above {FASTEST_NIC_MBPS}, a slip of units; it is not used"
            ] = None
            return None
        if speed <= 0:
            self.notes[f"{net.get('name') or 'net'}: no speed, taken for 10 Gb/s, NCCL's rule"] = None
            return _SLOWEST_NIC_BPS
        return speed / 8000 * 1e9

    def add_links(self) -> None:
        """NVLink, xGMI and C2C of all GPUs; what both ends tell is one link."""
        told: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        kinds: dict[tuple[str, str], tuple[str, float]] = {}
        switches: dict[str, tuple[str, float]] = {}
        for busid, (name, pci) in self.gpus.items():
            for gpu in pci.of("gpu"):
                for link in gpu.of(*LINKS):
                    rate = self._link_Bps(link, gpu)
                    count = number(link.get("count"), 1)
                    target = link.get("target").lower()
                    if count <= 0:
                        continue
                    if target in self.gpus and target != busid:
                        other = self.gpus[target][0]
                        pair = (name, other) if name < other else (other, name)
                        told[pair][name] = told[pair].get(name, 0) + count
                        kinds[pair] = ("xgmi" if link.tag == "xgmi" else "nvlink", rate)
                    elif link.get("tclass").lower().startswith("0x068001"):
                        cpu = self.cpu_of[name]
                        self.builder.link(Link(name, cpu, "nvlink", count * rate, count * rate, basis="assumed"))
                    elif link.get("tclass").lower().startswith("0x0680"):
                        before = switches.get(name, ("", 0.0))[1]
                        switches[name] = ("nvlink", before + count * rate)
                    elif target == busid:
                        self.notes[f"{name}: a {link.tag} to itself is left out"] = None
                    else:
                        self.notes[
                            f"{name}: a {link.tag} to {target or 'nowhere'}, which is no GPU of this file, is left out"
                        ] = None
                for c2c in gpu.of("c2c"):
                    rate = number(c2c.get("bw"), 0) * number(c2c.get("count"), 1) * 1e6
                    if rate > 0:
                        self.builder.link(Link(name, self.cpu_of[name], "c2c", rate, rate, basis="assumed"))
        for pair, counts in told.items():
            if len(set(counts.values())) > 1:
                self.notes[
                    f"{pair[0]} and {pair[1]} disagree on their links ({' and '.join(map(str, counts.values()))}); the larger counts"
                ] = None
            kind, rate = kinds[pair]
            both = max(counts.values()) * rate
            self.builder.link(Link(pair[0], pair[1], kind, both, both, basis="assumed"))
        if switches:
            reduces = any(number(pci.of("gpu")[0].get("sm"), 0) >= 90 for _, pci in self.gpus.values() if pci.of("gpu"))
            self.builder.add(
                Device("nvswitch", "nvswitch", "" if len(self.system.hosts()) > 1 else self.host, reduces=reduces)
            )
            for name, (kind, rate) in switches.items():
                self.builder.link(Link(name, "nvswitch", kind, rate, rate, basis="assumed"))
            self.notes["all NVSwitches are one device"] = None

    def _link_Bps(self, link: Element, gpu: Element) -> float:  # noqa: N802
        if link.tag == "xgmi":
            generation = gpu.get("gcn")
            return (
                48e9
                if re.match(r"(?:gfx)?9[45]", generation)
                else 36e9
                if re.match(r"(?:gfx)?910|(?:gfx)?90a", generation)
                else 24e9
            )
        if not gpu.get("sm"):
            self.notes["a GPU without sm: its NVLinks are taken for 20 GB/s"] = None
        return nccl_nvlink_Bps(number(gpu.get("sm"), 80))


def build(system: NcclSystem) -> Topology:
    """The machine of one file."""
    if not system.gpu_functions:
        raise FileError(f"{system.file}: an NCCL topology without a GPU: no <gpu>, and no <pci> of a GPU's class")
    machine = _Machine(system, TopologyBuilder(system.file))
    builder, hashes = machine.builder, system.hosts()
    sockets: dict[str, list[tuple[str, Element]]] = defaultdict(list)
    pending: list[tuple[Element, str]] = []
    for cpu in system.elements("cpu"):
        host = hashes.index(cpu.get("host_hash")) if cpu.get("host_hash") in hashes else 0
        machine.host = f"host{host}"
        machine.prefix = f"host{host}/" if len(hashes) > 1 else ""
        name = machine.name("cpu")
        details = {"numa": str(number(cpu.get("numaid"), 0)), **_kept(cpu, "affinity", "vendor")}
        builder.add(Device(name, "cpu", machine.host, details=details))
        memory = builder.add(Device(machine.name("memory"), "memory", machine.host))
        builder.link(Link(name, memory, "memory", _MEMORY_BPS, _MEMORY_BPS, _MEMORY_BPS, basis="assumed"))
        sockets[machine.host].append((name, cpu))
        for child in cpu.children:
            if child.tag == "pci":
                machine.add_pci(child, name, name)
                pending += [(inner, name) for inner in child.walk() if inner.of("pcilink")]
            elif child.tag == "nic":
                machine.add_nic(child, name, LOCAL_BPS, "local")
    for members in sockets.values():
        for (one, cpu), (other, _) in combinations(members, 2):
            rate, taken = nccl_socket_Bps(
                cpu.get("arch"), cpu.get("vendor"), number(cpu.get("familyid"), 0), number(cpu.get("modelid"), 0)
            )
            machine.notes[
                f"the link between CPUs is taken for {rate / 1e9:.0f} GB/s one way ({taken}), NCCL's rule"
            ] = None
            builder.link(Link(one, other, "socket", rate, rate, basis="assumed"))
    _join_bridges(machine, pending)
    machine.add_links()
    if not system.elements("gpu"):
        machine.notes[
            "no <gpu> in the file: GPUs are known by PCI class; NVLinks, which NCCL finds at run time, are not in it"
        ] = None
    _join_hosts(machine, len(hashes))
    if all(place[0] < 1 << 30 for place in machine.order) and len({place[0] for place in machine.order}) == len(
        machine.order
    ):
        builder.set_ranks([name for _, _, name in sorted(machine.order)])
    few = len(machine.gpus) <= 2 and all("AMD" in cpu.get("vendor") for cpu in system.elements("cpu"))
    peers = "peer access also through the CPUs: NCCL's default for at most 2 GPUs on AMD CPUs" if few else PXB_NOTE
    notes = [*machine.notes, f"memory is taken for {_MEMORY_BPS / 1e9:.0f} GB/s", peers, NOTE]
    return builder.build(
        policies=policies(far="direct" if few else "memory"),
        costs=COSTS,
        notes=notes,
        source=f"{system.file}: NCCL topology XML",
    )


def _join_bridges(machine: _Machine, elements: list[tuple[Element, str]]) -> None:
    """<pcilink>: switches that are joined to each other."""
    done: set[frozenset[str]] = set()
    for element, _ in elements:
        here = element.get("busid").lower()
        for link in element.of("pcilink"):
            there = link.get("target").lower()
            pair = frozenset((here, there))
            if len(pair) == 2 and pair not in done and all(end in machine.bridges for end in pair):
                done.add(pair)
                rate = machine.pci_rate[here]
                machine.builder.link(
                    Link(machine.bridges[here], machine.bridges[there], "pcie", rate, rate, basis="assumed")
                )


def _join_hosts(machine: _Machine, hosts: int) -> None:
    """Several hosts in one file: their NICs meet in one switch, since NCCL's file does not hold the network."""
    if hosts < 2:
        return
    nics = [device for device in machine.builder.devices() if device.kind == "nic"]
    if not nics:
        return
    machine.builder.add(Device("network", "network_switch"))
    for nic in nics:
        rate = float(nic.details.get("rate_Bps", _SLOWEST_NIC_BPS))
        machine.builder.link(Link(nic.name, "network", "network", rate, rate, basis="assumed"))
    machine.notes["the network between the hosts is not in the file: one switch that never blocks is assumed"] = None


def _gigatransfers(element: Element) -> float:
    match = re.match(r"\s*(\d+(?:\.\d+)?)\s*GT/s", element.get("link_speed"))
    return float(match[1]) if match else 0.0


def _kept(element: Element, *names: str) -> dict[str, str]:
    return {name: element.get(name) for name in names if element.get(name)}
