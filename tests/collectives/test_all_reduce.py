from __future__ import annotations

from busbw.collectives.all_reduce import COLLECTIVE


def test_everyone_ends_with_the_sum(run) -> None:
    assert run("all_reduce", [[1, 2], [10, 20], [100, 200]], count=2) == [[111, 222]] * 3


def test_a_tensor_that_n_does_not_divide_is_cut_unevenly() -> None:
    """10 elements over 4 ranks: shards of 2, 3, 2 and 3. A rank sends 20 less two neighbouring shards, 5 together."""
    assert [COLLECTIVE.sent_bytes(10, 4, rank) for rank in range(4)] == [15, 15, 15, 15]


def test_one_byte_travels_the_ring_twice() -> None:
    """Shards of 0, 0, 0 and 1: it goes 3-0-1-2 while it is summed (ending on rank 2), then 2-3-0-1."""
    assert [COLLECTIVE.sent_bytes(1, 4, rank) for rank in range(4)] == [2, 1, 1, 2]
    assert [COLLECTIVE.received_bytes(1, 4, rank) for rank in range(4)] == [2, 2, 1, 1]
