"""Random connected machines: fabrics of switches in no order, and hosts with sockets, PCIe switches, detours and caps."""

from __future__ import annotations

import math
import random

from busbw.core.topology import Costs, Device, Link, PathPolicy, Topology, TopologyBuilder

GB = 1e9


def random_machine(rng: random.Random, most_ranks: int, *, one_latency: bool = False) -> Topology:
    """One of both kinds, with 2 to `most_ranks` ranks. `one_latency`: every message has the same."""
    make = rng.choice([_fabric, _fabric, _host])
    return make(rng, round(math.exp(rng.uniform(math.log(2), math.log(most_ranks)))), one_latency)


def _link(rng: random.Random, builder: TopologyBuilder, a: str, b: str, kind: str, one_latency: bool) -> None:
    rates = [GB * 10 ** rng.uniform(0, 2) for _ in range(2)]
    if rng.random() < 0.6:
        rates[1] = rates[0]
    both = max(rates) * rng.uniform(0.7, 1.9) if rng.random() < 0.3 else None
    latency = 0.0 if one_latency else rng.choice([0.0, 0.5e-6, 1e-6, 5e-6])
    builder.link(Link(a, b, kind, *rates, both, latency))


def _fabric(rng: random.Random, ranks: int, one_latency: bool) -> Topology:
    """Switches joined by a random tree and some more links; GPUs at random ones."""
    builder = TopologyBuilder("fabric")
    switches = rng.randint(1, max(2, ranks // 2))
    for i in range(switches):
        builder.add(Device(f"s{i}", "network_switch"))
        if i:
            _link(rng, builder, f"s{i}", f"s{rng.randrange(i)}", "network", one_latency)
    for _ in range(rng.randint(0, 2 * switches)):
        if switches > 1:
            _link(rng, builder, *rng.sample([f"s{i}" for i in range(switches)], 2), "network", one_latency)
    for i in range(ranks):
        builder.add(Device(f"g{i}", "gpu", f"h{i}"))
        _link(rng, builder, f"g{i}", f"s{rng.randrange(switches)}", "network", one_latency)
    return _finish(rng, builder, ranks, ("network",), False)


def _host(rng: random.Random, ranks: int, one_latency: bool) -> Topology:
    """Sockets with memory, PCIe switches under them, GPUs under those; NVLinks between some."""
    builder = TopologyBuilder("host")
    sockets = rng.randint(1, 4)
    for i in range(sockets):
        builder.add(Device(f"c{i}", "cpu", "host"))
        builder.add(Device(f"m{i}", "memory", "host"))
        _link(rng, builder, f"c{i}", f"m{i}", "memory", one_latency)
        if i:
            _link(rng, builder, f"c{i}", f"c{rng.randrange(i)}", "socket", one_latency)
    switches = rng.randint(1, max(1, ranks // 2))
    for i in range(switches):
        builder.add(Device(f"p{i}", "pcie_switch", "host"))
        _link(rng, builder, f"p{i}", f"c{rng.randrange(sockets)}", "pcie", one_latency)
    for i in range(ranks):
        builder.add(Device(f"g{i}", "gpu", "host"))
        _link(rng, builder, f"g{i}", f"p{rng.randrange(switches)}", "pcie", one_latency)
    for _ in range(rng.randint(0, ranks)):
        _link(rng, builder, *rng.sample([f"g{i}" for i in range(ranks)], 2), "nvlink", one_latency)
    return _finish(rng, builder, ranks, ("nvlink", "pcie", "host_bridge", "socket"), True)


def _finish(rng: random.Random, builder: TopologyBuilder, ranks: int, classes: tuple[str, ...], cpus: bool) -> Topology:
    names = [f"g{i}" for i in range(ranks)]
    rng.shuffle(names)
    builder.set_ranks(names)
    policies = {}
    for name in classes:
        if rng.random() < 0.4:
            via = rng.choice(["direct", "cpu", "memory"]) if cpus and name != "nvlink" else "direct"
            cap = GB * 10 ** rng.uniform(0, 1.5) if rng.random() < 0.5 else math.inf
            adding = GB * 10 ** rng.uniform(0, 1.5) if rng.random() < 0.3 else math.inf
            policies[name] = PathPolicy(via, cap, adding_cap_Bps=adding)
    costs = Costs(
        message_s=rng.choice([0.0, 2e-6]),
        reduce_s_per_byte=rng.choice([0.0, 0.0, 1 / (200 * GB)]),
        half_rate_bytes=rng.choice([0.0, 0.0, 65536.0]),
    )
    return builder.build(policies=policies, costs=costs)
