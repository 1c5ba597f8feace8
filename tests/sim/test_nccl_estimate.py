"""NCCL's own estimate, worked by hand from its constants."""

from __future__ import annotations

import pytest

from busbw.errors import UsageError
from busbw.sim.nccl_estimate import assume, estimate, opinions
from busbw.topologies import read_topology

MIB = 2**20


def test_small_calls_over_pcie_take_a_ring_with_ll() -> None:
    """6.6 us and 14 hops of 1.0 us; bandwidth 63.0 / 2 x 8/14. A tree: 6.8 us, and 2 x 7 hops of 1.0 us."""
    assumed = assume(read_topology("pcie-8gpu"))
    assert (assumed.hosts, assumed.ranks_per_host, assumed.kind) == (1, 8, "PCI")
    assert assumed.generation == "blackwell"
    assert assumed.ring_GBps == pytest.approx(63.0, rel=0.001)
    best, second, *_ = opinions(assumed, "all_reduce", 8)
    assert (best.algorithm, best.protocol) == ("Ring", "LL")
    assert best.latency_s == pytest.approx(20.6e-6)
    assert best.algbw_GBps == pytest.approx(63.0 / 2 * 8 / 14, rel=0.001)
    assert (second.algorithm, second.latency_s) == ("Tree", pytest.approx(20.8e-6))


def test_large_calls_over_pcie_take_a_ring_with_simple_and_never_ll128() -> None:
    """8.4 us and 14 hops of 5.7 us, and 256 MiB at 63.0 x 8/14 = 36 GB/s."""
    assumed = assume(read_topology("pcie-8gpu"))
    found = opinions(assumed, "all_reduce", 256 * MIB)
    assert (found[0].algorithm, found[0].protocol) == ("Ring", "Simple")
    assert found[0].time_s == pytest.approx(88.2e-6 + 2**28 / (assumed.ring_GBps * 8 / 14 * 1e9))
    assert "LL128" not in {opinion.protocol for opinion in found}


def test_a_trees_bandwidth_is_worst_at_256_kib_for_ll() -> None:
    """0.92 / 3.8 x 0.5 x the factor 0.4 of 2^18 B (2^12 x 64 B), and 1.0 at 64 B."""
    assumed = assume(read_topology("pcie-8gpu"))

    def tree(size: int) -> float:
        return next(
            o for o in opinions(assumed, "all_reduce", size) if (o.algorithm, o.protocol) == ("Tree", "LL")
        ).algbw_GBps

    assert tree(2**18) == pytest.approx(63.0 * 0.92 / 3.8 / 2 * 0.4, rel=0.001)
    assert tree(64) / tree(2**18) == pytest.approx(2.5)


def test_a_switch_that_reduces_is_preferred_for_large_all_reduces() -> None:
    """25 us, and as fast as the ring's links: min(450 x 0.85 x 15/16 x 2, 450) x 8/14."""
    assumed = assume(read_topology("dgx-h100"))
    assert (assumed.kind, assumed.generation, assumed.has_nvls) == ("NVLink", "hopper", True)
    best = opinions(assumed, "all_reduce", 2**30)[0]
    assert best.algorithm == "NVLS"
    assert best.algbw_GBps == pytest.approx(assumed.ring_GBps * 8 / 14)


def test_hosts_add_network_hops() -> None:
    """16 ranks on 2 hosts, ring LL: 6.6 + (30 - 2) x 0.6 + 2 x 2.7 us."""
    assumed = assume(read_topology("cluster(hosts=2, host=dgx-h100, nic=400Gb/s)"))
    assert (assumed.hosts, assumed.ranks_per_host) == (2, 8)
    ring = next(o for o in opinions(assumed, "all_reduce", 8) if (o.algorithm, o.protocol) == ("Ring", "LL"))
    assert ring.latency_s == pytest.approx((6.6 + 28 * 0.6 + 2 * 2.7) * 1e-6)
    assert assumed.ring_GBps == pytest.approx(400.0)  # 8 NICs of 50 GB/s


def test_rows_are_marked_as_nccls_opinion() -> None:
    (row,) = estimate(read_topology("pcie-8gpu"), "all_gather", [MIB])
    assert row.origin == "simulated"
    assert row.labels["model"] == "nccl"
    assert row.marks[0].code == "nccl_opinion"
    with pytest.raises(UsageError, match="not all_to_all"):
        estimate(read_topology("pcie-8gpu"), "all_to_all", [MIB])
