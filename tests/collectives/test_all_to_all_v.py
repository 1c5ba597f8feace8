from __future__ import annotations

from busbw.collectives.all_to_all_v import COLLECTIVE
from busbw.core.collective import Place


def test_the_split_grows_with_the_distance_to_the_right() -> None:
    """16 elements over 4 ranks: 4 stay, and the other 12 are cut 2 : 4 : 6 for distances 1, 2 and 3."""
    assert COLLECTIVE.split(Place(16, 4, 0)) == (4, 2, 4, 6)
    assert COLLECTIVE.split(Place(16, 4, 1)) == (6, 4, 2, 4)


def test_parts_of_different_sizes_arrive_in_rank_order(run) -> None:
    """6 elements over 3 ranks: 2 stay, 1 goes to the next rank, and 3 to the one after it."""
    before = [[10, 11, 12, 13, 14, 15], [20, 21, 22, 23, 24, 25], [30, 31, 32, 33, 34, 35]]
    after = run("all_to_all_v", before, count=6)
    assert after[0] == [10, 11, 20, 21, 22, 30]
    assert after[1] == [12, 23, 24, 31, 32, 33]
    assert after[2] == [13, 14, 15, 25, 34, 35]


def test_the_largest_message_is_2_n_minus_1_over_n_times_the_mean() -> None:
    parts = COLLECTIVE.split(Place(8 * 28 * 10, 8, 0))
    remote = parts[1:]
    assert max(remote) / (sum(remote) / 7) == 2 * 7 / 8


def test_two_ranks_make_it_an_all_to_all() -> None:
    assert COLLECTIVE.split(Place(10, 2, 0)) == (5, 5)
