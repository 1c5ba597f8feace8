from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.core.schedule import ALGORITHMS, NETWORK, Algorithm, Round, Schedule
from busbw.core.sketch import Sketch, phase_of
from busbw.core.verify import MOST_WORK, input_span, output_span, verify, work
from busbw.errors import UsageError


def two(collective: str, write: Callable[[Sketch], None], **kinds: int) -> Schedule:
    """A sketch for two ranks and two chunks."""
    sketch = Sketch(collective, 2, 2, **kinds)
    write(sketch)
    return sketch.schedule("mine")


def exchange(sketch: Sketch) -> None:
    """The right all-reduce of two ranks: each adds one chunk, then copies it back."""
    sketch.round("add")
    sketch.add(0, 1, 1)
    sketch.add(1, 0, 0)
    sketch.round("copy")
    sketch.copy(0, 1, 0)
    sketch.copy(1, 0, 1)


def test_the_right_one_passes() -> None:
    verify(two("all_reduce", exchange))


def wrong(sketch: Sketch, what: str) -> None:
    sketch.round("first")
    {
        "rank": lambda: sketch.add(0, 2, 0),
        "slot": lambda: sketch.add(0, 1, 2),
        "run": lambda: sketch.copy(0, 1, 1, length=2),
        "nothing": lambda: sketch.copy(0, 1, 0, length=0),
        "chunk": lambda: sketch.add(0, 1, 0, to=1),
        "clash": lambda: (sketch.copy(0, 1, 0), sketch.copy(1, 1, 1, to=0)),
        "twice": lambda: (sketch.add(0, 1, 0), sketch.round("second"), sketch.add(0, 1, 0)),
        "network": lambda: sketch.copy(NETWORK, NETWORK, 0),
        "unfinished": lambda: sketch.add(0, 1, 0),
    }[what]()


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("rank", "round 1 (first): rank 2 is not one of 0 to 1"),
        ("slot", "round 1 (first): rank 0 to rank 1: slots 2 to 2 of rank 0, which has 0 to 1"),
        ("run", "round 1 (first): rank 0 to rank 1: slots 1 to 2 of rank 0, which has 0 to 1"),
        ("nothing", "round 1 (first): rank 0 to rank 1: 0 slots: 1 or more"),
        ("chunk", "round 1 (first): rank 0 adds chunk 0 of the input to slot 1 of rank 1, which holds chunk 1"),
        ("clash", "round 1 (first): rank 0 and rank 1 both write slot 0 of rank 1; only additions may meet"),
        ("twice", "round 2 (second): rank 0 adds the contribution of rank 0 to slot 0 of rank 1, which has it already"),
        ("network", "round 1 (first): the network sends to itself"),
        (
            "unfinished",
            "round 1 (the end): slot 0 of rank 0 holds chunk 0 of rank 0, and must hold chunk 0 of rank 0-1",
        ),
    ],
)
def test_what_is_wrong_is_named_with_round_ranks_and_slot(what: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        verify(two("all_reduce", lambda sketch: wrong(sketch, what)))
    assert str(error.value) == f"schedule mine, all_reduce on 2 ranks: {message}"


def test_reading_and_adding_to_what_holds_nothing() -> None:
    def early(sketch: Sketch) -> None:
        sketch.round()
        sketch.copy(1, 0, 0)

    with pytest.raises(UsageError, match="round 1: rank 1 sends slot 0 to rank 0, and it holds nothing"):
        verify(two("broadcast", early))

    def add(sketch: Sketch) -> None:
        sketch.round()
        sketch.add(0, 1, 0)

    with pytest.raises(UsageError, match="round 1: rank 0 adds to slot 0 of rank 1, which holds nothing"):
        verify(two("broadcast", add))

    def half(sketch: Sketch) -> None:
        sketch.round()
        sketch.copy(0, 1, 0)

    with pytest.raises(UsageError, match=r"round 1 \(the end\): rank 1 has nothing in slot 1"):
        verify(two("broadcast", half))


def test_a_round_reads_what_was_there_before_it() -> None:
    def swap(sketch: Sketch) -> None:
        sketch.round()
        sketch.add(0, 1, 0, length=2)
        sketch.add(1, 0, 0, length=2)

    verify(two("all_reduce", swap))


def test_chunks_and_slots_must_suit_the_collective() -> None:
    with pytest.raises(UsageError, match="3 chunks: all_gather needs 1 or more, a multiple of the 2 ranks"):
        verify(Schedule("mine", "all_gather", 2, 3, ()))
    with pytest.raises(UsageError, match="3 slots: all_to_all needs 2 a chunk"):
        verify(Schedule("mine", "all_to_all", 2, 2, (), slots=3))
    with pytest.raises(UsageError, match="send_recv has no layout of slots, so no schedule"):
        verify(Schedule("mine", "send_recv", 2, 2, ()))


def test_channels_must_be_parts_of_one_whole() -> None:
    right = two("all_reduce", exchange)
    verify(Schedule("mine", "all_reduce", 2, 2, (), parts=((0.5, right), (0.5, right))))
    with pytest.raises(UsageError, match=r"the shares of 2 channels add up to 0\.9"):
        verify(Schedule("mine", "all_reduce", 2, 2, (), parts=((0.5, right), (0.4, right))))
    with pytest.raises(UsageError, match="a channel must be one schedule of the same collective"):
        verify(Schedule("mine", "reduce", 2, 2, (), parts=((1.0, right),)))


def test_a_phase_that_claims_other_bytes_than_it_sends() -> None:
    right = two("all_reduce", exchange)
    first = right.phases[0]
    claims = type(first)(
        first.source, first.target, first.length * 2, True, first.slots, detail=lambda step: first.round(step)
    )
    with pytest.raises(UsageError, match=r"rank 0 has sent 1 S, and sent_share\(\) says 1\.5 S"):
        verify(Schedule("mine", "all_reduce", 2, 2, (claims, *right.phases[1:])))


def test_inputs_and_outputs_lie_where_the_collective_says() -> None:
    gather = ALGORITHMS.get("ring").build("all_gather", 4)
    assert (input_span(gather, 2).start, input_span(gather, 2).length) == (2, 1)
    assert (output_span(gather, 2).start, output_span(gather, 2).length) == (0, 4)
    exchange_all = ALGORITHMS.get("pairwise").build("all_to_all", 4)
    assert (output_span(exchange_all, 1).start, output_span(exchange_all, 1).length) == (4, 4)


def test_large_schedules_are_left_to_the_user() -> None:
    assert work(ALGORITHMS.get("ring").builders["all_reduce"](64)) == 2 * 63 * 64
    assert work(ALGORITHMS.get("ring").builders["all_reduce"](4096)) > MOST_WORK


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_single_change_of_a_right_schedule_passes_unless_it_is_right_too(data: st.DataObject) -> None:
    """Drop, double or turn one transfer: verify must agree with the sums that really come out."""
    name = data.draw(st.sampled_from(["ring", "recursive_doubling", "bruck", "direct", "double_binary_tree"]))
    n = data.draw(st.integers(2, 5))
    schedule = ALGORITHMS.get(name).build("all_reduce", n)
    rounds = list(schedule.rounds())
    index = data.draw(st.integers(0, len(rounds) - 1))
    k = data.draw(st.integers(0, len(rounds[index].source) - 1))
    change = data.draw(st.sampled_from(["drop", "slot", "kind", "source"]))
    rounds[index] = _changed(rounds[index], k, change, schedule.chunks, n)
    changed = Schedule("changed", "all_reduce", n, schedule.chunks, tuple(phase_of(round_) for round_ in rounds))
    try:
        verify(changed)
    except UsageError:
        return
    assert _sums(changed, rounds) == [[(1 << (8 * n)) // 255] * schedule.chunks] * n


def _changed(round_: Round, k: int, change: str, chunks: int, n: int) -> Round:
    if change == "drop":
        return round_.where(np.arange(len(round_.source)) != k)
    columns = {name: getattr(round_, name).copy() for name in Round.__slots__}
    if change == "slot":
        columns["source_slot"][k] = (columns["source_slot"][k] + 1) % chunks
    elif change == "kind":
        columns["reduces"][k] = not columns["reduces"][k]
    else:
        columns["source"][k] = (columns["source"][k] + 1) % n
    return Round(**columns)


def _sums(schedule: Schedule, rounds: list[Round]) -> list[list[int]]:
    """Every rank's slots when rank r starts with 256^r everywhere: each contribution shows as one digit."""
    held = [[256**rank] * schedule.chunks for rank in range(schedule.world_size)]
    for round_ in rounds:
        before = [list(slots) for slots in held]
        columns = zip(*(getattr(round_, name).tolist() for name in Round.__slots__), strict=True)
        for source, target, source_slot, target_slot, length, reduces in columns:
            for step in range(length):
                value = before[source][source_slot + step]
                held[target][target_slot + step] = (held[target][target_slot + step] if reduces else 0) + value
    return held


def test_another_algorithm_of_the_same_name_is_verified_too() -> None:
    def star(ranks: range) -> Algorithm:
        def build(world_size: int, *, root: int = 0) -> Schedule:
            sketch = Sketch("broadcast", world_size, 1)
            sketch.round()
            for rank in ranks:
                sketch.copy(0, rank, 0)
            return sketch.schedule("star")

        return Algorithm("star", "the root sends to all", "", {"broadcast": build})

    star(range(1, 4)).build("broadcast", 4)
    with pytest.raises(UsageError, match="rank 3 has nothing"):
        star(range(1, 3)).build("broadcast", 4)
