"""Flows on a machine: their routes, what they load, and when the last of a pattern has ended.

A message loads its wires for its bytes and `Costs.half_rate_bytes` more, and arrives its latency after the last byte has left.
Rates are max-min fair at every moment. Equal flows that begin together (a lockstep step) end with those on the fullest wire, so
that their time is latency + bytes x max(flows / capacity); any others are followed from event to event.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

import numpy as np

from busbw.core.routing import ROUTER, Routes
from busbw.core.schedule import NETWORK, Ints
from busbw.core.topology import DEVICE_KINDS, PATH_CLASSES, Floats, Topology
from busbw.errors import UsageError
from busbw.sim.fairness import max_min
from busbw.sim.patterns import Pattern

SAME = 1e-9
"""Times and sizes that differ by less, relatively, are the same."""
MANY_EVENTS, ROUGHLY = 300, 1e-3
"""After so many events flows that end within this share of the time that has passed are counted together."""
FEW_FLOWS = 4096
"""Of a lockstep step of more flows, all are taken to arrive with the last, which matters where a rank adds up several."""
MOST_KEPT = 3_000_000
"""Numbers in tables of routes, and of loads, that are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step of a pattern at one size, solved."""

    time_s: float
    latency_s: float
    """Of the flow that ended last."""
    reduce_s: float
    """Added by reducing after the last byte."""
    binding: int
    """The resource that the flow that ended last waited for; -1 - path class where its cap did; NO_WIRE without bytes."""
    lockstep: bool
    note: str = ""


NO_WIRE = -100


@dataclass(slots=True, eq=False)
class Wires:
    """A machine with the routes and loads that were asked for so far."""

    topology: Topology
    capacities: Floats = field(init=False)
    _routes: dict[bytes, Routes] = field(default_factory=dict)
    _loads: dict[bytes, Floats] = field(default_factory=dict)
    _switch: int | None = None

    def __post_init__(self) -> None:
        self.capacities = self.topology.capacities()

    def routes(self, pattern: Pattern) -> Routes:
        """The routes of a pattern's flows; `latency_s` holds `Costs.message_s` too."""
        key = _key(pattern.source, pattern.target)
        if key not in self._routes:
            if sum(len(routes.resources) for routes in self._routes.values()) > MOST_KEPT:
                self._routes.clear()
            self._routes[key] = self._find(pattern.source, pattern.target)
        return self._routes[key]

    def capped(self, pattern: Pattern) -> Routes:
        """The routes, where flows that are added at their target have the cap of those, too."""
        found = self.routes(pattern)
        limits = np.array([self.topology.policy(name).adding_cap_Bps for name in PATH_CLASSES])
        if np.isinf(limits).all() or not pattern.reduces.any():
            return found
        limit = np.where(pattern.reduces & (pattern.target != NETWORK), limits[found.path_class], np.inf)
        return replace(found, cap_Bps=np.minimum(found.cap_Bps, limit))

    def _find(self, source: Ints, target: Ints) -> Routes:
        topology = self.topology
        if not (source == NETWORK).any() and not (target == NETWORK).any():
            found = topology.routes(source, target)
        else:
            found = self._with_switch(source, target)
        away = found.path_class > 0
        latency = np.where(away, found.latency_s + topology.costs.message_s, 0.0)
        return Routes(found.offsets, found.resources, latency, found.cap_Bps, found.path_class)

    def _with_switch(self, source: Ints, target: Ints) -> Routes:
        """Routes of which one end is the switch that reduces; a way up is the way down, turned around."""
        if ((source == NETWORK) == (target == NETWORK)).any():
            raise UsageError("a schedule with a switch that reduces mixes its transfers with others in one round")
        up = target == NETWORK
        ranks = self.topology.ranks.astype(np.int64)[np.where(up, source, target)]
        switch = self.switch()
        down = ROUTER.routes(self.topology, np.full(len(ranks), switch), ranks)
        owner_up = np.repeat(up, np.diff(down.offsets))
        is_wire = down.resources < 2 * self.topology.link_count
        turned = np.where(owner_up & is_wire, down.resources ^ 1, down.resources)
        return Routes(down.offsets, turned, down.latency_s, down.cap_Bps, down.path_class)

    def switch(self) -> int:
        """The device that reduces and multicasts for all ranks; UsageError where there is none."""
        if self._switch is None:
            self._switch = _find_switch(self.topology)
        return self._switch

    def loads(self, pattern: Pattern) -> Floats:
        """[resources] share of S that a step of the pattern puts on each (all pairs: on average)."""
        key = _key(pattern.source, pattern.target, pattern.share)
        if key not in self._loads:
            if len(self._loads) * len(self.capacities) > MOST_KEPT:
                self._loads.clear()
            found = self.routes(pattern)
            weight = np.repeat(pattern.share, np.diff(found.offsets))
            self._loads[key] = np.bincount(found.resources, weight, minlength=len(self.capacities)).astype(np.float64)
        return self._loads[key]

    def step(self, pattern: Pattern, size_bytes: float) -> Step:
        """One step of the pattern, where S is `size_bytes`."""
        if len(pattern.source) == 0:
            return Step(0.0, 0.0, 0.0, NO_WIRE, True)
        found = self.capped(pattern)
        sizes = pattern.share * size_bytes
        amount = sizes + self.topology.costs.half_rate_bytes
        alike = _alike(pattern.share) and _alike(found.latency_s) and _alike(found.cap_Bps)
        gamma = self.topology.costs.reduce_s_per_byte
        if alike:
            return self._lockstep(pattern, found, sizes, amount, gamma)
        ends, note = self._events(found, amount)
        last = int(np.argmax(ends))
        time_s = float(ends[last])
        reduced = _after_reducing(pattern, ends, sizes, gamma)
        binding = self._tightest(found, last, pattern)
        return Step(reduced, float(found.latency_s[last]), max(reduced - time_s, 0.0), binding, False, note)

    def _lockstep(self, pattern: Pattern, found: Routes, sizes: Floats, amount: Floats, gamma: float) -> Step:
        latency = float(found.latency_s[0])
        load = np.bincount(found.resources, minlength=len(self.capacities))
        slowness = load / self.capacities
        binding = int(np.argmax(slowness)) if len(found.resources) else NO_WIRE
        per_byte = float(slowness[binding]) if binding >= 0 else 0.0
        if 1 / float(found.cap_Bps[0]) > per_byte:
            binding, per_byte = -1 - int(found.path_class[0]), 1 / float(found.cap_Bps[0])
        time_s = latency + float(amount[0]) * per_byte
        ends = np.full(len(sizes), time_s)
        if gamma and len(sizes) <= FEW_FLOWS and _adds_several(pattern):
            ends, _ = self._events(found, amount)  # what arrives sooner is added while the others are on their way
        reduced = _after_reducing(pattern, ends, sizes, gamma)
        return Step(reduced, latency, reduced - time_s, binding, True)

    def _events(self, found: Routes, amount: Floats) -> tuple[Floats, str]:
        """[flows] when each flow has arrived."""
        left = amount.astype(np.float64, copy=True)
        ends = np.zeros(len(left))
        running = (np.diff(found.offsets) > 0) | np.isfinite(found.cap_Bps)
        now, events, slack, note = 0.0, 0, SAME, ""
        while running.any():
            flows = np.flatnonzero(running)
            rates = self._rates(found, flows)
            needed = left[flows] / rates
            until = float(needed.min())
            events += 1
            if events == MANY_EVENTS:
                slack, note = ROUGHLY, f"ends within {ROUGHLY:.1%} of each other are counted together"
            ending = needed <= until + slack * (now + until)
            ends[flows[ending]] = now + needed[ending]
            left[flows] -= rates * until
            now += until
            running[flows[ending]] = False
        return ends + found.latency_s, note

    def _rates(self, found: Routes, flows: Ints) -> Floats:
        lengths = np.diff(found.offsets)
        if len(flows) == len(lengths):
            return max_min(found.offsets, found.resources, self.capacities, found.cap_Bps)
        chosen = np.zeros(len(lengths), np.bool_)
        chosen[flows] = True
        offsets = np.concatenate([[0], np.cumsum(lengths[flows])]).astype(np.int64)
        resources = found.resources[np.repeat(chosen, lengths)]
        return max_min(offsets, resources, self.capacities, found.cap_Bps[flows])

    def _tightest(self, found: Routes, flow: int, pattern: Pattern) -> int:
        """What a flow waited for: the fullest resource on its way, or its cap."""
        mine = found.of(flow)
        slowness = self.loads(pattern)[mine] / self.capacities[mine]
        own = float(pattern.share[flow]) / float(found.cap_Bps[flow])
        if len(mine) and float(slowness.max()) >= own:
            return int(mine[int(np.argmax(slowness))])
        return -1 - int(found.path_class[flow]) if own > 0 else NO_WIRE


