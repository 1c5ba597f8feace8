from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from busbw.core.schedule import Phase, Schedule
from busbw.draw.replay import Move, replay
from busbw.errors import UsageError

Build = Callable[..., Schedule]


def test_a_ring_of_two_by_hand(build: Build) -> None:
    """Step 1: rank 0 sends chunk 1 and rank 1 chunk 0, both are added; step 2: the sums go back."""
    play = replay(build("ring", "all_reduce", 2))
    assert [step.moves for step in play.steps] == [
        (Move(0, 1, 1, 1, 1, True), Move(1, 0, 0, 0, 1, True)),
        (Move(0, 1, 0, 0, 1, False), Move(1, 0, 1, 1, 1, False)),
    ]
    both = [frozenset({(0, slot), (1, slot)}) for slot in (0, 1)]
    assert play.states[1] == {
        (0, 0): both[0], (0, 1): frozenset({(0, 1)}), (1, 0): frozenset({(1, 0)}), (1, 1): both[1]
    }  # fmt: skip
    assert play.states[2] == {(rank, slot): both[slot] for rank in (0, 1) for slot in (0, 1)} == play.wanted


def test_how_full_a_slot_is(build: Build) -> None:
    play = replay(build("ring", "all_reduce", 4))
    assert play.level(play.states[0][(0, 0)]) == 0.25
    # Chunk 3 starts on rank 0, and has two of four contributions on rank 1 after step 1, all four on rank 3 after step 3.
    assert play.states[1][(1, 3)] == frozenset({(0, 3), (1, 3)})
    assert play.level(play.states[1][(1, 3)]) == 0.5
    assert play.is_sum(play.states[3][(3, 3)])
    assert play.is_final((3, 3), play.states[3][(3, 3)])
    assert not play.is_final((1, 3), play.states[1][(1, 3)])


def test_what_is_left_over(build: Build) -> None:
    """In the ring's first half a rank's partial sum is not read again once it has been sent on."""
    play = replay(build("ring", "reduce_scatter", 4))
    assert (0, 3) in play.live[0]
    assert (0, 3) not in play.live[1]
    assert all((rank, rank) in play.live[-1] for rank in range(4))
    assert len(play.live[-1]) == 4


def test_a_copy_is_full_at_once(build: Build) -> None:
    play = replay(build("ring", "all_gather", 3))
    assert play.level(play.states[0][(1, 1)]) == 1.0
    assert not play.is_sum(play.states[0][(1, 1)])
    assert play.states[1][(2, 1)] == frozenset({(1, 1)})


def test_the_network_is_one_more_place(build: Build) -> None:
    play = replay(build("nvls(chunks=1,shots=1)", "all_reduce", 3))
    assert play.has_network
    assert play.states[1][(3, 0)] == frozenset({(0, 0), (1, 0), (2, 0)})
    assert play.states[2][(0, 0)] == play.states[1][(3, 0)]


def test_channels_stand_side_by_side(build: Build) -> None:
    play = replay(build("multi_ring", "all_reduce", 4))
    assert play.chunks == (4, 4)
    assert play.slots == 8
    assert len(play.steps) == 6
    sources = {(move.source, move.target) for move in play.steps[0].moves}
    assert len(sources) == 8  # each rank sends to both neighbours in one step


def test_a_schedule_that_does_not_end_well_is_refused() -> None:
    ones = np.ones(2, np.int64)
    ranks = np.arange(2)
    phase = Phase(ranks, ranks[::-1].copy(), ones, True, lambda step: (ranks, ranks))
    with pytest.raises(
        UsageError, match="wrong all_reduce on 2 ranks does not end as it should: slot 0 of rank 0 holds 1 of 2"
    ):
        replay(Schedule("wrong", "all_reduce", 2, 2, (phase,)))
