"""What stands above and below a machine's picture, and how its devices are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from busbw.core.topology import BASES, DEVICE_KINDS, LINK_KINDS, Ints, Topology
from busbw.draw.host import clipped
from busbw.draw.loads import Usage
from busbw.draw.scene import LEADING, Item, Line, Text, text_lines
from busbw.plots.text import text_width, wrap
from busbw.units import format_rate

MARGIN, TITLE_SIZE, TEXT_SIZE = 16.0, 17.0, 12.0


def described(topology: Topology) -> str:
    """How many devices of each kind there are: `8 GPUs, 2 CPUs, 4 PCIe switches, on 1 host.`"""
    counts = Counter(topology.device_kind.tolist())
    named = [
        f"{counts[index]} {_PLURALS[kind] if counts[index] != 1 else _SINGULARS[kind]}"
        for index, kind in enumerate(DEVICE_KINDS)
        if counts[index]
    ]
    hosts = len(topology.hosts)
    return ", ".join(named) + (f", on {hosts} host{'s' if hosts != 1 else ''}." if hosts else ".")


_SINGULARS = {
    "gpu": "GPU", "pcie_switch": "PCIe switch", "nvswitch": "NVSwitch", "cpu": "CPU", "memory": "memory", "nic": "NIC",
    "network_switch": "network switch", "process": "process",
}  # fmt: skip
_PLURALS = {
    "gpu": "GPUs", "pcie_switch": "PCIe switches", "nvswitch": "NVSwitches", "cpu": "CPUs", "memory": "memories", "nic": "NICs",
    "network_switch": "network switches", "process": "processes",
}  # fmt: skip


def contents(topology: Topology, members: Sequence[int]) -> list[str]:
    """What a collapsed host holds: `8 GPUs`, `8 NICs`."""
    counts = Counter(DEVICE_KINDS[int(topology.device_kind[device])] for device in members)
    shown = [kind for kind in ("gpu", "process", "nic") if counts[kind]]
    return [f"{counts[kind]} {_PLURALS[kind] if counts[kind] != 1 else _SINGULARS[kind]}" for kind in shown]


def head(topology: Topology, usage: Usage | None, width: float) -> tuple[list[Item], float]:
    """Name, what it is made of, what runs on it; and where the picture begins."""
    items = text_lines(MARGIN, MARGIN, [clipped(topology.name, width, TITLE_SIZE, True)], TITLE_SIZE, bold=True)
    y = MARGIN + TITLE_SIZE * LEADING
    sentences = [(described(topology), "quiet")]
    if usage is not None:
        sentences.append((usage.words, "ink"))
    for sentence, role in sentences:
        lines = wrap(sentence, width, TEXT_SIZE)
        items += text_lines(MARGIN, y, lines, TEXT_SIZE, role)
        y += len(lines) * TEXT_SIZE * LEADING
    return items, y + 12


def foot(topology: Topology, width: float) -> tuple[list[Item], float]:
    """What each colour of link is, how fast, on what ground; and what the machine's notes say."""
    items: list[Item] = []
    x = y = 0.0
    for index, kind in enumerate(LINK_KINDS):
        links = np.flatnonzero(topology.link_kind == index)
        if not len(links):
            continue
        words = f"{LINK_NAMES.get(kind, kind)} {_range(topology, links)}"
        room = 30 + text_width(words, TEXT_SIZE - 0.5)
        if x and x + room > width:
            x, y = 0.0, y + 20
        items.append(Line(((x, y + 8), (x + 22, y + 8)), "memory link" if kind == "memory" else kind, 4))
        items.append(Text(x + 28, y + 8, words, TEXT_SIZE - 0.5, role="quiet"))
        x += room + 18
    y += 24 if len(items) else 0
    said = "Numbers at links are GB/s each way" if topology.link_count else ""
    if topology.link_count and np.isfinite(topology.duplex_Bps).any():
        said += "; “both” is what both directions carry together"
    for sentence in (said, f"Source: {topology.source}" if topology.source else "", *topology.notes):
        if sentence:
            lines = wrap(f"{sentence[0].upper()}{sentence[1:]}.".replace("..", "."), width, TEXT_SIZE - 1)
            items += text_lines(0, y, lines, TEXT_SIZE - 1, "quiet")
            y += len(lines) * (TEXT_SIZE - 1) * LEADING
    return items, y


LINK_NAMES = {
    "nvlink": "NVLink", "xgmi": "xGMI", "c2c": "C2C", "pcie": "PCIe", "local": "inside a device", "memory": "memory",
    "socket": "between sockets", "network": "network",
}  # fmt: skip


def _range(topology: Topology, links: Ints) -> str:
    rates = np.concatenate([topology.forward_Bps[links], topology.backward_Bps[links]])
    low, high = float(rates.min()), float(rates.max())
    basis = "/".join(sorted({BASES[int(i)] for i in topology.link_basis[links]}))
    speed = format_rate(high) if low == high else f"{low / 1e9:.3g} to {format_rate(high)}"
    return f"{speed} ({basis})"