def _key(*arrays: np.ndarray) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
        digest.update(b"|")
    return digest.digest()


def _alike(values: Floats) -> bool:
    low, high = float(values.min()), float(values.max())
    return low == high or (high < np.inf and high - low <= SAME * abs(high))


def _adds_several(pattern: Pattern) -> bool:
    """Whether some rank adds up more than one message of the step."""
    targets = pattern.target[pattern.reduces & (pattern.target != NETWORK)]
    return len(np.unique(targets)) < len(targets)


def _after_reducing(pattern: Pattern, ends: Floats, sizes: Floats, gamma: float) -> float:
    """When the last rank has added up what it received; it adds one message after the other, in the order of arrival."""
    last = float(ends.max())
    adds = pattern.reduces & (pattern.target != NETWORK)
    if gamma == 0 or not adds.any():
        return last
    target, arrive, cost = pattern.target[adds], ends[adds], sizes[adds] * gamma
    order = np.lexsort((-arrive, target))  # per target, the last to arrive first
    target, arrive, cost = target[order], arrive[order], cost[order]
    total = np.cumsum(cost)
    first = np.concatenate([[True], target[1:] != target[:-1]])
    before = np.where(first, total - cost, 0.0)
    own = total - np.maximum.accumulate(before)  # what has to be added from this message on
    return max(last, float((arrive + own).max()))


