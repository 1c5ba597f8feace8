from __future__ import annotations


def test_shard_k_of_the_sum_ends_on_rank_k(run) -> None:
    before = [[1, 2, 3], [10, 20, 30], [100, 200, 300]]
    assert run("reduce_scatter", before, count=3) == [[111], [222], [333]]
