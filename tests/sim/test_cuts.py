"""Bytes across cuts against pairs that are enumerated."""

from __future__ import annotations

import random

import numpy as np
import pytest
from machines import GB, random_machine, star, two_pairs

from busbw.core.topology import Device, Link, Topology, TopologyBuilder
from busbw.sim.cuts import busiest_cut, cut_bound_s


def tree_of_switches(rng: random.Random) -> Topology:
    builder = TopologyBuilder("tree")
    switches = rng.randint(1, 6)
    for i in range(switches):
        builder.add(Device(f"s{i}", "network_switch"))
        if i:
            builder.link(Link(f"s{i}", f"s{rng.randrange(i)}", "local", rng.uniform(1, 9) * GB, rng.uniform(1, 9) * GB))
    for i in range(rng.randint(2, 9)):
        builder.add(Device(f"g{i}", "gpu"))
        builder.link(
            Link(f"g{i}", f"s{rng.randrange(switches)}", "local", rng.uniform(1, 9) * GB, rng.uniform(1, 9) * GB)
        )
    return builder.build()


@pytest.mark.parametrize("seed", range(25))
def test_in_a_tree_the_busiest_cut_is_the_busiest_wire_of_all_pairs(seed: int) -> None:
    machine = tree_of_switches(random.Random(seed))
    n = machine.world_size
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    source, target = np.array(pairs).T
    load = np.bincount(machine.routes(source, target).resources, minlength=3 * machine.link_count)
    seconds = 1000 * load / machine.capacities()
    resource, found, exact = busiest_cut(machine, 1000)
    assert exact
    assert found == pytest.approx(float(seconds.max()))
    assert seconds[resource] == pytest.approx(found)


@pytest.mark.parametrize("seed", range(25))
def test_elsewhere_it_is_a_lower_bound(seed: int) -> None:
    machine = random_machine(random.Random(seed))
    n = machine.world_size
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    source, target = np.array(pairs).T
    load = np.bincount(machine.routes(source, target).resources, minlength=3 * machine.link_count)
    assert busiest_cut(machine, 1000)[1] <= float((1000 * load / machine.capacities()).max()) * (1 + 1e-9)


def test_a_bound_by_hand() -> None:
    """Between the pairs: 20 GB/s; each GPU alone: 50 GB/s."""
    machine = two_pairs()
    assert cut_bound_s(machine, np.full(machine.link_count, 1e9)) == pytest.approx(1 / 20)
    assert cut_bound_s(star(2), np.full(2, 1e9)) == pytest.approx(0.1)
