"""One host as layers: memory and CPUs on top, PCIe switches, then GPUs and NICs; each box is as wide as all below it.

So every link of the tree is a vertical line, and none crosses another.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from busbw.core.topology import DEVICE_KINDS, LINK_KINDS, RANK_KINDS, Topology
from busbw.draw.scene import Box
from busbw.plots.text import text_width

BOX_HEIGHT, LEAF_HEIGHT, LINK_ROOM, MEMORY_HEIGHT, MEMORY_ROOM = 28.0, 34.0, 62.0, 22.0, 42.0
LEAF_WIDTH, LEAF_GAP, GROUP_GAP, SOCKET_GAP = 48.0, 8.0, 14.0, 84.0
NAME_SIZE, SMALL_SIZE = 10.5, 9.0
MEMORY_WIDTH, LABEL_ROOM = 80.0, 38.0
LANE = 12.0
"""Pixels between two links that go around something."""

TREE_LINKS = tuple(LINK_KINDS.index(kind) for kind in ("pcie", "local", "c2c", "nvlink", "xgmi", "memory"))
CPU, SWITCH, GPU, MEMORY, NVSWITCH = (
    DEVICE_KINDS.index(kind) for kind in ("cpu", "pcie_switch", "gpu", "memory", "nvswitch")
)
RANKED = tuple(DEVICE_KINDS.index(kind) for kind in RANK_KINDS)


@dataclass(slots=True)
class Host:
    """Where the devices of one host stand (the origin is the top left corner), and which links join them."""

    boxes: dict[int, Box] = field(default_factory=dict)
    tree: list[tuple[int, int, int]] = field(default_factory=list)
    """(link, upper device, lower device): drawn as vertical lines."""
    roots: list[int] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)
    links: list[int] = field(default_factory=list)
    """All links inside the host."""
    width: float = 0.0
    height: float = 0.0


def short_name(topology: Topology, device: int) -> str:
    """A device's name without its host's: `gpu0` for `host0/gpu0`."""
    name, host = topology.names[device], int(topology.device_host[device])
    prefix = f"{topology.hosts[host]}/" if host >= 0 else ""
    return name[len(prefix) :] if prefix and name.startswith(prefix) else name


def clipped(text: str, width: float, size: float, bold: bool = False) -> str:
    """The text, or its beginning with an ellipsis, in so many pixels."""
    if text_width(text, size, bold) <= width:
        return text
    while text and text_width(text + "…", size, bold) > width:
        text = text[:-1]
    return text + "…"


def plan_host(topology: Topology, devices: list[int]) -> Host:
    """Places for the devices of one host; its nvswitches are left to the caller."""
    host = Host()
    kinds = {device: int(topology.device_kind[device]) for device in devices}
    inside = np.isin(topology.link_a, devices) & np.isin(topology.link_b, devices)
    host.links = np.flatnonzero(inside).tolist()
    around = _neighbours(topology, host.links, kinds)
    children = _grow(host, kinds, around)
    depth: dict[int, int] = {}
    for root in host.roots:
        _depths(root, 0, children, depth)
    host.leaves = [d for root in host.roots for d in _leaves(root, children)]
    inner = [depth[d] for d in depth if kinds[d] in (CPU, SWITCH)]
    leaf_row = max(inner) + 1 if inner else 0
    memories = {_other(topology, link, MEMORY): link for link in host.links if _is_memory(topology, link)}
    chords = _far_sockets(topology, host)
    top = chords * LANE + (MEMORY_HEIGHT + MEMORY_ROOM if memories else 0.0)
    widths: dict[int, float] = {}
    for root in host.roots:
        _measure(topology, root, children, widths)
        if kinds[root] == CPU and memories:  # room for the memory, and for links that go up beside it
            widths[root] = max(widths[root], 190.0 if chords else MEMORY_WIDTH + 8)
    x = 0.0
    for index, root in enumerate(host.roots):
        _place(topology, host, root, x, top, depth, leaf_row, children, widths)
        joined = index + 1 < len(host.roots) and kinds[root] == kinds[host.roots[index + 1]] == CPU
        x += widths[root] + (SOCKET_GAP if joined else GROUP_GAP if children.get(root) else LEAF_GAP)
    # The last column's labels stand to the right of its links.
    ends = [box.centre[0] + LABEL_ROOM for device, box in host.boxes.items() if device in host.leaves]
    host.width = max([*(box.right for box in host.boxes.values()), *ends], default=0.0)
    for memory, link in memories.items():
        cpu = int(topology.link_a[link]) if int(topology.link_b[link]) == memory else int(topology.link_b[link])
        if cpu in host.boxes:
            centre = host.boxes[cpu].centre[0]
            host.boxes[memory] = _box(
                topology, memory, centre - MEMORY_WIDTH / 2, chords * LANE, MEMORY_WIDTH, MEMORY_HEIGHT
            )
            host.tree.append((link, memory, cpu))
    host.height = max((box.bottom for box in host.boxes.values()), default=0.0)
    return host


def _neighbours(topology: Topology, links: list[int], kinds: dict[int, int]) -> dict[int, list[tuple[int, int]]]:
    """Device -> (neighbour, link) over links that may be part of the tree."""
    around: dict[int, list[tuple[int, int]]] = {}
    for link in links:
        a, b = int(topology.link_a[link]), int(topology.link_b[link])
        both = {kinds[a], kinds[b]}
        if int(topology.link_kind[link]) not in TREE_LINKS or both & {MEMORY, NVSWITCH} or both <= set(RANKED):
            continue
        around.setdefault(a, []).append((b, link))
        around.setdefault(b, []).append((a, link))
    return around


def _grow(host: Host, kinds: dict[int, int], around: dict[int, list[tuple[int, int]]]) -> dict[int, list[int]]:
    """Roots and children, from the CPUs down; what no CPU reaches hangs at its switch, or stands alone."""
    children: dict[int, list[int]] = {}
    seen: set[int] = set()
    placed = [d for d in kinds if kinds[d] not in (MEMORY, NVSWITCH)]
    for wanted in (CPU, SWITCH, None):
        for root in placed:
            if root in seen or (wanted is not None and kinds[root] != wanted):
                continue
            roots = [d for d in placed if kinds[d] == CPU] if wanted == CPU else [root]
            host.roots += roots
            seen |= set(roots)
            _spread(host, roots, kinds, around, children, seen)
    return children


def _spread(
    host: Host,
    roots: list[int],
    kinds: dict[int, int],
    around: dict[int, list[tuple[int, int]]],
    children: dict[int, list[int]],
    seen: set[int],
) -> None:
    waiting = list(roots)
    while waiting:
        here = waiting.pop(0)
        for neighbour, link in sorted(around.get(here, ())):
            if neighbour in seen:
                continue
            seen.add(neighbour)
            children.setdefault(here, []).append(neighbour)
            host.tree.append((link, here, neighbour))
            if kinds[neighbour] in (CPU, SWITCH):
                waiting.append(neighbour)


def _depths(device: int, at: int, children: dict[int, list[int]], depth: dict[int, int]) -> None:
    depth[device] = at
    for child in children.get(device, ()):
        _depths(child, at + 1, children, depth)


def _leaves(device: int, children: dict[int, list[int]]) -> list[int]:
    below = children.get(device, [])
    return [leaf for child in below for leaf in _leaves(child, children)] if below else [device]


def _measure(topology: Topology, device: int, children: dict[int, list[int]], widths: dict[int, float]) -> float:
    below = children.get(device, [])
    named = min(text_width(short_name(topology, device), NAME_SIZE, True) + 12, 120.0)
    if not below:
        widths[device] = max(LEAF_WIDTH, min(named, 76.0))
        return widths[device]
    total = sum(_measure(topology, child, children, widths) for child in below)
    widths[device] = max(total + sum(_gaps(below, children)), named, LEAF_WIDTH)
    return widths[device]


def _gaps(below: list[int], children: dict[int, list[int]]) -> list[float]:
    return [
        GROUP_GAP if children.get(one) or children.get(other) else LEAF_GAP for one, other in itertools.pairwise(below)
    ]


def _place(
    topology: Topology,
    host: Host,
    device: int,
    x: float,
    top: float,
    depth: dict[int, int],
    leaf_row: int,
    children: dict[int, list[int]],
    widths: dict[int, float],
) -> None:
    below = children.get(device, [])
    inner = bool(below) or int(topology.device_kind[device]) in (CPU, SWITCH)
    row = depth[device] if inner else leaf_row
    y = top + row * (BOX_HEIGHT + LINK_ROOM)
    high = BOX_HEIGHT if inner else LEAF_HEIGHT
    host.boxes[device] = _box(topology, device, x, y, widths[device], high)
    gaps = [*_gaps(below, children), 0.0]
    inside = sum(widths[child] for child in below) + sum(gaps)
    x += (widths[device] - inside) / 2
    for child, gap in zip(below, gaps, strict=bool(below)):
        _place(topology, host, child, x, top, depth, leaf_row, children, widths)
        x += widths[child] + gap


def _box(topology: Topology, device: int, x: float, y: float, width: float, height: float) -> Box:
    kind = DEVICE_KINDS[int(topology.device_kind[device])]
    details = ", ".join(f"{key} {value}" for key, value in topology.details.get(device, {}).items())
    said = f"{topology.names[device]}: {kind}" + (f" ({details})" if details else "")
    role = "gpu" if kind == "process" else kind
    return Box(x, y, width, height, role, f"{role} edge", 1.3, 5, name=f"device {device}", said=said)


def _is_memory(topology: Topology, link: int) -> bool:
    ends = (int(topology.link_a[link]), int(topology.link_b[link]))
    return any(int(topology.device_kind[end]) == MEMORY for end in ends)


def _other(topology: Topology, link: int, kind: int) -> int:
    a, b = int(topology.link_a[link]), int(topology.link_b[link])
    return a if int(topology.device_kind[a]) == kind else b


def _far_sockets(topology: Topology, host: Host) -> int:
    """How many links between sockets have to go around others."""
    return sum(abs(one - other) > 1 for _, one, other in socket_links(topology, host))


def socket_links(topology: Topology, host: Host) -> list[tuple[int, int, int]]:
    """(link, place of one CPU among the roots, place of the other), the lower place first."""
    out = []
    for link in host.links:
        a, b = int(topology.link_a[link]), int(topology.link_b[link])
        if a in host.roots and b in host.roots and {int(topology.device_kind[end]) for end in (a, b)} == {CPU}:
            one, other = sorted((host.roots.index(a), host.roots.index(b)))
            out.append((link, one, other))
    return out
