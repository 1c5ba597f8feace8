"""What no prediction may break, on random machines and random schedules."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import random_machine, star

from busbw.algorithms.spec import parse_algorithm
from busbw.core.schedule import Phase, Schedule
from busbw.core.topology import Costs, PathPolicy, Topology
from busbw.core.verify import verify
from busbw.errors import UsageError
from busbw.sim import simulate
from busbw.sim.cuts import cut_bound_s
from busbw.sim.fluid import Fluid
from busbw.sim.patterns import patterns
from busbw.sim.steps import Steps
from busbw.sim.wires import Wires
from schedules import random_transfers, relabelled, schedule_of

SEEDS = st.integers(0, 2**32)
FEW = settings(max_examples=40, deadline=None)
NAMES = (
    "ring",
    "recursive_halving_doubling",
    "recursive_doubling",
    "tree",
    "double_binary_tree",
    "direct",
    "bruck",
    "centralised",
    "multi_ring(channels=2)",
)


def seconds(schedule: Schedule, machine: Topology, size: float, exact: bool) -> float:
    """Of a call of this size; by steps with a barrier where not exact."""
    if exact:
        return simulate(schedule, machine, [int(size)], dtype="uint8", exact=True)[0].time_s
    call = simulate(schedule, machine, [int(size)], dtype="uint8")[0].call
    return Steps(schedule, machine).predict([call], "")[0].time_s


def any_all_reduce(rng: random.Random, n: int) -> Schedule:
    """One of the algorithms, or a random one."""
    if rng.random() < 0.4:
        return schedule_of(n, *random_transfers(rng, n))
    return parse_algorithm(rng.choice(NAMES)).build("all_reduce", n)


def with_caps(rng: random.Random, machine: Topology) -> Topology:
    """Caps on some flows, a loop that adds slowly, messages that do not reach the rate."""
    policy = PathPolicy(cap_Bps=10 ** rng.uniform(9, 10.5), adding_cap_Bps=10 ** rng.uniform(9, 10.5))
    costs = Costs(reduce_s_per_byte=rng.choice([0.0, 1e-11]), half_rate_bytes=rng.choice([0.0, 4096.0]))
    return machine.changed(policies={"pcie": policy}, costs=costs)


def bisection_bound_s(machine: Topology, size: float) -> float:
    """Part the switches in every way, with the GPUs at them: S has to cross each way, and 2 S both ways together."""
    kinds = machine.device_kind[machine.link_a], machine.device_kind[machine.link_b]
    switches = np.unique(np.concatenate([machine.link_a[kinds[0] != 0], machine.link_b[kinds[1] != 0]]))
    home = {int(a): int(b) for a, b in zip(machine.link_a, machine.link_b, strict=True) if machine.device_kind[a] == 0}
    best = 0.0
    for sides in product((False, True), repeat=len(switches)):
        side = dict(zip(switches.tolist(), sides, strict=True))
        side |= {gpu: side[switch] for gpu, switch in home.items()}
        ranks = {side[int(rank)] for rank in machine.ranks}
        if len(ranks) < 2:
            continue
        a, b = (np.array([side[int(end)] for end in ends]) for ends in (machine.link_a, machine.link_b))
        out = machine.forward_Bps[a & ~b].sum() + machine.backward_Bps[~a & b].sum()
        into = machine.forward_Bps[~a & b].sum() + machine.backward_Bps[a & ~b].sum()
        both = np.minimum(machine.duplex_Bps, machine.forward_Bps + machine.backward_Bps)[a != b].sum()
        best = max(best, size / out, size / into, 2 * size / both)
    return best


@FEW
@given(SEEDS, st.booleans())
def test_nothing_beats_a_cut(seed: int, exact: bool) -> None:
    rng = random.Random(seed)
    machine = random_machine(rng, most=7)
    size = 2.0 ** rng.randint(12, 26)
    found = seconds(any_all_reduce(rng, machine.world_size), machine, size, exact)
    assert found >= bisection_bound_s(machine, size * (1 - 1e-9)) * (1 - 1e-9)
    assert found >= cut_bound_s(machine, np.full(machine.link_count, size)) * (1 - 1e-9)


@FEW
@given(SEEDS, st.booleans())
def test_wires_carry_no_more_than_they_can(seed: int, exact: bool) -> None:
    """Of every wire and in any schedule: bytes over capacity is a bound, and where all is one step on one wire, met."""
    rng = random.Random(seed)
    machine = with_caps(rng, random_machine(rng, latency=False, most=7))
    schedule = any_all_reduce(rng, machine.world_size)
    found = simulate(schedule, machine, [2**20], dtype="uint8", exact=exact)[0]
    assert found.utilisation(1)[0].share <= 1 + 1e-9
    assert sum(found.times_s.values()) == pytest.approx(found.time_s, rel=1e-9)


@FEW
@given(SEEDS, st.floats(1.0, 4.0))
def test_more_bytes_never_take_less_time_in_steps(seed: int, factor: float) -> None:
    rng = random.Random(seed)
    machine = with_caps(rng, random_machine(rng, most=8))
    schedule = any_all_reduce(rng, machine.world_size)
    small = 2.0 ** rng.randint(10, 24)
    assert seconds(schedule, machine, small * factor, False) >= seconds(schedule, machine, small, False) * (1 - 1e-9)


@FEW
@given(SEEDS)
def test_twice_the_bytes_take_more_time_without_barriers(seed: int) -> None:
    rng = random.Random(seed)
    machine = with_caps(rng, random_machine(rng, most=8))
    schedule = any_all_reduce(rng, machine.world_size)
    times = [seconds(schedule, machine, size, True) for size in 2.0 ** np.arange(10, 25, 2)]
    assert times == sorted(times)


@FEW
@given(SEEDS, st.booleans(), st.floats(1.1, 16.0))
def test_time_is_bytes_over_rate_where_nothing_else_costs(seed: int, exact: bool, factor: float) -> None:
    """Twice the bytes take twice the time; twice all rates half of it; both leave it as it is, with any latency."""
    rng = random.Random(seed)
    machine = random_machine(rng, latency=False, most=8)
    schedule = any_all_reduce(rng, machine.world_size)
    size = 2**20 * schedule.world_size
    base = seconds(schedule, machine, size, exact)
    assert seconds(schedule, machine, 2 * size, exact) == pytest.approx(2 * base, rel=1e-6)
    assert seconds(schedule, faster(machine, factor), size, exact) == pytest.approx(base / factor, rel=1e-6)


@FEW
@given(SEEDS, st.booleans())
def test_twice_the_bytes_at_twice_all_rates_change_nothing(seed: int, exact: bool) -> None:
    rng = random.Random(seed)
    machine = with_caps(rng, random_machine(rng, most=8))
    schedule = any_all_reduce(rng, machine.world_size)
    size = 2.0 ** rng.randint(12, 24)
    both = seconds(schedule, faster(machine, 2.0), 2 * size, exact)
    assert both == pytest.approx(seconds(schedule, machine, size, exact), rel=1e-9)


def faster(machine: Topology, factor: float) -> Topology:
    """All rates times `factor`: of links, both ways, caps, adding; and the message that reaches half of them."""
    costs = machine.costs
    policies = {
        name: replace(each, cap_Bps=each.cap_Bps * factor, adding_cap_Bps=each.adding_cap_Bps * factor)
        for name, each in machine.policies.items()
    }
    return machine.changed(
        forward_Bps=machine.forward_Bps * factor,
        backward_Bps=machine.backward_Bps * factor,
        duplex_Bps=machine.duplex_Bps * factor,
        policies=policies,
        costs=replace(
            costs,
            reduce_s_per_byte=costs.reduce_s_per_byte / factor,
            half_rate_bytes=costs.half_rate_bytes * factor,
        ),
    )


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_half_of_a_small_chunk_changes_under_one_percent(seed: int) -> None:
    rng = random.Random(seed)
    machine = random_machine(rng, latency=False, most=4)
    schedule = any_all_reduce(rng, machine.world_size)
    times = [simulate(schedule, machine, [2**26], exact=True, pieces=pieces)[0].time_s for pieces in (128, 256)]
    assert times[1] == pytest.approx(times[0], rel=0.01)


@FEW
@given(SEEDS)
def test_equal_flows_end_when_the_events_say(seed: int) -> None:
    """The second rung is the third, where it may be used: latency + bytes x max(flows / capacity)."""
    rng = random.Random(seed)
    machine = random_machine(rng, latency=False, most=12)
    wires = Wires(machine)
    for pattern in patterns(
        parse_algorithm(rng.choice(["ring", "pairwise", "direct"])).build("all_reduce", machine.world_size)
    ):
        step = wires.step(pattern, 2**20)
        assert step.lockstep
        ends, _ = wires._events(wires.capped(pattern), pattern.share * 2**20)
        assert step.time_s == pytest.approx(float(ends.max()), rel=1e-9)


@FEW
@given(SEEDS)
def test_one_round_is_the_same_with_and_without_a_barrier(seed: int) -> None:
    """Unequal messages between random pairs, which begin together: the third rung is the fourth."""
    rng = random.Random(seed)
    machine = random_machine(rng, most=8)
    n = machine.world_size
    pairs = {tuple(rng.sample(range(n), 2)) for _ in range(rng.randint(1, 3 * n))}
    rank = np.array(sorted(pairs))
    length = np.array([rng.randint(1, 9) for _ in pairs])
    slot = np.zeros(len(pairs), np.int64)
    phase = Phase(rank[:, 0], rank[:, 1], length, False, lambda _: (slot, slot))
    schedule = Schedule("random", "all_reduce", n, 9, (phase,))
    call = simulate("ring", machine, [9 * 2**16], dtype="uint8")[0].call
    steps = Steps(schedule, machine).predict([call], "")[0]
    assert Fluid(schedule, machine).predict(call, "").time_s == pytest.approx(steps.time_s, rel=1e-9)


@FEW
@given(SEEDS)
def test_no_message_begins_before_its_data_is_there(seed: int) -> None:
    """What a rank sends of a chunk has been written, and added, by all that came to it in earlier rounds."""
    rng = random.Random(seed)
    machine = with_caps(rng, random_machine(rng, most=8))
    n = machine.world_size
    chunks, transfers = random_transfers(rng, n)
    size = 2 ** rng.randint(4, 18)
    line = simulate(schedule_of(n, chunks, transfers), machine, [size], dtype="uint8", exact=True)[0].timeline
    assert line is not None
    rounds = sorted({each[0] for each in transfers})  # as the timeline counts them
    at = {
        (rounds[int(number)], int(source), int(target)): i
        for i, (number, source, target) in enumerate(zip(line.round, line.source, line.target, strict=True))
    }
    assert len(at) == len({each[:3] for each in transfers}) == len(line.start_s)
    for number, source, target, slot, _ in transfers:
        mine = at[number, source, target]
        for earlier, sender, receiver, written, _ in transfers:
            if earlier < number and (receiver, written) == (source, slot):
                assert line.start_s[mine] >= line.done_s[at[earlier, sender, receiver]] - 1e-15
    assert (line.done_s >= line.end_s).all()
    assert (line.end_s >= line.start_s).all()


@FEW
@given(SEEDS, st.booleans())
def test_on_a_machine_where_all_ranks_are_alike_their_names_do_not_matter(seed: int, exact: bool) -> None:
    rng = random.Random(seed)
    n = rng.randint(2, 9)
    # Without barriers a rank adds what arrives at the same moment in the order of ranks, which names may change.
    machine = star(n, latency_s=3e-6, costs=Costs(launch_s=1e-5, reduce_s_per_byte=0.0 if exact else 1e-11))
    chunks, transfers = random_transfers(rng, n)
    names = rng.sample(range(n), n)
    one, other = (schedule_of(n, chunks, each) for each in (transfers, relabelled(transfers, names)))
    assert seconds(one, machine, 2**20, exact) == pytest.approx(seconds(other, machine, 2**20, exact), rel=1e-9)


@FEW
@given(SEEDS)
def test_random_schedules_are_right_and_with_a_transfer_less_or_twice_they_are_refused(seed: int) -> None:
    rng = random.Random(seed)
    n = rng.randint(2, 9)
    chunks, transfers = random_transfers(rng, n)
    verify(schedule_of(n, chunks, transfers))
    lost = rng.randrange(len(transfers))
    machine = star(n)
    with pytest.raises(UsageError):
        simulate(schedule_of(n, chunks, transfers[:lost] + transfers[lost + 1 :]), machine, [1024])
    late = max(each[0] for each in transfers) + 1
    added = next(each for each in transfers if each[4])
    with pytest.raises(UsageError):
        simulate(schedule_of(n, chunks, [*transfers, (late, *added[1:])]), machine, [1024])
