from __future__ import annotations

from busbw.collectives.send_recv import COLLECTIVE


def test_each_rank_ends_with_the_tensor_of_the_one_before(run) -> None:
    assert run("send_recv", [[1], [2], [3]], count=1) == [[3], [1], [2]]


def test_it_takes_two_ranks() -> None:
    assert COLLECTIVE.least_world == 2
