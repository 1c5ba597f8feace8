"""Waiting apart from moving, with times worked by hand."""

from __future__ import annotations

import pytest

from busbw.core.call import Call
from busbw.core.trace import CallKind, ClockPoint, Group
from busbw.traces.waiting import compare_ranks

from .made import kind, trace


def test_a_collective_moves_data_once_the_last_rank_is_there() -> None:
    """Rank 1 comes 3 s late; both end at 5 s: rank 0 waited 3 s, and the call took 1 s."""
    found, notes = compare_ranks([trace(0, [(kind(), 1.0, 5.0)]), trace(1, [(kind(), 4.0, 5.0)])])
    assert notes == []
    assert (found[0][0].wait_s, found[0][0].seconds) == (3.0, 1.0)
    assert (found[1][0].wait_s, found[1][0].seconds) == (0.0, 1.0)


def test_a_call_queued_behind_another_begins_when_that_is_done() -> None:
    """Both were made at once; NCCL runs one at a time, so the second has only the last 2 s."""
    calls = [(kind(), 0.0, 3.0), (kind(size=2000), 0.5, 5.0)]
    found, _ = compare_ranks([trace(0, calls), trace(1, calls)])
    assert [found[0][number].seconds for number in (0, 1)] == [3.0, 2.0]


def test_gloo_runs_two_side_by_side() -> None:
    gloo = Group("world", (0, 1), "gloo")
    calls = [
        (kind(group=gloo), 0.0, 3.0),
        (kind(size=2000, group=gloo), 0.5, 5.0),
        (kind(size=3, group=gloo), 0.6, 6.0),
    ]
    found, _ = compare_ranks([trace(0, calls), trace(1, calls)])
    assert [found[0][number].seconds for number in (0, 1, 2)] == [3.0, 4.5, 3.0]


def test_a_broadcast_needs_its_root_alone() -> None:
    """The root, rank 1, is there at 1 s, rank 0 at 2 s and gone at 2.5 s: it waited for nobody."""
    calls = kind("broadcast", root=1)
    found, _ = compare_ranks([trace(0, [(calls, 2.0, 2.5)]), trace(1, [(calls, 1.0, 1.2)])])
    assert (found[0][0].wait_s, found[0][0].seconds) == (0.0, 0.5)
    assert found[1][0].wait_s == 0.0
    assert found[1][0].seconds == pytest.approx(0.2)


def test_clocks_of_two_hosts_are_brought_together() -> None:
    """Rank 1's clock is 100 s behind, and drifts by 2 s within 10 s: at 5 s it is 101 s behind."""
    clock = (ClockPoint(0.0, 100.0, 0.0), ClockPoint(10.0, 102.0, 0.0))
    here = trace(0, [(kind(), 104.0, 107.0)], clock=())
    there = trace(1, [(kind(), 5.0, 6.0)], facts={"boot_id": "two"}, clock=clock)
    found, notes = compare_ranks([here, there])
    assert notes == []
    assert found[0][0].wait_s == pytest.approx(2.0)
    assert found[0][0].seconds == pytest.approx(1.0)
    assert found[1][0].seconds == pytest.approx(6.0 + 101.2 - 106.0)


def test_without_aligned_clocks_or_all_ranks_the_wait_is_not_told_apart() -> None:
    stranger = trace(1, [(kind(), 4.0, 5.0)], facts={"boot_id": "two"})
    found, notes = compare_ranks([trace(0, [(kind(), 1.0, 5.0)]), stranger])
    assert notes == ["group of ranks 0,1: its clocks were not aligned, so waiting is part of its times"]
    assert (found[0][0].wait_s, found[0][0].seconds) == (None, 4.0)
    found, notes = compare_ranks([trace(0, [(kind(), 1.0, 5.0)])])
    assert notes == ["group of ranks 0,1: no trace of rank 1, so waiting is part of its times"]
    assert found[0][0].wait_s is None


def test_ranks_that_disagree_are_left_alone_from_there_on() -> None:
    one = trace(0, [(kind(), 1.0, 5.0), (kind("all_gather"), 6.0, 7.0)])
    other = trace(1, [(kind(), 4.0, 5.0), (kind(), 6.5, 7.0)])
    found, notes = compare_ranks([one, other])
    assert "call 1 differs (rank 0 all_gather_, rank 1 all_reduce_)" in notes[0]
    assert found[0][0].wait_s == 3.0
    assert found[0][1].wait_s is None


def test_a_receiver_waits_for_the_sender() -> None:
    world = Group("world", (0, 1), "gloo")
    call = Call("send_recv_one_way", 8, 2, "float32")
    send = CallKind("send", call, world, 8, notes={"peer": "1"})
    receive = CallKind("recv_", call, world, 0, notes={"peer": "0"})
    found, _ = compare_ranks([trace(0, [(send, 3.0, 3.5)]), trace(1, [(receive, 1.0, 4.0)])])
    assert (found[1][0].wait_s, found[1][0].seconds) == (2.0, 1.0)
    assert (found[0][0].wait_s, found[0][0].seconds) == (None, 0.5)
