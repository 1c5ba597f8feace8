from __future__ import annotations


def test_shard_k_of_everyone_ends_on_rank_k(run) -> None:
    before = [[11, 12, 13], [21, 22, 23], [31, 32, 33]]
    assert run("all_to_all", before, count=3) == [[11, 21, 31], [12, 22, 32], [13, 23, 33]]
