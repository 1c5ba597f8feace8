"""Machines of 1024 and 131072 ranks: the closed forms that they must meet."""

from __future__ import annotations

import pytest

from busbw.sim import simulate
from busbw.topologies import read_topology

MIB = 2**20
FAT_TREE = "cluster(hosts=131072, host=gpu, nic=400Gb/s, levels=3, radix=64)"
NIC_BPS = 50e9


def test_a_ring_of_131072_is_two_patterns() -> None:
    """Every link carries one flow each way: 2 (N-1)/N S / B, and 2 (N-1) messages one after the other."""
    n, size = 131072, 1024 * MIB
    machine = read_topology(FAT_TREE)
    found = simulate("ring", machine, [size])[0]
    assert found.rung == "pattern"
    assert found.times_s["wires"] == pytest.approx(2 * (n - 1) / n * size / NIC_BPS, rel=1e-9)
    farthest = machine.routes([n - 1], [0]).latency_s[0]
    assert found.times_s["latency"] == pytest.approx(2 * (n - 1) * farthest)
    assert [(span.label, span.times) for span in found.spans] == [("reduce-scatter", n - 1), ("all-gather", n - 1)]


def test_halving_and_doubling_of_131072_is_34_steps_as_short_as_the_ring_in_bytes() -> None:
    """At full bisection the same bytes as the ring in 2 log2 N steps."""
    n, size = 131072, 1024 * MIB
    found = simulate("recursive_halving_doubling", read_topology(FAT_TREE), [size])[0]
    assert found.rung == "pattern"
    assert sum(span.times for span in found.spans) == 34
    assert found.times_s["wires"] == pytest.approx(2 * (n - 1) / n * size / NIC_BPS, rel=1e-6)


def test_oversubscribed_uplinks_bind_the_halving_steps_that_cross_them() -> None:
    """32 ranks a leaf, and half as much up from it: the steps that leave a leaf take twice as long."""
    n, size = 1024, 64 * MIB
    shape = f"cluster(hosts={n}, host=gpu, nic=400Gb/s, levels=2, hosts_per_leaf=32, oversubscription="
    even, half = (
        simulate("recursive_halving_doubling", read_topology(f"{shape}{ratio})"), [size])[0] for ratio in (1, 2)
    )
    # Exchanges at distance 512, 256, ... 32 leave the leaf: S/2 + S/4 + ... + S/32 each way, of 1023/1024 S in all.
    crossing = 2 * sum(size / 2**k for k in range(1, 6)) / NIC_BPS
    assert half.times_s["wires"] == pytest.approx(even.times_s["wires"] + crossing, rel=1e-6)
    assert half.binding is not None
    assert half.binding.capacity_Bps == pytest.approx(32 * NIC_BPS / 2)
