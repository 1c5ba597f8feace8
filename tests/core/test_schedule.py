from __future__ import annotations

import numpy as np
import pytest

from busbw.core.schedule import ALGORITHMS, NETWORK, Algorithm, Phase, Round, Schedule
from busbw.errors import UsageError


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def pipeline() -> Phase:
    """0 -> 1 -> 2, three chunks: step 0 only the first link, steps 1 and 2 both, step 3 only the second."""
    begin = ints(0, 1)
    return Phase(
        ints(0, 1),
        ints(1, 2),
        ints(1, 1),
        False,
        lambda step: (step - begin, step - begin),
        4,
        "down",
        begin,
        begin + 3,
    )


def test_a_pipeline_fills_and_drains() -> None:
    phase = pipeline()
    assert [phase.round(step).source.tolist() for step in range(4)] == [[0], [0, 1], [0, 1], [1]]
    assert [phase.round(step).source_slot.tolist() for step in range(4)] == [[0], [1, 0], [2, 1], [2]]
    assert phase.repeats.tolist() == [3, 3]


def test_bytes_sent_count_only_the_steps_in_which_a_transfer_happens() -> None:
    schedule = Schedule("x", "broadcast", 3, 3, (pipeline(),))
    assert schedule.sent_share().tolist() == [1.0, 1.0, 0.0]
    assert schedule.round_count == 4


def test_what_the_network_sends_and_a_rank_keeps_is_not_sent_by_a_rank() -> None:
    slots = (ints(0, 0, 0), ints(0, 0, 0))
    phase = Phase(ints(0, NETWORK, 1), ints(NETWORK, 1, 1), ints(1, 1, 1), False, lambda step: slots)
    assert Schedule("x", "broadcast", 2, 2, (phase,)).sent_share().tolist() == [0.5, 0.0]


def test_a_phase_may_add_some_and_copy_others() -> None:
    slots = (ints(0, 0), ints(0, 0))
    phase = Phase(ints(0, 1), ints(1, 2), ints(1, 1), np.array([True, False]), lambda step: slots)
    assert phase.round(0).reduces.tolist() == [True, False]


def test_channels_add_up_and_have_rounds_of_their_own() -> None:
    part = Schedule("x", "broadcast", 3, 3, (pipeline(),))
    both = Schedule("x", "broadcast", 3, 3, (), parts=((0.25, part), (0.75, part)))
    assert both.sent_share().tolist() == [1.0, 1.0, 0.0]
    assert both.round_count == 4
    with pytest.raises(UsageError, match="a schedule of 2 channels has rounds in each of its parts"):
        list(both.rounds())


def test_detail_stands_for_slots_that_do_not_lie_in_a_row() -> None:
    round_ = Round(ints(0, 0), ints(1, 1), ints(0, 2), ints(0, 2), ints(1, 1), np.zeros(2, np.bool_))
    phase = Phase(ints(0), ints(1), ints(2), False, lambda step: (ints(), ints()), detail=lambda step: round_)
    assert phase.round(0) is round_
    assert Schedule("x", "broadcast", 2, 4, (phase,)).sent_share().tolist() == [0.5, 0.0]


def test_the_pairwise_pattern_says_that_it_meets_every_pair() -> None:
    (phase,) = ALGORITHMS.get("pairwise").build("all_to_all", 5).phases
    assert phase.all_pairs
    pairs = {
        (s, t)
        for step in range(phase.times)
        for s, t in zip(phase.round(step).source.tolist(), phase.round(step).target.tolist(), strict=True)
    }
    assert len(pairs - {(r, r) for r in range(5)}) == 20


def test_build_says_what_it_cannot_do() -> None:
    ring = ALGORITHMS.get("ring")
    for arguments, message in (
        (
            {"collective": "all_to_all", "world_size": 4},
            "algorithm ring has no all_to_all: it does all_gather, all_reduce",
        ),
        ({"collective": "all_reduce", "world_size": 1}, "needs 2 ranks or more, not 1"),
        ({"collective": "broadcast", "world_size": 4, "root": 4}, "root 4 is not one of the ranks 0 to 3"),
        ({"collective": "all_reduce", "world_size": 4, "size": 3}, r"ring has no option 'size' \(order, chunks\)"),
        ({"collective": "nonsense", "world_size": 4}, "unknown collective 'nonsense'"),
    ):
        with pytest.raises(UsageError, match=message):
            ring.build(**arguments)  # type: ignore[arg-type]


def test_a_wrong_builder_is_caught_when_it_builds() -> None:
    def forgets(world_size: int, *, root: int = 0) -> Schedule:
        right = ALGORITHMS.get("ring").build("all_reduce", world_size)
        return Schedule("forgets", "all_reduce", world_size, world_size, right.phases[:1])

    broken = Algorithm("forgets", "", "", {"all_reduce": forgets})
    with pytest.raises(UsageError, match=r"the end\): slot 0 of rank 0 holds chunk 0 of rank 0-3|slot"):
        broken.build("all_reduce", 4)
