"""Links of a machine in groups that are alike: between the same kinds of devices, of the same kind.

A group's directions are *out*, away from the ranks, and *in*, towards them; between devices of one kind (two sockets)
there is one rate for either way. All links of a group have one speed when it is calibrated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from busbw.core.schedule import Ints
from busbw.core.topology import DEVICE_KINDS, LINK_KINDS, Floats, Topology

_DISTANCE = {
    "gpu": 0,
    "process": 0,
    "nvswitch": 1,
    "pcie_switch": 1,
    "cpu": 2,
    "nic": 2,
    "memory": 3,
    "network_switch": 3,
}
"""From the ranks, in order: what lies further out has the larger number."""

ANY = 1e18
"""Bytes a second that nothing reaches."""


@dataclass(frozen=True, slots=True)
class Column:
    """One speed: of all links of a group, one way, or both ways together."""

    group: str
    near: str
    far: str
    way: str
    """out, in, each (either way, of links between equals) or both (together)."""
    resources: tuple[int, ...]
    """As in `Topology.capacities`."""

    @property
    def name(self) -> str:
        """In words: `pcie_switch -> cpu`."""
        if self.way == "out":
            return f"{self.near} -> {self.far}"
        if self.way == "in":
            return f"{self.far} -> {self.near}"
        if self.way == "each":
            return f"{self.near} - {self.far}, each way"
        return f"{self.near} <-> {self.far}, both ways together"


def columns_of(topology: Topology) -> list[Column]:
    """Every speed that a calibration may set, budgets of both ways included where the machine has none yet."""
    found: dict[tuple[str, str, str], dict[str, list[int]]] = {}
    kinds = [DEVICE_KINDS[kind] for kind in topology.device_kind.tolist()]
    ends = zip(topology.link_a.tolist(), topology.link_b.tolist(), topology.link_kind.tolist(), strict=True)
    for link, (a, b, kind) in enumerate(ends):
        near, far, out = kinds[a], kinds[b], 2 * link
        if (_DISTANCE[far], far) < (_DISTANCE[near], near):
            near, far, out = far, near, 2 * link + 1
        ways = found.setdefault((near, far, LINK_KINDS[kind]), {})
        if near == far:
            ways.setdefault("each", []).extend([out, out ^ 1])
        else:
            ways.setdefault("out", []).append(out)
            ways.setdefault("in", []).append(out ^ 1)
        ways.setdefault("both", []).append(2 * topology.link_count + link)
    return [
        Column(f"{near}-{far}", near, far, way, tuple(resources))
        for (near, far, _), ways in found.items()
        for way, resources in ways.items()
    ]


def with_speeds(topology: Topology, speeds: dict[Column, float]) -> Topology:
    """The machine with these speeds, marked as measured."""
    capacity = topology.capacities()
    links = topology.link_count
    basis = topology.link_basis.copy()
    for column, speed in speeds.items():
        capacity[list(column.resources)] = speed
        for resource in column.resources:
            basis[resource // 2 if resource < 2 * links else resource - 2 * links] = 2
    return topology.changed(
        forward_Bps=capacity[0 : 2 * links : 2].copy(),
        backward_Bps=capacity[1 : 2 * links : 2].copy(),
        duplex_Bps=capacity[2 * links :].copy(),
        link_basis=basis,
    )


def with_budgets(topology: Topology, columns: Sequence[Column]) -> Topology:
    """The machine with a budget (of any size) where both ways together are asked for, so that routes load it."""
    budgets = topology.duplex_Bps.copy()
    for column in columns:
        if column.way == "both":
            links = np.asarray(column.resources) - 2 * topology.link_count
            budgets[links] = np.where(np.isfinite(budgets[links]), budgets[links], ANY)
    return topology.changed(duplex_Bps=budgets)


def most_on(loads: Floats, column: Column) -> float:
    """The largest load on a resource of a column."""
    resources: Ints = np.asarray(column.resources)
    return float(loads[resources].max())
