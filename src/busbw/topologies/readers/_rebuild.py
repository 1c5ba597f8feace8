"""A host from the matrix of nvidia-smi topo -m: sockets, switches, and where GPUs and NICs hang.

The cells are distances of a tree: what is PIX to each other hangs at one switch, what is PXB at one tree of switches,
what is PHB or NODE at one socket; SYS separates sockets. NV hides where a pair hangs: there the nearest NICs and the CPU affinity
tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from busbw.core.topology import Device, Link, TopologyBuilder
from busbw.topologies.assumed import COSTS, NOTE, PXB_NOTE, nccl_pcie_Bps, policies

if TYPE_CHECKING:
    from busbw.core.topology import Topology
    from busbw.topologies.readers.smi_topo import SmiMatrix

_SOCKET_BPS, _MEMORY_BPS = 10e9, 100e9
_NVLINKS = {18: 20.6e9, 12: 20e9, 8: 20e9, 6: 20e9}
"""NVLinks of a GPU -> one of them, one way, as NCCL assumes: H100, A100, A800, V100."""
_PCIE = {18: 32.0, 12: 16.0, 8: 16.0}
"""NVLinks of a GPU -> gigatransfers of the PCIe of its boards; unknown is Gen3, NCCL's rule."""


class Groups:
    """Names that are joined into groups."""

    def __init__(self, names: Iterable[str]) -> None:
        self._head = {name: name for name in names}

    def head(self, name: str) -> str:
        """The name that stands for a group."""
        while self._head[name] != name:
            name = self._head[name]
        return name

    def join(self, one: str, other: str) -> None:
        """Put two groups together."""
        low, high = sorted((self.head(one), self.head(other)), key=list(self._head).index)
        self._head[high] = low

    def lists(self) -> list[list[str]]:
        """The groups, in the order of their first names."""
        found: dict[str, list[str]] = {}
        for name in self._head:
            found.setdefault(self.head(name), []).append(name)
        return list(found.values())


def rebuild(matrix: SmiMatrix) -> Topology:
    """The host as a Topology; all speeds are assumed, and its notes say what was concluded."""
    links = max(matrix.links_per_gpu().values(), default=0)
    pcie = nccl_pcie_Bps(_PCIE.get(links, 0.0), 16)
    sockets = _sockets(matrix)
    builder = TopologyBuilder(f"{matrix.file}")
    for gpu in matrix.gpus:
        builder.add(Device(gpu.lower(), "gpu", "host0", details=_details(matrix, gpu)))
    for number, members in enumerate(sockets):
        builder.add(Device(f"cpu{number}", "cpu", "host0"))
        builder.add(Device(f"memory{number}", "memory", "host0"))
        builder.link(
            Link(f"cpu{number}", f"memory{number}", "memory", _MEMORY_BPS, _MEMORY_BPS, _MEMORY_BPS, basis="assumed")
        )
        for nic in members:
            if nic in matrix.nics:
                builder.add(Device(nic.lower(), "nic", "host0", details=_nic_details(matrix, nic)))
        for other in range(number):
            builder.link(Link(f"cpu{other}", f"cpu{number}", "socket", _SOCKET_BPS, _SOCKET_BPS, basis="assumed"))
        _hang(builder, matrix, members, f"cpu{number}", pcie)
    _add_nvlinks(builder, matrix, links)
    notes = [*matrix.notes, "rebuilt from distances: the matrix tells neither speeds nor how many bridges there are"]
    notes.append(
        f"PCIe is taken for {pcie / 1e9:.0f} GB/s one way"
        + ("" if links in _PCIE else ", Gen3 x16, NCCL's rule for unknown speed")
    )
    if links:
        notes.append(
            f"an NVLink is taken for {_nvlink(links) / 1e9:.4g} GB/s one way, by the {links} links of a GPU; Blackwell's are twice as fast"
        )
    if _all_far(matrix):
        notes.append("all pairs are SYS, also those with the same CPUs: sockets are taken from the CPU affinity")
    notes += [f"sockets are taken for {_SOCKET_BPS / 1e9:.0f}, memory for {_MEMORY_BPS / 1e9:.0f} GB/s", PXB_NOTE, NOTE]
    return builder.build(
        policies=policies(), costs=COSTS, notes=notes, source=f"{matrix.file}:{matrix.line}: nvidia-smi topo -m"
    )


