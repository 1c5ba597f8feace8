"""Machines by hand: parallel links, bad ones, routes by hand, and random ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.core.routing import graph_of
from busbw.core.topology import PATH_CLASSES, Device, Link, PathPolicy, Topology, TopologyBuilder
from busbw.errors import UsageError


def pair(*links: Link, policies: dict[str, PathPolicy] | None = None) -> Topology:
    builder = TopologyBuilder("pair")
    for name in ("a", "b"):
        builder.add(Device(name, "gpu", "host0"))
    for link in links:
        builder.link(link)
    return builder.build(policies=policies)


def test_parallel_links_add_up_also_from_the_other_end() -> None:
    machine = pair(
        Link("a", "b", "nvlink", 50e9, 40e9, latency_s=1e-6),
        Link("b", "a", "nvlink", 10e9, 20e9, duplex_Bps=25e9, latency_s=2e-6),
    )
    assert machine.link_count == 1
    link = machine.link(0)
    assert (link.forward_Bps, link.backward_Bps, link.latency_s) == (70e9, 50e9, 2e-6)
    assert link.duplex_Bps == 90e9 + 25e9  # the first wire has no budget: both of its ways count


@pytest.mark.parametrize(
    ("link", "message"),
    [
        (Link("a", "b", "nvlink", 0.0, 1.0), r"a - b: its bandwidth a -> b is 0 B/s; it must be above 0"),
        (Link("a", "b", "nvlink", 1.0, -5.0), r"its bandwidth b -> a is -5 B/s"),
        (Link("a", "b", "nvlink", math.nan, 1.0), r"its bandwidth a -> b is nan"),
        (Link("a", "b", "nvlink", 1.0, 1.0, 0.0), r"its bandwidth both ways is 0"),
        (Link("a", "b", "nvlink", 1.0, 1.0, None, -1.0), r"its latency is -1 s; it must be 0 or more"),
        (Link("a", "b", "nvlink", 1.0, 1.0, None, math.nan), r"its latency is nan"),
        (Link("a", "c", "nvlink", 1.0, 1.0), r"ends at 'c', which is no device"),
        (Link("a", "a", "nvlink", 1.0, 1.0), r"ends where it begins"),
        (Link("a", "b", "rope", 1.0, 1.0), r"is a 'rope'"),
        (Link("a", "b", "nvlink", 1.0, 1.0, basis="guessed"), r"'guessed' speed"),
    ],
)
def test_bad_links_are_named(link: Link, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        pair(link)
    assert "\n" not in str(caught.value)


def test_parts_that_nothing_joins_are_named() -> None:
    with pytest.raises(UsageError, match=r"no links lead from 'a' \(rank 0\) to 'b' \(rank 1\)"):
        pair()


def test_a_gpu_twice() -> None:
    builder = TopologyBuilder("twice")
    builder.add(Device("a", "gpu"))
    with pytest.raises(UsageError, match="'a' is there twice"):
        builder.add(Device("a", "gpu"))
    with pytest.raises(UsageError, match="'a' has two ranks"):
        builder.set_ranks(["a", "a"])


@pytest.mark.parametrize("field", ["forward_Bps", "backward_Bps", "duplex_Bps"])
def test_changed_rates_are_checked(field: str) -> None:
    machine = pair(Link("a", "b", "nvlink", 1.0, 1.0))
    with pytest.raises(UsageError, match="must be above 0"):
        machine.changed(**{field: np.array([0.0])})


def two_hosts(policies: dict[str, PathPolicy] | None = None) -> Topology:
    """Each host: two GPUs under one switch with a NIC each, a CPU with memory; NICs 0 and 1 of both at one switch."""
    builder = TopologyBuilder("two hosts")
    builder.add(Device("net", "network_switch"))
    for host in ("x", "y"):
        for name, kind in (("gpu0", "gpu"), ("gpu1", "gpu"), ("sw", "pcie_switch"), ("cpu", "cpu"), ("mem", "memory")):
            builder.add(Device(f"{host}/{name}", kind, host))
        builder.link(Link(f"{host}/cpu", f"{host}/mem", "memory", 100.0, 100.0, 100.0))
        builder.link(Link(f"{host}/sw", f"{host}/cpu", "pcie", 50.0, 50.0))
        for number in range(2):
            builder.link(Link(f"{host}/gpu{number}", f"{host}/sw", "pcie", 50.0, 50.0))
            nic = builder.add(Device(f"{host}/nic{number}", "nic", host))
            builder.link(Link(nic, f"{host}/sw", "pcie", 50.0, 50.0))
            builder.link(Link(nic, "net", "network", 25.0, 25.0))
    return builder.build(policies=policies)


def words(machine: Topology, source: int, target: int) -> list[str]:
    return [machine.resource_name(int(resource)) for resource in machine.routes([source], [target]).of(0)]


def test_gpus_take_their_nics_by_turns_on_both_sides() -> None:
    assert words(two_hosts(), 1, 2) == [
        "x/gpu1 -> x/sw",
        "x/sw -> x/nic1",
        "x/nic1 -> net",
        "net -> y/nic0",
        "y/nic0 -> y/sw",
        "y/sw -> y/gpu0",
    ]


def test_the_network_through_memory_is_staged_in_both_hosts() -> None:
    machine = two_hosts({"network": PathPolicy("memory", 10.0, 1.0)})
    way = words(machine, 0, 3)
    assert way[:5] == ["x/gpu0 -> x/sw", "x/sw -> x/cpu", "x/cpu -> x/mem", "x/mem -> x/cpu", "x/cpu -> x/sw"]
    assert way[7:13] == ["net -> y/nic1", "y/nic1 -> y/sw", "y/sw -> y/cpu", "y/cpu -> y/mem", "y/mem -> y/cpu", "y/cpu -> y/sw"]  # fmt: skip
    assert way.count("x/cpu <-> x/mem, both ways together") == 2  # up and down the same budget
    flow = machine.routes([0], [3])
    assert (flow.cap_Bps[0], flow.latency_s[0]) == (10.0, 1.0)


def test_a_redirect_without_a_cpu_says_so() -> None:
    machine = pair(Link("a", "b", "nvlink", 1.0, 1.0), policies={"nvlink": PathPolicy("cpu")})
    with pytest.raises(UsageError, match="nvlink traffic of 'a' goes via cpu, but no cpu is in reach"):
        machine.routes([0], [1])


KINDS = ("gpu", "pcie_switch", "cpu", "nvswitch")


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    """A random connected machine: a tree of devices, and some more links; every GPU hangs at something that passes on."""
    count = draw(st.integers(2, 10))
    builder = TopologyBuilder("random")
    inner = [builder.add(Device("d0", draw(st.sampled_from(KINDS[1:])), "host0"))]
    for number in range(1, count):
        kind = draw(st.sampled_from(KINDS))
        name = builder.add(Device(f"d{number}", kind, "host0"))
        builder.link(draw(links(name, draw(st.sampled_from(inner)))))
        if kind != "gpu":
            inner.append(name)
    gpu = builder.add(Device("last", "gpu", "host0"))
    builder.link(draw(links(gpu, draw(st.sampled_from(inner)))))
    for _ in range(draw(st.integers(0, 6))):
        ends = draw(st.lists(st.sampled_from(builder.names()), min_size=2, max_size=2, unique=True))
        builder.link(draw(links(*ends)))
    return builder.build()


def links(a: str, b: str) -> st.SearchStrategy[Link]:
    rates = st.floats(1.0, 100.0)
    return st.builds(
        Link,
        st.just(a),
        st.just(b),
        st.sampled_from(("pcie", "nvlink", "socket")),
        rates,
        rates,
        st.none() | rates,
        st.floats(0.0, 1.0),
    )


@given(machines())
def test_random_machines_route_validly(machine: Topology) -> None:
    ranks = np.arange(machine.world_size)
    source, target = (axis.reshape(-1) for axis in np.meshgrid(ranks, ranks))
    routes = machine.routes(source, target)
    capacities = machine.capacities()
    assert len(routes.offsets) == len(source) + 1
    for flow in range(len(source)):
        resources = routes.of(flow)
        assert ((resources >= 0) & (resources < 3 * machine.link_count)).all()
        assert np.isfinite(capacities[resources]).all()
        here, passed = int(machine.ranks[source[flow]]), [int(machine.ranks[source[flow]])]
        ways = [int(resource) for resource in resources if resource < 2 * machine.link_count]
        for resource in ways:
            link, back = divmod(resource, 2)
            ends = (int(machine.link_a[link]), int(machine.link_b[link]))
            assert ends[back] == here
            here = ends[1 - back]
            passed.append(here)
        assert here == machine.ranks[target[flow]]
        assert len(set(passed)) == len(passed)  # no device twice
        assert not any(machine.device(device).kind == "gpu" for device in passed[1:-1])
        budgets = [
            int(resource) - 2 * machine.link_count for resource in resources if resource >= 2 * machine.link_count
        ]
        assert budgets == [way // 2 for way in ways if math.isfinite(machine.duplex_Bps[way // 2])]
        assert routes.latency_s[flow] == pytest.approx(sum(machine.latency_s[way // 2] for way in ways))
        assert PATH_CLASSES[routes.path_class[flow]] == (
            "local" if not ways else PATH_CLASSES[graph_of(machine).class_of(ways)]
        )


@given(st.lists(links("a", "b"), min_size=1, max_size=5))
def test_parallel_links_of_a_kind_add_up(wires: list[Link]) -> None:
    machine = pair(*wires)
    for link in machine.links():
        same = [wire for wire in wires if wire.kind == link.kind]
        assert link.forward_Bps == pytest.approx(sum(wire.forward_Bps for wire in same))
        assert link.backward_Bps == pytest.approx(sum(wire.backward_Bps for wire in same))
        assert (link.duplex_Bps is None) == all(wire.duplex_Bps is None for wire in same)
