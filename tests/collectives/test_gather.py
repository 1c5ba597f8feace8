from __future__ import annotations


def test_the_root_ends_with_all_shards_and_the_others_with_nothing(run) -> None:
    assert run("gather", [[1], [2], [3]], count=3, root=1) == [[], [1, 2, 3], []]