def _find_switch(topology: Topology) -> int:
    found = np.flatnonzero(topology.device_reduces)
    if len(found) == 0:
        raise UsageError(
            f"topology {topology.name} has no switch that reduces, which this algorithm needs; where it has one, say so "
            "(reduces=on, or reduces = true in its TOML)"
        )
    ranks = topology.ranks.astype(np.int64)
    hosts = {int(host) for host in topology.device_host[ranks]}
    between = [int(device) for device in found if int(topology.device_host[device]) < 0]
    inside = [int(device) for device in found if {int(topology.device_host[device])} == hosts]
    for device in (inside or between)[:1]:
        ROUTER.routes(topology, np.array([device]), ranks[-1:])  # says so where no way leads there
        return device
    kinds = {DEVICE_KINDS[topology.device_kind[device]] for device in found}
    raise UsageError(
        f"topology {topology.name}: no switch that reduces joins all {len(ranks)} ranks (there is {', '.join(sorted(kinds))} "
        "of single hosts only): use hierarchical, or fewer ranks"
    )


def binding_name(topology: Topology, binding: int) -> str:
    """What a step waited for, in words."""
    if binding >= 0:
        return topology.resource_name(binding)
    if binding == NO_WIRE:
        return "no wire"
    return f"the cap of a {PATH_CLASSES[-1 - binding]} flow"
