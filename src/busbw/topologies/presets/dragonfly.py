"""dragonfly: groups of switches that all reach each other, and a link between any two groups.

Kim, Dally, Scott & Abts, "Technology-driven, highly-scalable dragonfly topology" (ISCA 2008). Routes are minimal: inside
the group to the switch with the link to the other group, over it, and inside that group to the target's switch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from busbw.core.routing import Routes, make_routes
from busbw.core.topology import PATH_CLASSES, Ints, Topology
from busbw.errors import UsageError
from busbw.topologies.preset import Parameter, Preset
from busbw.topologies.regular import NumberedNames, kinds_of, machine, must_be_direct


@dataclass(frozen=True, slots=True)
class Dragonfly:
    """Numbers of devices and links: GPUs first, then switches; links of GPUs, then inside groups, then between them."""

    groups: int
    switches: int
    """In a group."""
    gpus: int
    """At a switch."""

    @property
    def switch_count(self) -> int:
        """Switches in all."""
        return self.groups * self.switches

    @property
    def gpu_count(self) -> int:
        """GPUs in all."""
        return self.switch_count * self.gpus

    @property
    def inside(self) -> int:
        """Links inside one group."""
        return self.switches * (self.switches - 1) // 2

    def gateway(self, group: Ints, other: Ints) -> Ints:
        """The switch (number in its group) that holds the link of `group` to `other`: they are spread evenly."""
        ahead = (other - group - 1) % self.groups
        return np.asarray(ahead * self.switches // max(self.groups - 1, 1), np.int64)

    def local_link(self, group: Ints, one: Ints, other: Ints) -> Ints:
        """The directed link between two different switches of a group."""
        low, high = np.minimum(one, other), np.maximum(one, other)
        pair = low * (2 * self.switches - low - 1) // 2 + high - low - 1
        return np.asarray(2 * (self.gpu_count + group * self.inside + pair) + (one > other), np.int64)

    def global_link(self, one: Ints, other: Ints) -> Ints:
        """The directed link between two different groups."""
        low, high = np.minimum(one, other), np.maximum(one, other)
        pair = low * (2 * self.groups - low - 1) // 2 + high - low - 1
        return np.asarray(2 * (self.gpu_count + self.groups * self.inside + pair) + (one > other), np.int64)

    def routes(self, topology: Topology, source: Ints, target: Ints) -> Routes:
        """As `Router.routes`, between GPUs."""
        must_be_direct(topology, "network")
        source, target = np.asarray(source, np.int64), np.asarray(target, np.int64)
        group, other = source // (self.gpus * self.switches), target // (self.gpus * self.switches)
        here, there = source // self.gpus % self.switches, target // self.gpus % self.switches
        leaves = np.where(group == other, there, self.gateway(group, other))
        enters = np.where(group == other, there, self.gateway(other, group))
        none = np.full(len(source), -1)
        columns = [
            2 * source,
            np.where(here != leaves, self.local_link(group, here, leaves), none),
            np.where(group != other, self.global_link(group, other), none),
            np.where(enters != there, self.local_link(other, enters, there), none),
            2 * target + 1,
        ]
        ways = np.stack(columns, axis=1)
        ways[source == target] = -1
        flow, _ = np.nonzero(ways >= 0)
        path_class = np.where(source == target, PATH_CLASSES.index("local"), PATH_CLASSES.index("network"))
        return make_routes(topology, flow.astype(np.int64), ways[ways >= 0], path_class.astype(np.int8))


def build(
    *,
    name: str,
    groups: int,
    switches: int,
    gpus: int,
    global_links: int,
    bandwidth: float,
    local_bandwidth: float,
    global_bandwidth: float,
    latency: float,
) -> Topology:
    """GPUs 0 to N-1 in the order of groups and switches."""
    fly = Dragonfly(groups, switches, gpus)
    pairs = global_links * switches // max(groups - 1, 1)  # parallel links between two groups
    if groups > 1 and pairs < 1:
        raise UsageError(
            f"{name}: {switches} switches of a group with {global_links} global links each reach {global_links * switches} "
            f"groups, not {groups - 1}: give more switches or global_links"
        )
    count = fly.gpu_count
    low, high = np.triu_indices(switches, 1)
    group_low, group_high = np.triu_indices(groups, 1)
    first = count + np.arange(groups)[:, None] * switches
    links = [
        (np.arange(count), count + np.arange(count) // gpus, bandwidth),
        ((first + low).reshape(-1), (first + high).reshape(-1), local_bandwidth),
        (
            count + group_low * switches + fly.gateway(group_low, group_high),
            count + group_high * switches + fly.gateway(group_high, group_low),
            global_bandwidth * max(pairs, 1),
        ),
    ]

    def device(index: int) -> str:
        if index < count:
            return f"gpu{index}"
        group, switch = divmod(index - count, switches)
        return f"group{group}/switch{switch}"

    notes = ["routes are minimal (no detour over a third group), and each pair of switches has one route"]
    if pairs > 1:
        notes.append(f"the {pairs} links between two groups are one link of their sum (spread perfectly)")
    return machine(
        name,
        names=NumberedNames(count + fly.switch_count, device),
        kinds=kinds_of(("gpu", count), ("network_switch", fly.switch_count)),
        hosts=NumberedNames(count, lambda i: f"host{i}"),
        device_host=np.concatenate([np.arange(count), np.full(fly.switch_count, -1)]).astype(np.int32),
        link_a=np.concatenate([a for a, _, _ in links]),
        link_b=np.concatenate([b for _, b, _ in links]),
        link_kind="network",
        rate_Bps=np.concatenate([np.full(len(a), rate) for a, _, rate in links]),
        latency_s=latency,
        ranks=np.arange(count),
        router=fly,
        notes=tuple(notes),
        source="preset: speeds as given",
    )


PRESETS = (
    Preset(
        "dragonfly",
        "groups of switches that all reach each other, any two groups joined",
        "Kim et al. 2008",
        (
            Parameter("groups", "count", "9", "groups"),
            Parameter("switches", "count", "4", "switches of a group"),
            Parameter("gpus", "count", "2", "GPUs at a switch"),
            Parameter("global_links", "count", "2", "links to other groups of each switch"),
            Parameter("bandwidth", "rate", "50GB/s", "of a GPU's link, one way"),
            Parameter("local_bandwidth", "rate", "50GB/s", "of a link inside a group"),
            Parameter("global_bandwidth", "rate", "50GB/s", "of a link between groups"),
            Parameter("latency", "time", "0s", "of each link"),
        ),
        build,
    ),
)
