"""Flows on wires, counted by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from busbw.core.schedule import Schedule
from busbw.core.topology import Device, Link, Topology, TopologyBuilder
from busbw.draw.loads import at_rate, count_flows, simulated
from busbw.errors import UsageError
from busbw.sim import simulate
from busbw.topologies import read_topology

Build = Callable[..., Schedule]


def pair_under_switches() -> Topology:
    """Two pairs of GPUs, each under a switch with an uplink of 20 GB/s out and 10 GB/s in; GPUs have 40 GB/s."""
    builder = TopologyBuilder("two-pairs")
    builder.add(Device("cpu0", "cpu", "h"))
    for switch in range(2):
        builder.add(Device(f"switch{switch}", "pcie_switch", "h"))
        builder.link(Link(f"switch{switch}", "cpu0", "pcie", 20e9, 10e9))
        for gpu in (2 * switch, 2 * switch + 1):
            builder.add(Device(f"gpu{gpu}", "gpu", "h"))
            builder.link(Link(f"gpu{gpu}", f"switch{switch}", "pcie", 40e9, 40e9))
    return builder.build()


def test_a_ring_over_two_switches_by_hand(build: Build) -> None:
    """All-reduce on 4: each wire on the ring's way carries 6 x S/4 = 1.5 S. The way into a switch takes 1.5 S / 10 GB/s;
    the way out 1.5 S / 20 GB/s, half of it; a GPU's wire a quarter."""
    machine = pair_under_switches()
    usage = count_flows(build("ring", "all_reduce", 4), machine)
    busy = {machine.resource_name(i): usage.busy[i] for i in range(2 * machine.link_count)}
    assert busy["cpu0 -> switch0"] == pytest.approx(1.0)
    assert busy["switch0 -> cpu0"] == pytest.approx(0.5)
    assert busy["gpu0 -> switch0"] == busy["switch1 -> gpu3"] == pytest.approx(0.25)
    assert {machine.resource_name(int(i)) for i in np.flatnonzero(usage.fullest)} == {
        "cpu0 -> switch0",
        "cpu0 -> switch1",
    }
    assert "the wires allow 10.0 GB/s busbw (6.67 GB/s algbw)" in usage.words
    assert "Busiest, in red: cpu0 → switch0 and 1 like it." in usage.words


def test_at_a_measured_rate(build: Build) -> None:
    """At 5 GB/s busbw every wire of the ring carries 5 GB/s."""
    machine = pair_under_switches()
    usage = at_rate(build("ring", "all_reduce", 4), machine, 5e9)
    assert usage.busy.max() == pytest.approx(0.5)
    assert "cannot be" not in usage.words
    assert "200% cannot be" in at_rate(build("ring", "all_reduce", 4), machine, 20e9).words


def test_the_posts_machine_waits_for_the_pairs_uplinks_and_not_for_the_socket_link(build: Build) -> None:
    machine = read_topology("pcie-8gpu")
    usage = count_flows(build("ring", "all_reduce", 8), machine)
    full = {machine.resource_name(int(i)) for i in np.flatnonzero(usage.fullest)}
    assert full == {
        name for i in range(4) for c in (i // 2,) for name in (f"switch{i} -> cpu{c}", f"cpu{c} -> switch{i}")
    }
    socket = max(
        usage.busy[i]
        for i in range(2 * machine.link_count)
        if machine.resource_name(i) in ("cpu0 -> cpu1", "cpu1 -> cpu0")
    )
    assert socket == pytest.approx(31.5 / 96, abs=1e-3)


def test_a_switch_that_reduces(build: Build) -> None:
    """With one shot each rank sends S to the switch and receives S: 450 GB/s algbw on links of 450 GB/s."""
    usage = count_flows(build("nvls(shots=1)", "all_reduce", 8), read_topology("dgx-h100"))
    assert "(450 GB/s algbw)" in usage.words
    with pytest.raises(UsageError, match="has no switch that reduces: choose another --algorithm"):
        count_flows(build("nvls", "all_reduce", 8), read_topology("pcie-8gpu"))


def test_all_pairs(build: Build) -> None:
    """All-to-all on a switch: each rank sends 3/4 S over its own wire."""
    machine = read_topology("switch(gpus=4, bandwidth=10GB/s)")
    for algorithm in ("direct", "pairwise"):
        usage = count_flows(build(algorithm, "all_to_all", 4), machine)
        assert usage.busy[: 2 * machine.link_count] == pytest.approx(1.0)
        assert "10.0 GB/s busbw (13.3 GB/s algbw)" in usage.words


def test_channels_add_up(build: Build) -> None:
    """Two rings in opposite directions load each direction of each wire as one ring loads one of them."""
    machine = read_topology("ring(gpus=4)")
    one = count_flows(build("ring", "all_reduce", 4), machine)
    two = count_flows(build("multi_ring", "all_reduce", 4), machine)
    wires = 2 * machine.link_count
    assert sorted(one.busy[:wires]) == pytest.approx([0.0] * 4 + [1.0] * 4)
    assert two.busy[:wires] == pytest.approx(1.0)


def test_a_simulation_says_less_for_small_messages(build: Build) -> None:
    machine = read_topology("pcie-8gpu")
    small, large = (
        simulated(prediction, "ring") for prediction in simulate("ring", machine, [4096, 2**30], "all_reduce")
    )
    assert small.busy.max() < 0.02
    assert large.busy.max() > 0.9
    assert (large.fullest == count_flows(build("ring", "all_reduce", 8), machine).fullest).all()


def test_more_ranks_than_gpus(build: Build) -> None:
    with pytest.raises(UsageError, match="two-pairs has 4 GPUs; 8 ranks do not fit on it"):
        count_flows(build("ring", "all_reduce", 8), pair_under_switches())