def _details(matrix: SmiMatrix, gpu: str) -> dict[str, str]:
    words = matrix.affinity.get(gpu, ())
    return {key: word for key, word in zip(("cpus", "numa"), words, strict=False) if word != "N/A"}


def _nic_details(matrix: SmiMatrix, nic: str) -> dict[str, str]:
    return {"device": matrix.nic_devices[nic]} if nic in matrix.nic_devices else {}


def _sockets(matrix: SmiMatrix) -> list[list[str]]:
    """Groups of GPUs and NICs that share a socket."""
    groups = Groups(matrix.columns)
    names = matrix.columns
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            if matrix.cell(one, other) in ("PIX", "PXB", "PHB", "NODE", "C2C"):
                groups.join(one, other)
    far = {(a, b) for a in names for b in names if matrix.cell(a, b) in ("SYS", "SOC")}
    if _all_far(matrix):  # no pair shares anything, though GPUs have the same CPUs: those are the sockets
        far -= {(a, b) for a in matrix.gpus for b in matrix.gpus}
        hidden = True
    else:
        hidden = False
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            cell = matrix.cell(one, other)
            if cell and not cell.startswith("NV") and not (hidden and one in matrix.gpus and other in matrix.gpus):
                continue  # it was used above; NVLink, and what is cut off, say nothing: the same CPUs are the same socket
            mine, theirs = matrix.affinity.get(one, ("",))[0], matrix.affinity.get(other, ("",))[0]
            parts = [[name for name in names if groups.head(name) == groups.head(end)] for end in (one, other)]
            if mine == theirs and not any((a, b) in far for a in parts[0] for b in parts[1]):
                groups.join(one, other)
    return groups.lists()


def _all_far(matrix: SmiMatrix) -> bool:
    """Whether all pairs of GPUs are SYS although some of them have the same CPUs."""
    cells = {cell for _, _, cell in matrix.pairs()}
    known = [words[0] for words in matrix.affinity.values()]
    return cells <= {"SYS", "SOC"} and len(matrix.gpus) > 2 and len(set(known)) < len(known) and len(set(known)) > 1


def _hang(builder: TopologyBuilder, matrix: SmiMatrix, members: list[str], cpu: str, pcie: float) -> None:
    """Hang the devices of one socket: trees of switches where cells are PIX or PXB, the others at root ports."""
    trees, near = Groups(members), Groups(members)
    for place, one in enumerate(members):
        for other in members[place + 1 :]:
            cell = matrix.cell(one, other)
            if cell in ("PIX", "PXB"):
                trees.join(one, other)
            if cell == "PIX":
                near.join(one, other)
    for tree in trees.lists():
        top = cpu if len(tree) == 1 else _switch(builder, cpu, pcie)
        groups = [group for group in near.lists() if group[0] in tree]
        for group in groups:
            port = top if len(group) == 1 or len(groups) == 1 else _switch(builder, top, pcie)
            for name in group:
                builder.link(Link(name.lower(), port, "pcie", pcie, pcie, basis="assumed"))


def _switch(builder: TopologyBuilder, above: str, pcie: float) -> str:
    number = sum(1 for name in builder.names() if re.fullmatch(r"switch\d+", name))
    switch = builder.add(Device(f"switch{number}", "pcie_switch", "host0"))
    builder.link(Link(switch, above, "pcie", pcie, pcie, basis="assumed"))
    return switch


def _nvlink(links: int) -> float:
    return _NVLINKS.get(links, 12e9 if links == 4 else 20e9)


def _add_nvlinks(builder: TopologyBuilder, matrix: SmiMatrix, links: int) -> None:
    rate = _nvlink(links)
    if matrix.switched:
        builder.add(Device("nvswitch", "nvswitch", "host0"))
        for gpu in matrix.gpus:
            builder.link(Link(gpu.lower(), "nvswitch", "nvlink", links * rate, links * rate, basis="assumed"))
        return
    for one, other, cell in matrix.pairs():
        if cell.startswith("NV"):
            bonded = int(cell[2:]) * rate
            builder.link(Link(one.lower(), other.lower(), "nvlink", bonded, bonded, basis="assumed"))
