"""This machine, read from sysfs and from NVIDIA's driver; without a GPU, as processes over shared memory.

Speeds of PCIe and of NICs are nominal (what the links are trained to, on paper); NVLinks, sockets and memory are
assumed. Nothing here is measured: that is for `busbw bench` and `busbw calibrate`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from busbw.core.topology import Device, Link, Topology, TopologyBuilder
from busbw.host import Host, pci
from busbw.host import nics as host_nics
from busbw.topologies._nvml import NvGpu, nvml_gpus
from busbw.topologies.assumed import COSTS, NOTE, PXB_NOTE, nccl_nvlink_Bps, nccl_pcie_Bps, policies

SOCKET_BPS, MEMORY_BPS, COPY_BPS = 20e9, 100e9, 10e9
"""Assumed: between sockets, one way; a socket's memory, both ways together; what one process copies."""


@dataclass(slots=True)
class _Here:
    """What is being built."""

    host: Host
    builder: TopologyBuilder
    package_of: dict[int, int]
    """NUMA node -> number of the CPU."""
    cpus: int
    switches: dict[str, str] = field(default_factory=dict)
    """Address of a switch's upstream port -> device."""
    notes: dict[str, None] = field(default_factory=dict)

    def cpu_at(self, numa: int | None) -> str:
        """The CPU of a NUMA node; the first where the firmware does not say."""
        if numa is None and self.cpus > 1:
            self.notes["the firmware does not say at which socket a device is: the first is taken"] = None
        return f"cpu{self.package_of.get(numa or 0, 0)}"

    def rate(self, address: str) -> tuple[float, str]:
        """Bytes a second one way of a device's link, and its basis. Links of idle devices are slow, so their most counts."""
        link = pci.link(self.host, address)
        if link is None:
            self.notes["a PCIe link of unknown speed is taken for Gen3 x16 (12 GB/s), NCCL's rule"] = None
            return nccl_pcie_Bps(0.0, 16), "assumed"
        if link.speed < link.max_speed:
            self.notes[
                "a PCIe link that is idle, or slower than it could be, counts with its full speed: busbw doctor tells which"
            ] = None
        return pci.rate_Bps(link.max_speed, link.width), "nominal"

    def above(self, device: pci.Device) -> str:
        """What a device hangs at: the innermost switch above it, else its CPU.

        A switch shows as two ports: a downstream port for each device, and one upstream port above them. So of
        (downstream, upstream, downstream, upstream, ..., root port) every second is a switch.
        """
        uplinks = device.above[1:-1:2]
        place = self.cpu_at(device.numa)
        for address in reversed(uplinks):
            if address not in self.switches:
                name = f"switch{len(self.switches)}"
                self.switches[address] = self.builder.add(
                    Device(name, "pcie_switch", "host0", details={"busid": address})
                )
                rate, basis = self.rate(address)
                self.builder.link(Link(name, place, "pcie", rate, rate, basis=basis))
            place = self.switches[address]
        return place


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """What was found here, and the machine that it makes."""

    machine: Topology
    found: tuple[str, ...]

    @property
    def stands_alone(self) -> bool:
        """It describes a machine, or nothing."""
        return False

    def topology(self) -> Topology:
        """The machine."""
        return self.machine

    def summary(self) -> list[str]:
        """What was looked at, and what was not there."""
        return list(self.found)

    def to_json(self) -> dict[str, Any]:
        """What was found."""
        return {"format": "this", "found": list(self.found)}


def this_machine(host: Host | None = None, nvidia: Sequence[NvGpu] | None = None) -> ThisMachine:
    """This machine, or the one that `host` is a copy of; `nvidia` are the driver's GPUs, asked for where None."""
    host = host or Host()
    reason = ""
    if nvidia is None:
        nvidia, reason = nvml_gpus() if host.is_this else ((), "a copy of a host has no driver to ask")
    packages, package_of = _packages(host)
    builder = TopologyBuilder("this")
    here = _Here(host, builder, package_of, len(packages))
    gpus = pci.gpus(host)
    names: dict[str, str] = {}
    known = {gpu.busid: gpu for gpu in nvidia}
    for number, gpu in enumerate(gpus):
        details = {"busid": gpu.address}
        if gpu.address in known:
            details |= {"model": known[gpu.address].name, "sm": str(known[gpu.address].sm)}
        names[gpu.address] = builder.add(Device(f"gpu{number}", "gpu", "host0", details=details))
    processes = 0 if gpus else _process_count(host, packages)
    for number in range(processes):
        builder.add(Device(f"process{number}", "process", "host0"))
    _add_cpus(builder, len(packages))
    for number in range(processes):
        cpu = f"cpu{number * len(packages) // processes}"
        builder.link(Link(f"process{number}", cpu, "memory", COPY_BPS, COPY_BPS, basis="assumed"))
    for gpu in gpus:
        rate, basis = here.rate(gpu.address)
        builder.link(Link(names[gpu.address], here.above(gpu), "pcie", rate, rate, basis=basis))
    _add_nvlinks(here, names, nvidia)
    nic_names = _add_nics(here)
    found = [
        f"GPUs on PCI: {len(gpus)}" + (f" (NVIDIA's driver: {len(nvidia)})" if nvidia else ""),
        f"sockets: {len(packages)}; NICs: {', '.join(nic_names) or 'none'}",
    ]
    if gpus and reason:
        here.notes[f"NVLinks are not known: {reason}"] = None
    if any(gpu.vendor == pci.AMD for gpu in gpus):
        here.notes["xGMI is not read from here: give the output of rocm-smi --showtopo instead"] = None
    here.notes[f"sockets are taken for {SOCKET_BPS / 1e9:.0f}, memory for {MEMORY_BPS / 1e9:.0f} GB/s"] = None
    if processes:
        here.notes = {
            f"no GPU here: {processes} processes, one a CPU, that talk through shared memory; each is taken to copy "
            f"{COPY_BPS / 1e9:.0f} GB/s": None,
            "no speed here is measured: busbw bench, then busbw calibrate, tell what they are": None,
        } | here.notes
    else:
        here.notes[PXB_NOTE] = None
    here.notes[NOTE] = None
    machine = builder.build(
        policies=policies(), costs=COSTS, notes=tuple(here.notes), source="this machine: sysfs, NVIDIA's driver"
    )
    return ThisMachine(machine, tuple(found))


