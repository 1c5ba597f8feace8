"""`=== System : maxBw ...` of NCCL's log: the tree of one host as NCCL searches it, with its speeds.

CPU/0 (1/2/-1)
+ SYS[5000.0] - CPU/1
+ PCI[24.0] - GPU/1000 (0)
+ PCI[24.0] - NIC/D1000
              + NET[25.0] - NET/0 (5a86.../1/25.000000)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from busbw.core.topology import Device, Link, TopologyBuilder
from busbw.errors import FileError
from busbw.topologies.assumed import COSTS, NOTE, PXB_NOTE, policies

if TYPE_CHECKING:
    from busbw.core.topology import Topology
    from busbw.topologies.readers._nccl_noun import Place

_ROOT = re.compile(r"(CPU|PCI|GPU|NIC|NVS)/(\S+?)(?: \(.*\))? *$")
_BRANCH = re.compile(r"( *)\+ (\w+)\[(\d{1,12}(?:\.\d{1,12})?)\] - (\w+)/(\S+)(?: \((.*)\))? *$")
_KINDS = {"CPU": "cpu", "PCI": "pcie_switch", "GPU": "gpu", "NIC": "nic", "NVS": "nvswitch"}
_LINKS = {"NVL": "nvlink", "XGMI": "xgmi", "C2C": "c2c", "PCI": "pcie", "SYS": "socket", "LOC": "local"}
_MEMORY_BPS = 100e9
_LEAST_BPS = 1.25e9
"""Of a NIC whose NET line is not there: NCCL's 10 Gb/s."""


@dataclass(slots=True)
class Block:
    """Lines of one block: (indent, link, GB/s, kind, name, rest); an indent of -1 begins a root."""

    lines: list[tuple[int, str, float, str, str, str]] = field(default_factory=list)

    def take(self, body: str) -> bool:
        """Take a line of the block; False when it is none, and the block has ended."""
        if match := _BRANCH.match(body):
            self.lines.append((len(match[1]), match[2], float(match[3]), match[4], match[5], match[6] or ""))
            return True
        if match := _ROOT.match(body):
            self.lines.append((-1, "", 0.0, match[1], match[2], ""))
            return True
        return False


def host_of_blocks(file: str, blocks: Mapping[str, Block], ranks: Mapping[int, Place]) -> Topology:
    """The hosts of a log, with the speeds that NCCL printed; hosts meet in one switch."""
    builder = TopologyBuilder(file)
    names: dict[int, str] = {}
    ports: list[tuple[str, float]] = []
    for number, (host, block) in enumerate(blocks.items()):
        prefix = f"host{number}/" if len(blocks) > 1 else ""
        _add_host(builder, block, f"host{number}", prefix, names, ports)
        del host
    notes = ["as NCCL printed the host (its graph lines): the speeds are those that it assumes", PXB_NOTE, NOTE]
    if len(blocks) > 1:
        if not ports:
            raise FileError(f"{file}: the graph lines of {len(blocks)} hosts without a NIC between them")
        builder.add(Device("network", "network_switch"))
        for nic, rate in ports:
            builder.link(Link(nic, "network", "network", rate, rate, basis="assumed"))
        notes.insert(0, "the network between the hosts is not in the log: one switch that never blocks is assumed")
    said = len({place.host for place in ranks.values()})
    if said > len(blocks):
        notes.insert(0, f"{said} hosts in the log, and graph lines of {len(blocks)}")
    if not any(device.kind == "gpu" for device in builder.devices()):
        raise FileError(f"{file}: the graph lines of the log name no GPU")
    found = len([device for device in builder.devices() if device.kind == "gpu"])
    if sorted(names) == list(range(found)):
        builder.set_ranks([names[rank] for rank in sorted(names)])
    return builder.build(policies=policies(), costs=COSTS, notes=notes, source=f"{file}: NCCL_DEBUG graph lines")


def _add_host(
    builder: TopologyBuilder,
    block: Block,
    host: str,
    prefix: str,
    names: dict[int, str],
    ports: list[tuple[str, float]],
) -> None:
    known: dict[tuple[str, str], str] = {}
    counts: dict[str, int] = {}

    def device(kind: str, name: str, rest: str) -> str:
        if (kind, name) not in known:
            word = {"PCI": "switch", "NVS": "nvswitch"}.get(kind, kind.lower())
            number = counts.get(word, 0)
            counts[word] = number + 1
            details = {"nccl": f"{kind}/{name}"}
            known[kind, name] = builder.add(Device(f"{prefix}{word}{number}", _KINDS[kind], host, details=details))
            if kind == "CPU":
                memory = builder.add(Device(f"{prefix}memory{number}", "memory", host))
                builder.link(
                    Link(known[kind, name], memory, "memory", _MEMORY_BPS, _MEMORY_BPS, _MEMORY_BPS, basis="assumed")
                )
        if kind == "GPU" and rest.isdecimal() and len(rest) < 10:
            names[int(rest)] = known[kind, name]
        return known[kind, name]

    above: list[tuple[int, str, str]] = []  # indent, kind, device
    joined: set[tuple[frozenset[str], str]] = set()
    wired: dict[str, float] = {}
    for indent, link, rate, kind, name, rest in block.lines:
        while above and above[-1][0] >= indent:
            above.pop()
        if kind == "NET":
            if above and above[-1][1] == "NIC":
                wired[above[-1][2]] = wired.get(above[-1][2], 0.0) + rate * 1e9
            continue
        if kind not in _KINDS:
            continue
        here = device(kind, name, rest)
        if indent >= 0 and above:
            ends = (frozenset((above[-1][2], here)), link)
            if len(ends[0]) == 2 and ends not in joined:
                joined.add(ends)
                way = "nvlink" if link.startswith("NV") else _LINKS.get(link, "pcie")
                builder.link(Link(above[-1][2], here, way, rate * 1e9, rate * 1e9, basis="assumed"))
        above.append((indent, kind, here))
    for (kind, _), nic in known.items():
        if kind == "NIC":
            ports.append((nic, wired.get(nic, _LEAST_BPS)))
