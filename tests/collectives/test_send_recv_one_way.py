from __future__ import annotations


def test_even_ranks_send_to_the_next_and_the_last_of_an_odd_number_is_idle(run) -> None:
    assert run("send_recv_one_way", [[1], [], [3], [], []], count=1) == [[], [1], [], [3], []]
