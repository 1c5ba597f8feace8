from __future__ import annotations

from busbw.collectives.reduce import COLLECTIVE


def test_the_root_ends_with_the_sum_and_the_others_with_nothing(run) -> None:
    assert run("reduce", [[1, 2], [10, 20], [100, 200]], count=2, root=2) == [[], [], [111, 222]]


def test_every_rank_but_the_chains_first_takes_a_partial_sum_in() -> None:
    assert [COLLECTIVE.received_bytes(100, 4, rank, root=2) for rank in range(4)] == [100, 100, 100, 0]
