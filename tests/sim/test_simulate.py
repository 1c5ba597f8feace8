"""Predictions worked by hand, rungs against each other, and the physics that no prediction may break."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from machines import GB, REDIRECT, random_machine, star, two_pairs

from busbw.core.schedule import Phase, Schedule
from busbw.core.topology import Costs, PathPolicy
from busbw.errors import UsageError
from busbw.sim import default_algorithm, simulate
from busbw.sim.cuts import cut_bound_s
from busbw.topologies import read_topology

MIB = 2**20
GIBPS = 2**30


def seconds(work: object, machine: object, size: int, op: str = "all_reduce", **options: object) -> float:
    return simulate(work, machine, [size], op, **options)[0].time_s  # type: ignore[arg-type]


@pytest.mark.parametrize(("n", "us"), [(8, 2194.5), (64, 2523.9375), (512, 3006.1171875), (4096, 6594.389648)])
def test_a_ring_on_a_switch_is_the_closed_form(n: int, us: float) -> None:
    """2 (N-1) (S / (N B) + alpha), S = 64 MiB, B = 50 GiB/s, alpha = 0.5 us."""
    worked = 2 * (n - 1) * (64 * MIB / n / (50 * GIBPS) + 0.5e-6)
    assert worked * 1e6 == pytest.approx(us)
    found = simulate("ring", read_topology(f"switch(gpus={n}, bandwidth=50GiB/s, latency=0.5us)"), [64 * MIB])[0]
    assert found.time_s == pytest.approx(worked, rel=1e-12)
    assert found.rung == "pattern"
    assert found.times_s["latency"] == pytest.approx((n - 1) * 1e-6)


def test_launch_message_and_reducing_are_paid() -> None:
    """N = 4, S = 4 MB, 10 GB/s: 6 steps of 1 MB take 100 us each; 2 us a message; 3 reductions of 1 MB at 100 GB/s."""
    machine = star(4, costs=Costs(launch_s=7e-6, message_s=2e-6, reduce_s_per_byte=1e-11))
    found = simulate("ring", machine, [4_000_000])[0]
    assert found.times_s == pytest.approx({"launch": 7e-6, "latency": 12e-6, "wires": 600e-6, "reducing": 30e-6})
    assert found.time_s == pytest.approx(649e-6)
    assert simulate("ring", machine, [4_000_000], exact=True)[0].times_s == pytest.approx(found.times_s)


def test_small_messages_do_not_reach_the_rate() -> None:
    """Half of the rate at 1 MB: a step of 1 MB on 10 GB/s takes 200 us."""
    machine = star(2, costs=Costs(half_rate_bytes=1e6))
    assert seconds("ring", machine, 2_000_000) == pytest.approx(400e-6)
    assert seconds("ring", machine, 2_000_000, exact=True) == pytest.approx(400e-6)


def test_redirected_pairs_share_their_uplink_and_it_is_named() -> None:
    """Ranks 0, 1 through the root port: both flows up and down 20 GB/s, so S = 1 GB (1 GB each way) takes 100 ms."""
    direct, redirect = two_pairs(), two_pairs(policies=REDIRECT)
    assert seconds("ring", direct, 10**9, world_size=2) == pytest.approx(1 / 50)
    found = simulate("ring", redirect, [10**9], world_size=2)[0]
    assert found.time_s == pytest.approx(0.1)
    assert found.binding is not None
    assert found.binding.name == "switch0 -> cpu"
    assert found.binding.flows == ((0, 1), (1, 0))
    assert found.binding.alike == 2
    assert found.utilisation(1)[0].share == pytest.approx(1.0)


def test_a_duplex_budget_is_for_both_ways_together() -> None:
    """24 GB/s for both: 2 flows of 1 GB up and down are 4 GB."""
    machine = two_pairs(both=24 * GB, policies=REDIRECT)
    found = simulate("ring", machine, [10**9], world_size=2)[0]
    assert found.time_s == pytest.approx(4 / 24)
    assert found.binding is not None
    assert found.binding.name == "switch0 <-> cpu, both ways together"


def test_a_cap_of_a_path_class_binds() -> None:
    machine = two_pairs(policies={"pcie": PathPolicy(cap_Bps=8 * GB, latency_s=5e-6)})
    found = simulate("ring", machine, [10**9], world_size=2)[0]
    assert found.time_s == pytest.approx(1 / 8 + 2 * 5e-6)
    assert found.binding is not None
    assert found.binding.name == "the cap of a pcie flow"


def test_unequal_flows_are_followed_from_event_to_event() -> None:
    """Scatter from 0 with a slow port: 2 flows of 1 GB share 10 GB/s out of the root, rank 1's port has 2 GB/s.

    Rates 2 and 8: rank 2 has its GB after 0.125 s, rank 1 after 0.5 s.
    """
    machine = star(3)
    slow = machine.changed(backward_Bps=np.where(machine.link_a == machine.ranks[1], 2 * GB, machine.backward_Bps))
    found = simulate("direct", slow, [3 * 10**9], "scatter")[0]
    assert found.time_s == pytest.approx(0.5)
    assert found.timeline is None or sorted(found.timeline.end_s.tolist()) == pytest.approx([0.125, 0.5])
    assert simulate("direct", slow, [3 * 10**9], "scatter", exact=True)[0].timeline.end_s.tolist() == pytest.approx(  # type: ignore[union-attr]
        [0.5, 0.125]
    )


def test_a_pipelined_broadcast_fills_and_then_streams() -> None:
    """Chain of 3 ranks, 4 chunks of 1 MB, 10 GB/s: 5 steps of 100 us."""
    assert seconds("ring(chunks=4)", star(3), 4_000_000, "broadcast") == pytest.approx(500e-6)


def test_many_chunks_make_a_broadcast_as_long_as_its_bytes() -> None:
    assert seconds("ring(chunks=1000)", star(4), 10**9, "broadcast") == pytest.approx(0.1, rel=0.003)


def test_a_switch_that_reduces_carries_s_each_way() -> None:
    """One shot: S up, S down, in 8 strips: 9 steps of S/8 at 10 GB/s."""
    machine = star(4)
    for exact in (False, True):
        assert seconds("nvls(shots=1)", machine, 8_000_000, exact=exact) == pytest.approx(900e-6)
    with pytest.raises(UsageError, match="no switch that reduces"):
        seconds("nvls", two_pairs(), 8_000_000)


def test_channels_use_both_directions_of_a_line_of_switches() -> None:
    """Two rings, one each way, on half-full links: as fast as one on a star, where a port binds already."""
    machine = star(4)
    assert seconds("multi_ring(channels=2)", machine, 4_000_000) == pytest.approx(600e-6)


def test_all_to_all_over_cuts_is_what_its_flows_take() -> None:
    """Two switches of 2 GPUs, uplinks of 20: 4 blocks each way across, 250 MB each: 50 ms; ports carry 3 blocks."""
    machine = two_pairs()
    assert seconds("direct", machine, 10**9, "all_to_all") == pytest.approx(4 * 0.25 / 20, rel=1e-6)


def test_all_to_all_at_scale_is_summed_over_cuts() -> None:
    n = 2048
    machine = read_topology(f"switch(gpus={n}, bandwidth=10GB/s)")
    found = simulate("pairwise", machine, [n * 1000], "all_to_all", dtype="uint8")[0]
    assert found.rung == "closed form"
    assert found.time_s == pytest.approx((n - 1) * 1000 / 10e9)
    assert found.binding is not None


@pytest.mark.parametrize("name", ["ring", "recursive_halving_doubling", "recursive_doubling", "direct", "pairwise"])
@pytest.mark.parametrize("n", [2, 4, 8])
def test_steps_and_dependencies_agree_where_all_ranks_keep_step(name: str, n: int) -> None:
    overlaps = name == "pairwise"  # its next step does not wait for latency and additions
    costs = Costs(launch_s=5e-6, reduce_s_per_byte=0.0 if overlaps else 2e-11)
    machine = star(n, latency_s=0.0 if overlaps else 3e-6, costs=costs)
    steps = simulate(name, machine, [MIB])[0]
    assert seconds(name, machine, MIB, exact=True) == pytest.approx(steps.time_s, rel=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_no_prediction_beats_the_cut_and_time_grows_with_bytes(seed: int) -> None:
    rng = random.Random(seed)
    machine = random_machine(rng)
    names = ["ring", "recursive_halving_doubling", "double_binary_tree", "tree", "direct", "bruck", "centralised"]
    name = rng.choice(names)
    sizes = [4096, 2**20, 2**24]
    for exact in (False, True):
        found = simulate(name, machine, sizes, exact=exact)
        times = [each.time_s for each in found]
        assert times == sorted(times)
        for each in found:
            # S has to leave, and to enter, each part of the ranks.
            bound = cut_bound_s(machine, np.full(machine.link_count, float(each.call.size_bytes)))
            assert each.time_s >= bound * (1 - 1e-9)
            assert each.utilisation(1)[0].share <= 1 + 1e-9
            assert sum(each.times_s.values()) == pytest.approx(each.time_s, rel=1e-6)


@pytest.mark.parametrize("seed", range(25))
def test_nobody_waits_longer_without_barriers(seed: int) -> None:
    """One ring on any machine without latency: dependencies can only be sooner than steps with a barrier."""
    machine = random_machine(random.Random(seed), latency=False)
    steps = simulate("recursive_halving_doubling", machine, [2**24])[0].time_s
    assert seconds("recursive_halving_doubling", machine, 2**24, exact=True) <= steps * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_halving_small_pieces_changes_little(seed: int) -> None:
    rng = random.Random(seed)
    machine = random_machine(rng, latency=False, most=6)
    name = rng.choice(["ring", "double_binary_tree", "recursive_halving_doubling"])
    many, more = (seconds(name, machine, 2**26, exact=True, pieces=pieces) for pieces in (64, 128))
    assert more == pytest.approx(many, rel=0.01)


def test_numpy_and_compiled_loops_tell_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from busbw.sim import fluid

    machine = random_machine(random.Random(5), most=8)
    compiled = simulate("double_binary_tree", machine, [2**22], exact=True)[0]
    monkeypatch.setattr(fluid, "run_events", fluid.run_events.python)  # type: ignore[attr-defined]
    in_python = simulate("double_binary_tree", machine, [2**22], exact=True)[0]
    assert in_python.time_s == compiled.time_s
    assert in_python.timeline is not None
    assert compiled.timeline is not None
    assert in_python.timeline.end_s.tolist() == compiled.timeline.end_s.tolist()


def test_what_cannot_be_done_is_one_clear_line() -> None:
    machine = star(4)
    with pytest.raises(UsageError, match="has 4 GPUs; 8 ranks do not fit"):
        simulate("ring", machine, [1024], world_size=8)
    with pytest.raises(UsageError, match="size 0 B: must be at least 1 B"):
        simulate("ring", machine, [0])
    with pytest.raises(UsageError, match="pieces 0: must be at least 1"):
        simulate("ring", machine, [1024], pieces=0)
    with pytest.raises(UsageError, match="too many to follow each"):
        simulate("ring", read_topology("switch(gpus=8192)"), [2**20], exact=True)


def test_messages_that_wait_for_each_other_are_an_error() -> None:
    """Rank 0 sends in round 1 what arrives in round 0 from rank 1, which is fine; turned around, nobody can begin."""
    from busbw.sim.fluid import Fluid

    machine = star(2)
    fluid = Fluid(_exchange(), machine)
    messages = fluid.messages
    fluid.messages = replace(messages, start_after=(np.array([0, 1, 2]), np.array([1, 0])))
    with pytest.raises(UsageError, match="2 of 2 messages wait for each other"):
        fluid.predict(simulate("ring", machine, [1024])[0].call, "loop")


def _exchange() -> Schedule:
    ranks = np.array([0, 1])
    zero = np.zeros(2, np.int64)
    phase = Phase(ranks, ranks[::-1], np.ones(2, np.int64), True, lambda step: (zero, zero))
    return Schedule("exchange", "all_reduce", 2, 1, (phase,))


def test_defaults_are_what_nccl_does_by_and_large() -> None:
    assert default_algorithm("all_reduce", 8) == "ring"
    assert default_algorithm("scatter", 8) == "direct"
    assert default_algorithm("all_to_all", 8) == "direct"
    assert default_algorithm("all_to_all", 4096) == "pairwise"
    assert default_algorithm("broadcast", 4) == "ring(chunks=200)"


def test_over_hosts_each_channel_crosses_by_a_nic_of_its_own() -> None:
    """2 hosts of 8 with NICs of 50 GB/s: one ring is bound by one NIC, 8 channels by 8 NICs (or by NVLink, 450)."""
    machine = read_topology("cluster(hosts=2, host=dgx-h100, nic=400Gb/s)")
    name = default_algorithm("all_gather", 16, machine)
    assert name == "multi_ring(channels=8,ranks_per_host=8)"
    assert default_algorithm("all_gather", 8, machine) == "ring"  # on one host
    one, many = (simulate(each, machine, [2**32], "all_gather")[0].measurement.busbw_GBps for each in ("ring", name))
    assert one == pytest.approx(50, rel=0.01)
    assert many == pytest.approx(400, rel=0.02)


def test_a_schedule_by_hand_that_is_wrong_is_refused_before_it_is_simulated() -> None:
    """Rank 0 sends to rank 1 and nothing comes back: not an all-reduce."""
    zero = np.zeros(1, np.int64)
    phase = Phase(np.array([0]), np.array([1]), np.ones(1, np.int64), True, lambda step: (zero, zero))
    with pytest.raises(UsageError, match="rank 0"):
        simulate(Schedule("half", "all_reduce", 2, 1, (phase,)), star(2), [1024])
    away = Phase(np.array([0]), np.array([5]), np.ones(1, np.int64), True, lambda step: (zero, zero))
    with pytest.raises(UsageError, match="5"):
        simulate(Schedule("away", "all_reduce", 2, 1, (away,)), star(2), [1024])
    with pytest.raises(UsageError, match="the schedule is for 2 ranks, not 3"):
        simulate(_exchange(), star(3), [1024], world_size=3)


def test_runs_of_slots_of_one_pair_are_one_message() -> None:
    """Rank 0 sends rank 1 two runs of a half each, and rank 2 one of a half: 2 flows share 10 GB/s until 2 has its own.

    1 GB and 0.5 GB: rank 2 is done after 0.1 s, rank 1 after 0.15 s, as nobody else sends.
    """
    halves = np.array([0, 1, 0])
    phase = Phase(
        np.zeros(3, np.int64), np.array([1, 1, 2]), np.ones(3, np.int64), False, lambda step: (halves, halves)
    )
    schedule = Schedule("two runs", "broadcast", 3, 2, (phase,))
    from busbw.sim.patterns import patterns
    from busbw.sim.wires import Wires

    (pattern,) = patterns(schedule)
    assert pattern.share.tolist() == [1.0, 0.5]
    assert Wires(star(3)).step(pattern, 1e9).time_s == pytest.approx(0.15)
