"""Which resources of a topology the flow between two devices loads.

The general router takes the shortest way: as few hosts, then sockets, then hops as possible, the widest of equally
short ones, and the first of equally wide. GPUs do not pass traffic on (unless the topology says so), nor do NICs of
one host to another NIC of it. A path class may then be sent through its CPU, or staged in memory.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from busbw.core.topology import DEVICE_KINDS, LINK_KINDS, PATH_CLASSES, Floats, Ints, Topology
from busbw.errors import UsageError

_HOP = {"socket": 100, "network": 10_000}
_GPU, _NIC, _CPU, _MEMORY = (DEVICE_KINDS.index(kind) for kind in ("gpu", "nic", "cpu", "memory"))
_FAST = [LINK_KINDS.index(kind) for kind in ("nvlink", "xgmi", "c2c")]
_SOCKET, _NETWORK = LINK_KINDS.index("socket"), LINK_KINDS.index("network")


@dataclass(frozen=True, slots=True)
class Routes:
    """The routes of many flows as one compressed table: flow i loads resources[offsets[i]:offsets[i + 1]].

    Resources are numbered as in `Topology.capacities`, budgets of both directions included; one may stand in a route
    twice (up and down the same duplex wire), and then carries the flow twice.
    """

    offsets: Ints
    """[flows + 1]."""
    resources: Ints
    latency_s: Floats
    """[flows] of the links and of the path class; without `Costs.message_s`."""
    cap_Bps: Floats  # noqa: N815 - the unit's own capitals
    """[flows] what the path class allows one flow; inf without a cap."""
    path_class: npt.NDArray[np.int8]
    """[flows] index into PATH_CLASSES."""

    def of(self, flow: int) -> Ints:
        """The resources of one flow."""
        return self.resources[self.offsets[flow] : self.offsets[flow + 1]]


class ShortestPathRouter:
    """The general router. The ways from each source are found once and kept."""

    def routes(self, topology: Topology, source: Ints, target: Ints) -> Routes:
        """Routes from devices `source` to devices `target`, both of shape [flows]."""
        graph = _Graph(topology)
        found: dict[tuple[int, int], tuple[list[int], float, float, int]] = {}
        rows = []
        for pair in zip(source.tolist(), target.tolist(), strict=True):
            if pair not in found:
                found[pair] = graph.route(*pair)
            rows.append(found[pair])
        lengths = np.array([len(row[0]) for row in rows], np.int64)
        return Routes(
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.array([resource for row in rows for resource in row[0]], np.int64),
            np.array([row[1] for row in rows], np.float64),
            np.array([row[2] for row in rows], np.float64),
            np.array([row[3] for row in rows], np.int8),
        )


ROUTER = ShortestPathRouter()


class _Graph:
    """Adjacency of one topology, and the shortest ways that were asked for."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.ways: dict[int, dict[int, tuple[int, int]]] = {}
        self.around: list[list[tuple[int, int]]] = [[] for _ in range(topology.device_count)]
        for link, (a, b) in enumerate(zip(topology.link_a.tolist(), topology.link_b.tolist(), strict=True)):
            self.around[a].append((b, 2 * link))
            self.around[b].append((a, 2 * link + 1))
        self.weight = [_HOP.get(LINK_KINDS[kind], 1) for kind in topology.link_kind.tolist()]
        self.rate = topology.capacities()
        self.is_duplex = np.isfinite(topology.duplex_Bps)

    def route(self, source: int, target: int) -> tuple[list[int], float, float, int]:
        """Resources, latency, cap and path class of one flow."""
        if source == target:
            return [], 0.0, float("inf"), 0
        way = self._way(source, target)
        path_class = self._class(way)
        policy = self.topology.policy(PATH_CLASSES[path_class])
        if policy.via == "cpu":
            stop = self._stop(source, target, _CPU, policy.via)
            way = self._way(source, stop) + self._way(stop, target)
        elif policy.via == "memory":
            stop = self._stop(source, target, _MEMORY, policy.via)
            way = self._way(source, stop) + self._way(stop, target)
        links = [direction // 2 for direction in way]
        budgets = [2 * self.topology.link_count + link for link in links if self.is_duplex[link]]
        latency = policy.latency_s + float(sum(self.topology.latency_s[link] for link in links))
        return way + budgets, latency, policy.cap_Bps, path_class

    def _way(self, source: int, target: int) -> list[int]:
        """Directed links from source to target."""
        if source == target:
            return []
        if source not in self.ways:
            self.ways[source] = self._search(source)
        previous = self.ways[source]
        if target not in previous:
            names = self.topology.names
            raise UsageError(f"topology {self.topology.name}: no way leads from {names[source]!r} to {names[target]!r}")
        way, here = [], target
        while here != source:
            here, direction = previous[here]
            way.append(direction)
        return way[::-1]

    def _search(self, source: int) -> dict[int, tuple[int, int]]:
        """Dijkstra over (weight, -narrowest rate, order of discovery); device -> (the one before, directed link)."""
        kinds = self.topology.device_kind
        best: dict[int, tuple[int, float]] = {source: (0, -np.inf)}
        previous: dict[int, tuple[int, int]] = {}
        waiting: list[tuple[int, float, int, int]] = [(0, -np.inf, 0, source)]
        done: set[int] = set()
        order = 0
        while waiting:
            cost, width, _, here = heapq.heappop(waiting)
            if here in done:
                continue
            done.add(here)
            if here != source and not self._passes(here, previous[here][1] // 2, int(kinds[here])):
                continue
            for neighbour, direction in self.around[here]:
                if here != source and kinds[here] == _NIC and not self._through_nic(previous[here][1], direction):
                    continue
                key = (cost + self.weight[direction // 2], max(width, -float(self.rate[direction])))
                if neighbour not in done and key < best.get(neighbour, (1 << 60, 0.0)):
                    best[neighbour] = key
                    previous[neighbour] = (here, direction)
                    order += 1
                    heapq.heappush(waiting, (*key, order, neighbour))
        return previous

    def _passes(self, device: int, link: int, kind: int) -> bool:
        """Whether traffic goes on from here."""
        return kind != _MEMORY and (kind != _GPU or self.topology.gpus_forward)

    def _through_nic(self, came: int, goes: int) -> bool:
        """A NIC passes traffic between the host and the network, not between two links of one side."""
        kinds = self.topology.link_kind
        return bool((kinds[came // 2] == _NETWORK) != (kinds[goes // 2] == _NETWORK))

    def _class(self, way: list[int]) -> int:
        topology = self.topology
        kinds = topology.link_kind[[direction // 2 for direction in way]]
        if (kinds == _NETWORK).any():
            return PATH_CLASSES.index("network")
        if (kinds == _SOCKET).any():
            return PATH_CLASSES.index("socket")
        ends = {int(topology.link_a[d // 2]) for d in way} | {int(topology.link_b[d // 2]) for d in way}
        if any(topology.device_kind[device] == _CPU for device in ends):
            return PATH_CLASSES.index("host_bridge")
        return PATH_CLASSES.index("nvlink" if np.isin(kinds, _FAST).all() else "pcie")

    def _stop(self, source: int, target: int, kind: int, via: str) -> int:
        """The CPU or memory nearest to the source (by the same order as ways are chosen)."""
        if source not in self.ways:
            self.ways[source] = self._search(source)
        found = [device for device in self.ways[source] if self.topology.device_kind[device] == kind]
        if not found:
            names = self.topology.names
            raise UsageError(
                f"topology {self.topology.name}: traffic from {names[source]!r} to {names[target]!r} goes via {via}, but "
                f"no {DEVICE_KINDS[kind]} is in reach of {names[source]!r}"
            )
        return min(found, key=lambda device: (len(self._way(source, device)), device))
