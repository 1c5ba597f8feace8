"""The same call with one thing changed, worked by hand."""

from __future__ import annotations

import pytest
from machines import REDIRECT, two_pairs

from busbw.algorithms.spec import parse_algorithm
from busbw.core.topology import Costs, Topology
from busbw.sim import simulate
from busbw.sim.limits import limits
from busbw.sim.what_ifs import what_ifs
from busbw.topologies import read_topology


def gains(machine: Topology, name: str = "ring", size: int = 10**9) -> dict[str, float]:
    spec = parse_algorithm(name)
    return {each.text: each.gain for each in what_ifs(simulate(spec, machine, [size])[0], spec)}


def test_routes_links_and_launch_are_changed_one_by_one() -> None:
    """N = 4, redirected pairs on uplinks of 20 each way: 2 flows up and 2 down, where direct pairs would have 1 and 1."""
    found = gains(two_pairs(policies=REDIRECT, costs=Costs(launch_s=30e-3)))
    wires = 6 * 0.25 * 2 / 20  # seconds
    assert found["with P2P everywhere, by the direct way"] == pytest.approx((30e-3 + wires) / (30e-3 + wires / 2) - 1)
    assert found["every pcie link twice as fast"] == pytest.approx((30e-3 + wires) / (30e-3 + wires / 2) - 1)
    assert found["a launch that costs nothing (a graph)"] == pytest.approx(30e-3 / wires)
    assert found["without P2P (staged in host memory)"] == pytest.approx(0.0, abs=1e-9)
    assert found["one more channel"] == pytest.approx(0.0, abs=1e-9)  # the uplinks are full both ways already


def test_one_more_channel_uses_the_other_direction_of_a_ring_of_wires() -> None:
    machine = read_topology("ring(gpus=8, bandwidth=10GB/s)")
    assert gains(machine)["one more channel"] == pytest.approx(1.0)


def test_each_row_stands_beside_its_limit() -> None:
    machine = two_pairs(policies=REDIRECT)
    rows = [each.measurement for each in simulate("ring", machine, [64, 2**28])]
    found, missing = limits(machine, rows)
    assert missing == []
    assert [each.share for each in found] == pytest.approx([1.0, 1.0])
    assert found[1].limit == "switch0 -> cpu"
    slow = machine.changed(costs=Costs(launch_s=1e-3))
    assert limits(slow, rows)[0][0].limit == "launch"
