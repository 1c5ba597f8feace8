"""A schedule as ranks carry it out: the right sums on data that tells every element apart, wherever buffers lie."""

from __future__ import annotations

import numpy as np
import pytest

from busbw.bench.check import Expected
from busbw.bench.point_to_point import modelled_s, run_together
from busbw.bench.script import RECV, SEND, STAGE, Addition, Copy, Message, Part, suitable_count, write_script
from busbw.core.collective import COLLECTIVES, Place
from busbw.core.schedule import ALGORITHMS, Schedule
from busbw.core.sketch import Sketch
from busbw.errors import UsageError

PAIRS = [
    (algorithm.name, collective)
    for algorithm in ALGORITHMS
    for collective in algorithm.builders
    if algorithm.name != "nvls"
]


def wrong_elements(schedule: Schedule, size: int, in_place: bool, redop: str = "sum") -> int:
    """Elements that are not what the collective promises, on all ranks together."""
    kind, n = COLLECTIVES.get(schedule.collective), schedule.world_size
    count = suitable_count(schedule, kind.whole_count(size, 1, n))
    places = [Place(count, n, rank, schedule.root) for rank in range(n)]
    expected = [Expected(kind, place, "int64", redop if kind.reduces else None, seed=5) for place in places]
    inputs = [
        np.resize(each.input(), kind.send_count(place)) if kind.send_count(place) else None
        for each, place in zip(expected, places, strict=True)
    ]
    kept = [None if data is None else data.copy() for data in inputs]
    outputs = run_together(schedule, count, schedule.root, inputs, redop, in_place)
    for before, after in zip(kept, inputs, strict=True):
        assert before is None or np.array_equal(before, after)
    return sum(
        each.wrong(output, lambda part: part)
        for each, output in zip(expected, outputs, strict=True)
        if output is not None
    )


@pytest.mark.parametrize(("name", "collective"), PAIRS)
def test_every_algorithm_moves_the_right_data(name: str, collective: str) -> None:
    kind = COLLECTIVES.get(collective)
    for n in (2, 4, 5):
        for in_place in (False,) if kind.in_place_offset is None else (False, True):
            for size in (3, 1001):  # fewer elements than chunks, and a number that no N divides
                schedule = ALGORITHMS.get(name).build(collective, n, root=n - 1 if kind.rooted else 0)
                assert wrong_elements(schedule, size, in_place) == 0


@pytest.mark.parametrize("redop", ["prod", "min", "max"])
def test_other_reductions(redop: str) -> None:
    assert wrong_elements(ALGORITHMS.get("ring").build("all_reduce", 3), 100, False, redop) == 0


def test_a_ring_step_sends_from_where_the_data_lies_and_adds_into_the_output() -> None:
    """Rank 0 of two, out of place: nothing is copied first, chunk 1 goes out of the input, chunk 0 is added up."""
    script = write_script(ALGORITHMS.get("ring").build("all_reduce", 2), Place(10, 2, 0), in_place=False)
    add, gather = script.steps
    assert add.sends == (Message(1, Part(SEND, 5, 5)),)
    assert add.receives == (Message(1, Part(STAGE, 0, 5)),)
    assert add.after == (Addition(Part(RECV, 0, 5), Part(SEND, 0, 5), Part(STAGE, 0, 5)),)
    assert gather.sends == (Message(1, Part(RECV, 0, 5)),)
    assert gather.receives == (Message(1, Part(RECV, 5, 5)),)
    assert gather.after == ()
    assert (script.scratch_count, script.stage_count) == (0, 5)


def test_in_place_the_sum_lies_where_the_input_did() -> None:
    script = write_script(ALGORITHMS.get("ring").build("all_reduce", 2), Place(10, 2, 0), in_place=True)
    assert script.steps[0].after == (Addition(Part(RECV, 0, 5), Part(RECV, 0, 5), Part(STAGE, 0, 5)),)


def test_what_stays_in_the_input_is_copied_at_the_end() -> None:
    script = write_script(ALGORITHMS.get("tree").build("broadcast", 2), Place(6, 2, 0), in_place=False)
    assert script.steps[-1].after == (Copy(Part(RECV, 0, 6), Part(SEND, 0, 6)),)
    assert script.steps[0].sends == (Message(1, Part(SEND, 0, 6)),)


