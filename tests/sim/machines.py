"""Machines for the simulator's tests: random connected ones, and small ones whose numbers can be worked by hand."""

from __future__ import annotations

import random

from busbw.core.topology import Costs, Device, Link, PathPolicy, Topology, TopologyBuilder

GB = 1e9


def star(gpus: int, rate: float = 10 * GB, latency_s: float = 0.0, **build: object) -> Topology:
    """GPUs on one switch; a message takes `latency_s` from one to another."""
    builder = TopologyBuilder("star")
    builder.add(Device("switch", "nvswitch", "host0", reduces=True))
    for gpu in range(gpus):
        builder.add(Device(f"gpu{gpu}", "gpu", "host0"))
        builder.link(Link(f"gpu{gpu}", "switch", "nvlink", rate, rate, latency_s=latency_s / 2))
    return builder.build(**build)  # type: ignore[arg-type]


def two_pairs(
    up: float = 20 * GB, down: float = 20 * GB, both: float | None = None, port: float = 50 * GB, **build: object
) -> Topology:
    """Two PCIe switches of two GPUs under one CPU."""
    builder = TopologyBuilder("two pairs")
    builder.add(Device("cpu", "cpu", "host0"))
    builder.add(Device("memory", "memory", "host0"))
    builder.link(Link("cpu", "memory", "memory", 400 * GB, 400 * GB))
    for pair in range(2):
        builder.add(Device(f"switch{pair}", "pcie_switch", "host0"))
        builder.link(Link(f"switch{pair}", "cpu", "pcie", up, down, both))
        for gpu in (2 * pair, 2 * pair + 1):
            builder.add(Device(f"gpu{gpu}", "gpu", "host0"))
            builder.link(Link(f"gpu{gpu}", f"switch{pair}", "pcie", port, port))
    return builder.build(**build)  # type: ignore[arg-type]


REDIRECT = {"pcie": PathPolicy("cpu")}


def random_machine(rng: random.Random, *, latency: bool = True, most: int = 12, duplex: bool = True) -> Topology:
    """A random connected graph of switches with GPUs at them, rates over two decades, some half-duplex links."""
    builder = TopologyBuilder("random")
    switches = rng.randint(1, 5)
    gpus = rng.randint(2, most)

    def link(a: str, b: str) -> None:
        rates = [GB * 10 ** rng.uniform(0, 2) for _ in range(2)]
        if rng.random() < 0.5:
            rates[1] = rates[0]
        both = max(rates) * rng.uniform(1.0, 1.9) if duplex and rng.random() < 0.3 else None
        builder.link(Link(a, b, "local", *rates, both, rng.choice([0.0, 1e-6, 3e-6]) if latency else 0.0))

    for i in range(switches):
        builder.add(Device(f"s{i}", "network_switch"))
        if i:
            link(f"s{i}", f"s{rng.randrange(i)}")
    for _ in range(rng.randint(0, switches)):
        if switches > 1:
            a, b = rng.sample(range(switches), 2)
            link(f"s{a}", f"s{b}")
    for i in range(gpus):
        builder.add(Device(f"g{i}", "gpu", f"h{i}"))
        link(f"g{i}", f"s{rng.randrange(switches)}")
    names = [f"g{i}" for i in range(gpus)]
    rng.shuffle(names)
    builder.set_ranks(names)
    message = rng.choice([0.0, 2e-6]) if latency else 0.0
    return builder.build(costs=Costs(message_s=message))
