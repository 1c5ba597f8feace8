from __future__ import annotations


def test_everyone_ends_with_all_shards_in_rank_order(run) -> None:
    assert run("all_gather", [[1, 2], [3, 4], [5, 6]], count=6) == [[1, 2, 3, 4, 5, 6]] * 3
