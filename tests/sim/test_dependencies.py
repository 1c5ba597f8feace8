"""Messages of a schedule: who waits for whom, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from busbw.algorithms.spec import parse_algorithm
from busbw.errors import UsageError
from busbw.sim.dependencies import find_messages, message_count


def waits(table: tuple[np.ndarray, np.ndarray], message: int) -> list[int]:
    offsets, others = table
    return sorted(others[offsets[message] : offsets[message + 1]].tolist())


def test_in_a_ring_each_message_waits_for_the_one_before_it_around() -> None:
    """3 ranks, 4 steps: message 3 t + r goes from r to r + 1 in step t, with what r - 1 sent it in step t - 1."""
    found = find_messages(parse_algorithm("ring").build("all_reduce", 3))
    assert found.source.tolist() == [0, 1, 2] * 4
    assert found.target.tolist() == [1, 2, 0] * 4
    assert found.share.tolist() == pytest.approx([1 / 3] * 12)
    assert found.added.tolist() == pytest.approx([1 / 3] * 6 + [0] * 6)
    assert waits(found.start_after, 0) == []
    assert [waits(found.start_after, 3 * t + r) for t in (1, 2, 3) for r in range(3)] == [
        [3 * (t - 1) + (r - 1) % 3] for t in (1, 2, 3) for r in range(3)
    ]
    assert found.turns.waits().tolist() == [0] * 3 + [2] * 9  # its rank's send, and its target's receive, before


def test_additions_into_one_slot_follow_each_other() -> None:
    found = find_messages(parse_algorithm("direct").build("reduce", 4))
    assert found.target.tolist() == [0, 0, 0]
    assert [waits(found.end_after, k) for k in range(3)] == [[], [0], [1]]


def test_pieces_follow_each_other_and_only_the_same_piece_is_waited_for() -> None:
    found = find_messages(parse_algorithm("ring").build("all_gather", 3), pieces=2)
    assert len(found.source) == 12
    assert found.share.sum() == pytest.approx(2.0)
    # Round 1, piece 0 (messages 6 to 8) waits for round 0, piece 0 (0 to 2); piece 1 (9 to 11) for 3 to 5.
    assert [waits(found.start_after, k) for k in range(6, 12)] == [[2], [0], [1], [5], [3], [4]]
    assert found.round.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3


@pytest.mark.parametrize(
    ("name", "op", "n", "count"),
    [("ring", "all_reduce", 8, 112), ("pairwise", "all_to_all", 5, 20), ("tree", "all_reduce", 8, 14)],
)
def test_messages_are_counted_without_listing_them(name: str, op: str, n: int, count: int) -> None:
    schedule = parse_algorithm(name).build(op, n)
    assert message_count(schedule) == count
    assert len(find_messages(schedule).source) == count


def test_too_many_are_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"ring of N=4096: 33546240 messages are too many .* leave --exact away"):
        find_messages(parse_algorithm("ring").build("all_reduce", 4096))