def test_a_chunk_that_is_sent_and_overwritten_in_one_round_is_received_aside() -> None:
    sketch = Sketch("all_gather", 2, 2)
    sketch.round()
    sketch.copy(0, 1, 0)
    sketch.copy(1, 0, 1)
    sketch.round("both swap their two chunks")
    for rank in (0, 1):
        sketch.copy(rank, 1 - rank, 0)
        sketch.copy(rank, 1 - rank, 1)
    schedule = sketch.schedule()
    script = write_script(schedule, Place(8, 2, 0), in_place=True)
    assert [message.part.buffer for message in script.steps[1].receives] == [STAGE, STAGE]
    assert wrong_elements(schedule, 8, True) == 0


def test_more_than_two_transfers_of_a_pair_in_a_round_are_one_message() -> None:
    """Bruck's all-to-all on 8 ranks: 4 blocks to one partner in each round."""
    script = write_script(ALGORITHMS.get("bruck").build("all_to_all", 8), Place(16, 8, 0), in_place=False)
    assert [len(step.sends) for step in script.steps] == [1, 1, 1]
    assert [step.sends[0].part.length for step in script.steps] == [8, 8, 8]


def test_slots_that_move_need_chunks_of_one_size() -> None:
    pairwise, ring = (ALGORITHMS.get(name) for name in ("bruck", "ring"))
    assert suitable_count(ring.build("all_reduce", 3), 100) == 100
    assert suitable_count(pairwise.build("all_to_all", 3), 99) == 99
    sketch = Sketch("all_reduce", 2, 7, slots=14)
    sketch.round()
    sketch.copy(0, 1, 0, to=7, length=7)
    sketch.copy(1, 0, 0, to=7, length=7)
    sketch.round()
    sketch.add(0, 0, 7, to=0, length=7)
    sketch.add(1, 1, 7, to=0, length=7)
    schedule = sketch.schedule()
    assert suitable_count(schedule, 100) == 98
    assert suitable_count(schedule, 3) == 7
    with pytest.raises(
        UsageError, match="round 1: slot 3 goes to slot 10, and 100 elements make them of different size"
    ):
        write_script(schedule, Place(100, 2, 0), in_place=False)
    assert wrong_elements(schedule, 100, False) == 0
    assert wrong_elements(schedule, 100, True) == 0


def test_channels_of_unlike_shares_cut_each_shard() -> None:
    part = ALGORITHMS.get("ring").build("all_gather", 3)
    schedule = Schedule("uneven", "all_gather", 3, 3, (), parts=((0.3, part), (0.7, part)))
    assert wrong_elements(schedule, 60, False) == 0
    script = write_script(schedule, Place(60, 3, 0), in_place=True)
    # Shard 0 is elements 0-19, of which channel 0 has 6; both channels send to rank 1.
    assert [message.part for message in script.steps[0].sends] == [Part(RECV, 0, 6), Part(RECV, 6, 14)]


def test_the_switch_cannot_be_run_by_ranks() -> None:
    with pytest.raises(UsageError, match="nvls: it reduces inside the switch, which point-to-point calls cannot do"):
        write_script(ALGORITHMS.get("nvls").build("all_reduce", 2), Place(8, 2, 0), in_place=False)


def test_the_modelled_time_of_a_ring_is_the_closed_form() -> None:
    """2(N-1) (S/(N B) + alpha) at N=4: 6 (1 MB / 4 / 1 GB/s + 10 us) = 1560 us."""
    assert modelled_s(ALGORITHMS.get("ring").build("all_reduce", 4), 1_000_000, 10e-6, 1e9) == pytest.approx(1560e-6)
    assert modelled_s(ALGORITHMS.get("multi_ring").build("all_reduce", 4), 1_000_000, 10e-6, 1e9) == pytest.approx(
        1560e-6
    )
    # The centre sends 3 S in one round; the others send S to it at once.
    assert modelled_s(ALGORITHMS.get("centralised").build("all_reduce", 4), 1_000_000, 10e-6, 1e9) == pytest.approx(
        4020e-6
    )