def _packages(host: Host) -> tuple[list[str], dict[int, int]]:
    """Sockets, and for each NUMA node the number of its socket."""
    folder = "/sys/devices/system/cpu"
    of_cpu = {
        int(name[3:]): host.text(f"{folder}/{name}/topology/physical_package_id")
        for name in host.names(folder)
        if re.fullmatch(r"cpu\d+", name)
    }
    packages = sorted({package for package in of_cpu.values() if package}) or ["0"]
    nodes: dict[int, int] = {}
    for name in host.names("/sys/devices/system/node"):
        if match := re.fullmatch(r"node(\d+)", name):
            first = re.match(r"\d+", host.text(f"/sys/devices/system/node/{name}/cpulist"))
            package = of_cpu.get(int(first[0]), "") if first else ""
            nodes[int(match[1])] = packages.index(package) if package in packages else 0
    return packages, nodes


def _process_count(host: Host, packages: list[str]) -> int:
    """One process for each CPU that we may run on."""
    if host.is_this and hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    cpus = [name for name in host.names("/sys/devices/system/cpu") if re.fullmatch(r"cpu\d+", name)]
    return max(len(cpus), len(packages), 1)


def _add_cpus(builder: TopologyBuilder, count: int) -> None:
    for cpu in range(count):
        builder.add(Device(f"cpu{cpu}", "cpu", "host0"))
        builder.add(Device(f"memory{cpu}", "memory", "host0"))
        builder.link(Link(f"cpu{cpu}", f"memory{cpu}", "memory", MEMORY_BPS, MEMORY_BPS, MEMORY_BPS, basis="assumed"))
        for other in range(cpu):
            builder.link(Link(f"cpu{other}", f"cpu{cpu}", "socket", SOCKET_BPS, SOCKET_BPS, basis="assumed"))


def _add_nvlinks(here: _Here, names: dict[str, str], nvidia: Sequence[NvGpu]) -> None:
    """Links to NVSwitches, and between GPUs; what both ends tell is one link."""
    switched = [gpu for gpu in nvidia if gpu.switch_links and gpu.busid in names]
    if switched:
        reduces = all(gpu.sm >= 90 for gpu in switched)
        here.builder.add(Device("nvswitch", "nvswitch", "host0", reduces=reduces))
        for gpu in switched:
            rate = gpu.switch_links * nccl_nvlink_Bps(gpu.sm)
            here.builder.link(Link(names[gpu.busid], "nvswitch", "nvlink", rate, rate, basis="assumed"))
        here.notes["all NVSwitches are one device; an NVLink is taken for NCCL's rate of its generation"] = None
    done: set[frozenset[str]] = set()
    for gpu in nvidia:
        for other, links in gpu.peers.items():
            pair = frozenset((gpu.busid, other))
            if len(pair) == 2 and pair <= names.keys() and pair not in done:
                done.add(pair)
                rate = links * nccl_nvlink_Bps(gpu.sm)
                here.builder.link(Link(names[gpu.busid], names[other], "nvlink", rate, rate, basis="assumed"))


def _add_nics(here: _Here) -> list[str]:
    """RDMA devices, and network devices with hardware that no RDMA device drives."""
    host, devices = here.host, pci.devices(here.host)
    found: dict[str, tuple[str, float]] = {}
    rates: dict[str, float] = {}
    for port in host_nics.ports(host):
        rates[port.device] = rates.get(port.device, 0.0) + (port.rate_Bps if port.is_up else 0.0)
    for name, address in pci.rdma_devices(host).items():
        found[name] = (address, rates.get(name, 0.0))
    for net in host_nics.net_devices(host):
        parts = host.target(f"{host_nics.NET}/{net.name}/device").split("/")
        address = next((part for part in reversed(parts) if pci.ADDRESS.fullmatch(part)), "")
        found[net.name] = (address, net.rate_Bps)
    for number, (name, (address, rate)) in enumerate(found.items()):
        details = (
            {"device": name} | ({"busid": address} if address else {}) | ({"rate_Bps": repr(rate)} if rate > 0 else {})
        )
        nic = here.builder.add(Device(f"nic{number}", "nic", "host0", details=details))
        if address in devices:
            speed, basis = here.rate(address)
            here.builder.link(Link(nic, here.above(devices[address]), "pcie", speed, speed, basis=basis))
        else:
            speed = nccl_pcie_Bps(0.0, 16)
            here.builder.link(Link(nic, "cpu0", "local", speed, speed, basis="assumed"))
    return list(found)
