from __future__ import annotations

from busbw.collectives.barrier import COLLECTIVE


def test_it_has_no_size_and_no_data(run) -> None:
    assert COLLECTIVE.whole_count(4096, 4, 8) == 0
    assert not COLLECTIVE.moves_data
    assert run("barrier", [[], [], []], count=0) == [[], [], []]
