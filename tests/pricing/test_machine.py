"""Calls priced on a machine: closed forms, where the ranks sit, what stands in for what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.core.bill import Line
from busbw.core.call import Call
from busbw.errors import UsageError
from busbw.pricing import price
from busbw.pricing.machine import OnMachine
from busbw.pricing.profile import ByLink, of_group, price_of, read_profile
from busbw.sim import default_algorithm, simulate
from busbw.topologies import read_topology
from busbw.traces.judging import judge

S, B, HOP = 4_000_000, 20e9, 3e-6
"""Bytes, bytes a second, and what a message through the switch waits."""


@pytest.fixture(scope="module")
def switch() -> OnMachine:
    machine = read_topology("switch(gpus=8, bandwidth=20GB/s, latency=3us)")
    return OnMachine(machine.changed(costs=replace(machine.costs, launch_s=8e-6)))


def line(call: Call, ranks: tuple[int, ...], **notes: str) -> Line:
    return Line(call, "dp", 1, "backward", "x", 0, False, None, ranks, notes)


@pytest.mark.parametrize(
    ("call", "latency_s", "bandwidth_s"),
    [
        (Call("all_reduce", S, 4, "float32", "sum"), 6 * HOP, 1.5 * S / B),
        (Call("all_gather", S, 4, "float32"), 3 * HOP, 0.75 * S / B),
        (Call("reduce_scatter", S, 8, "float32", "sum"), 7 * HOP, 0.875 * S / B),
        (Call("send_recv_one_way", S, 2, "float32"), HOP, S / B),
        (Call("send_recv", S, 2, "float32"), HOP, S / B),
        (Call("all_to_all_v", S, 4, "float32"), HOP, 0.75 * S / B),
    ],
)
def test_a_switch_by_hand(switch: OnMachine, call: Call, latency_s: float, bandwidth_s: float) -> None:
    found = switch.estimate(call)
    assert found.latency_s == pytest.approx(8e-6 + latency_s, rel=1e-6)
    assert found.bandwidth_s == pytest.approx(bandwidth_s, rel=1e-6)
    assert found.low == found.seconds == found.high == pytest.approx(found.latency_s + found.bandwidth_s)


def test_alone_empty_and_barriers(switch: OnMachine) -> None:
    assert switch.estimate(Call("all_reduce", S, 1, "float32", "sum")).seconds == 0
    barrier = switch.estimate(Call("barrier", 0, 8))
    assert barrier.seconds == pytest.approx(8e-6 + 14 * HOP, rel=1e-4)
    assert barrier.extrapolates == ("barrier: priced as the smallest all_reduce",)
    assert switch.estimate(Call("all_gather", 0, 8, "float32")).seconds == pytest.approx(8e-6 + 7 * HOP, rel=1e-4)


def test_a_group_across_hosts_pays_the_network() -> None:
    profile, words, _ = read_profile("cluster(hosts=2, host=dgx-h100)")
    assert isinstance(profile, OnMachine)
    assert words.startswith("simulated on cluster(hosts=2, host=dgx-h100) (speeds of its links: ")
    call = Call("all_gather", 64_000_000, 2, "bfloat16")
    inside, across = price_of(profile, line(call, (0, 1))), price_of(profile, line(call, (0, 8)))
    assert inside == profile.estimate(call)
    # Half of S over one NIC of 400 Gb/s against half over NVLink's 450 GB/s.
    assert across.bandwidth_s == pytest.approx(32e6 / 50e9, rel=1e-6)
    assert inside.bandwidth_s == pytest.approx(32e6 / 450e9, rel=1e-6)
    assert of_group(profile, (0, 8)).estimate(call) == across
    assert judge([line(call, (0, 8))], profile)[0].expected == across
    message = Call("send_recv_one_way", 64_000_000, 2, "bfloat16")
    sent = price_of(profile, line(message, (0, 4, 8, 12), peer="8", own="4", way="send"))
    assert sent.bandwidth_s == pytest.approx(64e6 / 50e9, rel=1e-3)
    assert price_of(profile, line(message, (0, 4), peer="any")) == profile.estimate(message)


def test_links_told_apart_hand_ranks_on(switch: OnMachine) -> None:
    network = read_profile("alpha=1us,bandwidth=1GB/s")[0]
    both = ByLink(switch, network, 4)
    call = Call("all_gather", S, 2, "float32")
    assert price_of(both, line(call, (2, 3))) == switch.estimate(call)
    assert price_of(both, line(call, (0, 4))) == network.estimate(call)
    assert both.of_group((0, 4)).estimate(call) == network.estimate(call)
    assert both.of_group((2, 3)).estimate(call) == switch.estimate(call)


def test_a_machine_that_is_too_small_says_so(switch: OnMachine) -> None:
    with pytest.raises(UsageError, match="it has 8 GPUs, and the call is on rank 8; describe a machine"):
        switch.of_line(line(Call("all_gather", S, 2, "float32"), (0, 8)))


def test_each_call_is_simulated_once(switch: OnMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    bills = price("gpt2", "fsdp2", 8, switch)
    assert bills.steady.totals().seconds > 0

    def again(*words: object, **more: object) -> None:
        raise AssertionError("simulated again")

    monkeypatch.setattr("busbw.sim.simulate", again)
    assert price("gpt2", "fsdp2", 8, switch).steady == bills.steady


def test_a_long_pipeline_is_a_line_through_two_sizes() -> None:
    machine = read_topology("switch(gpus=200, bandwidth=20GB/s, latency=3us)")
    call = Call("broadcast", 2**23, 200, "float32", root=0)
    found = OnMachine(machine).estimate(call)
    (simulated,) = simulate(default_algorithm("broadcast", 200, machine), machine, [2**23], "broadcast")
    assert found.seconds == pytest.approx(simulated.time_s, rel=5e-3)
    assert found.extrapolates == ("broadcast on 200 ranks: a straight line through two simulated sizes",)
