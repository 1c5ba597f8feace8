"""Which resources of a topology the flow between two devices loads.

The general router takes the shortest way: as few hosts, then sockets, then hops inside of hosts, then hops of the
network as possible, the widest of equally short ones, and the first of equally wide. GPUs do not pass traffic on (unless the topology
says so), nor do NICs of one host to another NIC of it. A path class may then be sent through its CPU, or staged in
memory. GPUs that are equally near to several NICs take them by turns.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from busbw.core.topology import DEVICE_KINDS, LINK_KINDS, PATH_CLASSES, RANK_KINDS, Floats, Ints, Topology
from busbw.errors import UsageError

_NIC, _CPU, _MEMORY = (DEVICE_KINDS.index(kind) for kind in ("nic", "cpu", "memory"))
_RANKS = [DEVICE_KINDS.index(kind) for kind in RANK_KINDS]
_FAST = [LINK_KINDS.index(kind) for kind in ("nvlink", "xgmi", "c2c")]
_SOCKET, _NETWORK = LINK_KINDS.index("socket"), LINK_KINDS.index("network")
_NET = PATH_CLASSES.index("network")
_INSIDE, _SOCKETS, _HOSTS = 10**4, 10**7, 10**10
"""What a hop costs, so that one of the next kind outweighs any number of those before it; a network hop costs 1."""


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


def make_routes(topology: Topology, flow: Ints, direction: Ints, path_class: npt.NDArray[np.int8]) -> Routes:
    """Routes from ways: entry i says that `flow[i]` passes the directed link `direction[i]` (2 link, or 2 link + 1).

    Entries of a flow stand in the order of its way; those of different flows may be mixed. Adds the budgets of links
    that have one, latencies and caps by path class. `path_class` has one entry a flow.
    """
    flows = len(path_class)
    link = direction // 2
    budget = np.isfinite(topology.duplex_Bps[link])
    resources = np.concatenate([direction, 2 * topology.link_count + link[budget]])
    owners = np.concatenate([flow, flow[budget]])
    order = np.argsort(owners, kind="stable")
    policies = [topology.policy(name) for name in PATH_CLASSES]
    latency = np.array([policy.latency_s for policy in policies])[path_class]
    latency += np.bincount(flow, topology.latency_s[link], minlength=flows)
    return Routes(
        np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=flows))]).astype(np.int64),
        resources[order],
        np.where(path_class == 0, 0.0, latency),
        np.where(path_class == 0, np.inf, np.array([policy.cap_Bps for policy in policies])[path_class]),
        path_class.astype(np.int8),
    )


class ShortestPathRouter:
    """The general router. The ways from each source are found once and kept."""

    def routes(self, topology: Topology, source: Ints, target: Ints) -> Routes:
        """Routes from devices `source` to devices `target`, both of shape [flows]."""
        graph = graph_of(topology)
        ways, classes = [], []
        for pair in zip(np.asarray(source).tolist(), np.asarray(target).tolist(), strict=True):
            way, path_class = graph.route(*pair)
            ways.append(way)
            classes.append(path_class)
        lengths = np.array([len(way) for way in ways], np.int64)
        return make_routes(
            topology,
            np.repeat(np.arange(len(ways)), lengths),
            np.array([direction for way in ways for direction in way], np.int64),
            np.array(classes, np.int8),
        )


ROUTER = ShortestPathRouter()


class Graph:
    """Adjacency of one topology, and the shortest ways that were asked for."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._ways: dict[tuple[int, bool], dict[int, tuple[int, int]]] = {}
        self._routes: dict[tuple[int, int], tuple[list[int], int]] = {}
        self._nics: dict[int, int | None] = {}
        self.around: list[list[tuple[int, int]]] = [[] for _ in range(topology.device_count)]
        for link, (a, b) in enumerate(zip(topology.link_a.tolist(), topology.link_b.tolist(), strict=True)):
            self.around[a].append((b, 2 * link))
            self.around[b].append((a, 2 * link + 1))
        self.kinds = topology.device_kind.tolist()
        self.link_kinds = topology.link_kind.tolist()
        self.weight = [self._weight(link) for link in range(topology.link_count)]
        self.rate = topology.capacities().tolist()

    def _weight(self, link: int) -> int:
        kind = self.link_kinds[link]
        if kind != _NETWORK:
            return _SOCKETS if kind == _SOCKET else _INSIDE
        ends = (int(self.topology.link_a[link]), int(self.topology.link_b[link]))
        return _HOSTS if any(self.kinds[end] == _NIC for end in ends) else 1

    def route(self, source: int, target: int) -> tuple[list[int], int]:
        """The directed links and the path class of one flow."""
        if (source, target) not in self._routes:
            self._routes[source, target] = self._route(source, target)
        return self._routes[source, target]

    def _route(self, source: int, target: int) -> tuple[list[int], int]:
        if source == target:
            return [], 0
        way = self.way(source, target)
        path_class = self.class_of(way)
        if path_class == _NET:
            return self._network_way(source, target, way), path_class
        return self._through(source, [self._stop(source, path_class)], target, way), path_class

    def _network_way(self, source: int, target: int, way: list[int]) -> list[int]:
        """Out by the NIC of the source, in by the NIC of the target, where both have one and the network joins them."""
        out, into = self.nic(source), self.nic(target)
        if out is None or into is None or not self._joined(out, into):
            return self._through(source, [self._stop(source, _NET)], target, way)
        return self.half_way(source, out) + self.way(out, into) + self.half_way(target, into, arrives=True)

    def half_way(self, device: int, nic: int, *, arrives: bool = False) -> list[int]:
        """Between a GPU and its NIC, through the CPU or memory where the network's policy says so."""
        stop = self._stop(device, _NET)
        ends = (nic, device) if arrives else (device, nic)
        return self._through(ends[0], [stop], ends[1], None)

    def _joined(self, out: int, into: int) -> bool:
        """Whether the network alone leads from one NIC to the other, without a third host between."""
        way = self._find(out, into)
        return way is not None and all(self.link_kinds[direction // 2] == _NETWORK for direction in way)

    def _through(self, source: int, stops: Sequence[int | None], target: int, direct: list[int] | None) -> list[int]:
        places = [source, *(stop for stop in stops if stop is not None), target]
        if len(places) == 2 and direct is not None:
            return direct
        return [direction for here, there in pairwise(places) for direction in self.way(here, there)]

    def way(self, source: int, target: int) -> list[int]:
        """Directed links of the shortest way; UsageError where there is none."""
        way = self._find(source, target)
        if way is None:
            names = self.topology.names
            raise UsageError(f"topology {self.topology.name}: no way leads from {names[source]!r} to {names[target]!r}")
        return way

    def _find(self, source: int, target: int, *, inside: bool = False) -> list[int] | None:
        previous = self._search(source, inside)
        way, here = [], target
        while here != source:
            if here not in previous:
                return None
            here, direction = previous[here]
            way.append(direction)
        return way[::-1]

    def _search(self, source: int, inside: bool) -> dict[int, tuple[int, int]]:
        """Dijkstra over (weight, -narrowest rate, order of discovery); device -> (the one before, directed link).

        With `inside` no link of the network is taken.
        """
        if (source, inside) in self._ways:
            return self._ways[source, inside]
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
            if here != source and not self._passes(self.kinds[here]):
                continue
            for neighbour, direction in self.around[here]:
                link = direction // 2
                if inside and self.link_kinds[link] == _NETWORK:
                    continue
                if here != source and self.kinds[here] == _NIC and not self._crosses(previous[here][1], direction):
                    continue
                key = (cost + self.weight[link], max(width, -self.rate[direction]))
                if neighbour not in done and key < best.get(neighbour, (1 << 60, 0.0)):
                    best[neighbour] = key
                    previous[neighbour] = (here, direction)
                    order += 1
                    heapq.heappush(waiting, (*key, order, neighbour))
        self._ways[source, inside] = previous
        return previous

    def _passes(self, kind: int) -> bool:
        """Whether traffic goes on from a device of this kind."""
        return kind != _MEMORY and (kind not in _RANKS or self.topology.gpus_forward)

    def _crosses(self, came: int, goes: int) -> bool:
        """A NIC passes traffic between the host and the network, not between two links of one side."""
        return bool((self.link_kinds[came // 2] == _NETWORK) != (self.link_kinds[goes // 2] == _NETWORK))

    def class_of(self, way: Sequence[int]) -> int:
        """The path class of a way: what it crosses at worst."""
        kinds = {self.link_kinds[direction // 2] for direction in way}
        if _NETWORK in kinds:
            return _NET
        if _SOCKET in kinds:
            return PATH_CLASSES.index("socket")
        topology = self.topology
        ends = {int(topology.link_a[d // 2]) for d in way} | {int(topology.link_b[d // 2]) for d in way}
        if any(self.kinds[device] == _CPU for device in ends):
            return PATH_CLASSES.index("host_bridge")
        return PATH_CLASSES.index("nvlink" if kinds <= set(_FAST) else "pcie")

    def _stop(self, device: int, path_class: int) -> int | None:
        """The CPU or memory that traffic of the class goes through at this device; None where it goes directly."""
        via = self.topology.policy(PATH_CLASSES[path_class]).via
        if via == "direct":
            return None
        kind = _CPU if via == "cpu" else _MEMORY
        inside = self._search(device, True)
        found = [(self._cost(device, other), other) for other in inside if self.kinds[other] == kind]
        if not found:
            raise UsageError(
                f"topology {self.topology.name}: {PATH_CLASSES[path_class]} traffic of {self.topology.names[device]!r} goes "
                f"via {via}, but no {DEVICE_KINDS[kind]} is in reach of it"
            )
        return min(found)[1]

    def _cost(self, source: int, target: int) -> int:
        return sum(self.weight[direction // 2] for direction in self._find(source, target, inside=True) or ())

    def nic(self, device: int) -> int | None:
        """The NIC that a GPU uses: the nearest; GPUs with the same nearest ones take them by turns. None without one."""
        if device not in self._nics:
            host = int(self.topology.device_host[device])
            turns: dict[tuple[int, ...], int] = {}
            for one in np.flatnonzero(self.topology.device_host == host).tolist() if host >= 0 else [device]:
                if self.kinds[one] in _RANKS:
                    near = self._nearest_nics(one)
                    turn = turns.get(near, 0)
                    turns[near] = turn + 1
                    self._nics[one] = near[turn % len(near)] if near else None
        return self._nics[device]

    def _nearest_nics(self, device: int) -> tuple[int, ...]:
        """NICs at the least distance, in order; those without a network behind them only where no NIC has one."""
        found = [
            (self._cost(device, other), other) for other in self._search(device, True) if self.kinds[other] == _NIC
        ]
        if _NETWORK in self.link_kinds:
            found = [
                (cost, nic)
                for cost, nic in found
                if any(self.link_kinds[direction // 2] == _NETWORK for _, direction in self.around[nic])
            ]
        return tuple(sorted(nic for cost, nic in found if cost == min(found)[0]))


@lru_cache(maxsize=8)
def graph_of(topology: Topology) -> Graph:
    """The graph of a topology; those of the last few are kept, with the ways found in them."""
    return Graph(topology)
