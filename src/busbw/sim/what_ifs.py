"""What would change the time: the same call on machines, and by schedules, that differ in one thing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from busbw.algorithms.spec import Spec
from busbw.core.schedule import ALGORITHMS
from busbw.core.topology import DEVICE_KINDS, LINK_KINDS, PathPolicy, Topology
from busbw.errors import UsageError
from busbw.sim.prediction import Prediction
from busbw.sim.simulate import simulate

_PEERS = ("nvlink", "pcie", "host_bridge", "socket")
"""Path classes on which GPUs of one host may reach each other's memory."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One change, and the time with it."""

    text: str
    time_s: float
    gain: float
    """Change of the rate: 0.38 is 38 % more."""


def what_ifs(base: Prediction, spec: Spec) -> list[WhatIf]:
    """Every change that this machine and algorithm allow, the most helpful first; those that can't be done are left out."""
    found = []
    for text, changed, machine in _changes(base, spec):
        try:
            other = simulate(
                changed,
                machine,
                [base.call.size_bytes],
                base.call.collective,
                world_size=base.call.world_size,
                root=base.call.root or 0,
                exact=base.rung == "dependencies",
            )[0]
        except UsageError:
            continue
        found.append(WhatIf(text, other.time_s, base.time_s / other.time_s - 1))
    return sorted(found, key=lambda each: -each.gain)


def _changes(base: Prediction, spec: Spec) -> Iterator[tuple[str, Spec, Topology]]:
    machine = base.topology
    more = _one_more_channel(spec, base)
    if more is not None:
        yield "one more channel", more, machine
    yield from ((text, spec, changed) for text, changed in _routes(machine))
    binding = base.binding
    if binding is not None and binding.resource is not None:
        kind, changed = _faster(machine, binding.resource)
        yield f"every {kind} link twice as fast", spec, changed
    if binding is not None and binding.resource is None:
        policies = {
            name: replace(policy, cap_Bps=np.inf, adding_cap_Bps=np.inf) for name, policy in machine.policies.items()
        }
        yield "no cap on a flow", spec, machine.changed(policies=policies)
    costs = machine.costs
    if costs.launch_s > 0:
        yield "a launch that costs nothing (a graph)", spec, machine.changed(costs=replace(costs, launch_s=0.0))
    if base.times_s.get("latency", 0.0) > 0.01 * base.time_s:
        policies = {name: replace(policy, latency_s=policy.latency_s / 2) for name, policy in machine.policies.items()}
        changed = machine.changed(
            policies=policies,
            latency_s=machine.latency_s / 2,
            costs=replace(costs, message_s=costs.message_s / 2),
        )
        yield "half of the latency of every message", spec, changed
    if costs.reduce_s_per_byte > 0:
        yield "reducing that costs nothing", spec, machine.changed(costs=replace(costs, reduce_s_per_byte=0.0))


def _one_more_channel(spec: Spec, base: Prediction) -> Spec | None:
    if base.call.world_size < 3 or spec.algorithm.name not in ("ring", "multi_ring"):
        return None
    multi = ALGORITHMS.get("multi_ring")
    if base.call.collective not in multi.builders:
        return None
    if spec.algorithm.name == "multi_ring":
        if "orders" in spec.options:
            return None
        channels = int(spec.options.get("channels", spec.options.get("ranks_per_host", 2))) + 1
        return Spec(multi, {**spec.options, "channels": channels})
    return None if "order" in spec.options else Spec(multi, {**spec.options, "channels": 2})


def _routes(machine: Topology) -> Iterator[tuple[str, Topology]]:
    """Peer access everywhere, and nowhere."""
    vias = {name: machine.policy(name).via for name in _PEERS}
    has_memory = bool((machine.device_kind == DEVICE_KINDS.index("memory")).any())
    if any(via != "direct" for via in vias.values()):
        yield "with P2P everywhere, by the direct way", machine.changed(policies=_vias(machine, "direct"))
    if has_memory and any(via != "memory" for via in vias.values()):
        yield "without P2P (staged in host memory)", machine.changed(policies=_vias(machine, "memory"))


def _vias(machine: Topology, via: str) -> dict[str, PathPolicy]:
    policies = dict(machine.policies)
    for name in _PEERS:
        policies[name] = replace(policies.get(name, PathPolicy()), via=via)
    return policies


def _faster(machine: Topology, resource: int) -> tuple[str, Topology]:
    """Twice the rates of all links of the kind of this one."""
    links = machine.link_count
    link = resource // 2 if resource < 2 * links else resource - 2 * links
    factor = np.where(machine.link_kind == machine.link_kind[link], 2.0, 1.0)
    rates = {name: getattr(machine, name) * factor for name in ("forward_Bps", "backward_Bps", "duplex_Bps")}
    return LINK_KINDS[machine.link_kind[link]], machine.changed(**rates)
