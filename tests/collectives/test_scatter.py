from __future__ import annotations


def test_shard_k_of_the_root_ends_on_rank_k(run) -> None:
    assert run("scatter", [[], [1, 2, 3, 4, 5, 6], []], count=6, root=1) == [[1, 2], [3, 4], [5, 6]]
