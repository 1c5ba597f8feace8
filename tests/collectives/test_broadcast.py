from __future__ import annotations

from busbw.collectives.broadcast import COLLECTIVE


def test_everyone_ends_with_the_roots_tensor(run) -> None:
    assert run("broadcast", [[], [], [7, 8]], count=2, root=2) == [[7, 8]] * 3


def test_every_rank_but_the_chains_last_passes_it_on() -> None:
    assert [COLLECTIVE.sent_bytes(100, 4, rank, root=2) for rank in range(4)] == [100, 0, 100, 100]
