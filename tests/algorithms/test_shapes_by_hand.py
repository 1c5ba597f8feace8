"""Rounds and bytes of each algorithm, worked by hand; that the result is right is the contract's part."""

from __future__ import annotations

from math import ceil, log2
from typing import Any

import numpy as np
import pytest

from busbw.algorithms.double_binary_tree import depths, parents
from busbw.algorithms.multi_ring import strides
from busbw.algorithms.tree import edges
from busbw.core.schedule import ALGORITHMS, NETWORK, Schedule
from busbw.errors import UsageError


def build(name: str, collective: str, n: int, root: int = 0, **options: Any) -> Schedule:
    return ALGORITHMS.get(name).build(collective, n, root=root, **options)


# (algorithm, collective, N) -> rounds, and S sent by each rank
BY_HAND = [
    ("ring", "all_reduce", 4, 6, [1.5] * 4),
    ("ring", "reduce_scatter", 8, 7, [0.875] * 8),
    ("ring", "broadcast", 4, 10, [1, 1, 1, 0]),  # 8 chunks through 3 links: 8 + 3 - 1; the last sends nothing
    ("ring", "reduce", 4, 10, [0, 1, 1, 1]),
    ("ring", "scatter", 4, 3, [0.75, 0.5, 0.25, 0]),
    ("ring", "gather", 4, 3, [0, 0.25, 0.5, 0.75]),
    ("tree", "all_reduce", 8, 6, [3, 1, 2, 1, 3, 1, 2, 1]),  # up once each but the root; 0 sends to 4, 2, 1
    ("tree", "broadcast", 5, 3, [3, 0, 1, 0, 0]),
    ("tree", "scatter", 4, 2, [0.75, 0, 0.25, 0]),
    ("recursive_doubling", "all_reduce", 8, 3, [3] * 8),
    ("recursive_doubling", "all_reduce", 6, 4, [3, 3, 2, 2, 1, 1]),  # 4, 5 hand over to 0, 1, which answer
    ("recursive_doubling", "all_gather", 8, 3, [0.875] * 8),
    ("recursive_halving_doubling", "all_reduce", 8, 6, [1.75] * 8),
    ("recursive_halving_doubling", "all_reduce", 6, 6, [2.5, 2.5, 1.5, 1.5, 1, 1]),
    ("bruck", "all_gather", 6, 3, [5 / 6] * 6),
    ("bruck", "all_reduce", 6, 6, [10 / 6] * 6),
    ("bruck", "all_to_all", 8, 3, [1.5] * 8),  # half of the blocks in each of three rounds
    ("pairwise", "all_to_all", 8, 7, [0.875] * 8),
    ("direct", "all_reduce", 8, 2, [1.75] * 8),
    ("direct", "broadcast", 4, 1, [3, 0, 0, 0]),
    ("centralised", "all_reduce", 8, 2, [7, 1, 1, 1, 1, 1, 1, 1]),  # the root sends (N-1) S, and receives as much
    ("hierarchical", "all_reduce", 16, 2 * 7 + 2 * 1, [1.875] * 16),
    ("torus_2d", "all_reduce", 16, 4 * 3, [1.875] * 16),
    ("multi_ring", "all_reduce", 4, 6, [1.5] * 4),
    ("nvls", "all_reduce", 8, 11, [1.125] * 8),  # S + S/N; 8 strips through 4 hops
    ("nvls", "all_gather", 8, 2, [0.125] * 8),
]


@pytest.mark.parametrize(("name", "collective", "n", "rounds", "sent"), BY_HAND)
def test_rounds_and_bytes(name: str, collective: str, n: int, rounds: int, sent: list[float]) -> None:
    schedule = build(name, collective, n)
    assert schedule.round_count == rounds
    assert schedule.sent_share() == pytest.approx(sent)


def test_in_step_t_of_the_ring_rank_r_sends_chunk_r_minus_1_minus_t() -> None:
    first, second = build("ring", "all_reduce", 4).phases
    assert (first.source.tolist(), first.target.tolist()) == ([0, 1, 2, 3], [1, 2, 3, 0])
    assert [first.round(t).source_slot.tolist() for t in range(3)] == [[3, 0, 1, 2], [2, 3, 0, 1], [1, 2, 3, 0]]
    assert [second.round(t).source_slot.tolist() for t in range(3)] == [[0, 1, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1]]


def test_the_order_of_a_ring() -> None:
    (phase,) = build("ring", "all_gather", 4, order=(0, 2, 1, 3)).phases
    assert dict(zip(phase.source.tolist(), phase.target.tolist(), strict=True)) == {0: 2, 2: 1, 1: 3, 3: 0}
    (chain,) = build("ring", "broadcast", 4, root=1, order=(0, 2, 1, 3), chunks=1).phases
    assert list(zip(chain.source.tolist(), chain.target.tolist(), strict=True)) == [(1, 3), (3, 0), (0, 2)]
    for order in ((0, 1, 2), (0, 1, 2, 2), (0, 1, 2, 4), "abc", 3):
        with pytest.raises(UsageError, match="it must have each rank from 0 to 3 once"):
            build("ring", "all_reduce", 4, order=order)


def test_a_binomial_tree_of_six() -> None:
    assert [(p.tolist(), c.tolist(), s.tolist()) for p, c, s in edges(6)] == [
        ([0], [4], [2]),
        ([0], [2], [2]),
        ([0, 2, 4], [1, 3, 5], [1, 1, 1]),
    ]


def test_inside_one_tree_is_a_leaf_of_the_other() -> None:
    assert parents(8).tolist() == [0, 2, 4, 2, 0, 6, 4, 6]
    assert depths(parents(8)).tolist() == [0, 3, 2, 3, 1, 3, 2, 3]
    for n in (*range(2, 40), 64, 100, 1000):
        assert depths(parents(n)).max() <= ceil(log2(n))
        schedule = build("double_binary_tree", "all_reduce", n, chunks=2)
        (phase,) = schedule.phases
        down = ~np.asarray(phase.reduces)
        half = phase.round(0).source_slot  # one chunk a half: slot 0 or 1 says which tree
        assert len(half) < len(phase.source)
        first = np.arange(len(phase.source)) < len(phase.source) // 2
        inside = [set(phase.source[down & tree].tolist()) for tree in (first, ~first)]
        assert len(inside[0] & inside[1]) <= 2  # the tops may meet
        assert schedule.sent_share().max() <= 2.5 + 1e-9


def test_the_double_tree_pipelines_so_each_rank_sends_about_2s_in_c_plus_2h_steps() -> None:
    schedule = build("double_binary_tree", "all_reduce", 16, chunks=64)
    assert schedule.round_count == 32 + 2 * 4 - 1
    assert schedule.sent_share().max() == pytest.approx(2.0)
    with pytest.raises(UsageError, match="chunks=3: must be even, half of them for each tree"):
        build("double_binary_tree", "all_reduce", 16, chunks=3)


def test_only_2_h_minus_1_over_n_of_a_hierarchical_all_reduce_leaves_a_host() -> None:
    schedule = build("hierarchical", "all_reduce", 32, ranks_per_host=8)
    leaves = np.zeros(32)
    for phase in schedule.phases:
        away = phase.source // 8 != phase.target // 8
        leaves += np.bincount(phase.source[away], (phase.length * phase.times)[away], 32) / schedule.chunks
    assert leaves == pytest.approx([2 * 3 / 32] * 32)


def test_hosts_and_rows_must_divide_the_ranks() -> None:
    with pytest.raises(UsageError, match="ranks_per_host=5: must divide the 12 ranks"):
        build("hierarchical", "all_reduce", 12, ranks_per_host=5)
    with pytest.raises(UsageError, match="rows=0: must be a whole number, 1 or more"):
        build("torus_2d", "all_reduce", 12, rows=0)
    assert build("hierarchical", "all_reduce", 12).options == {"ranks_per_host": 6}
    assert build("torus_2d", "all_reduce", 12).options == {"rows": 3}


def test_the_torus_uses_both_dimensions_at_once() -> None:
    schedule = build("torus_2d", "all_reduce", 12)
    assert [share for share, _ in schedule.parts] == [0.5, 0.5]
    steps = [part.phases[0].target - part.phases[0].source for _, part in schedule.parts]
    assert set(abs(steps[0]).tolist()) == {1, 3}  # along a row of 4, and back to its start
    assert set(abs(steps[1]).tolist()) == {4, 8}  # along a column of 3


def test_channels_of_a_multi_ring_step_by_numbers_without_a_common_divisor() -> None:
    assert strides(8, 4) == [1, 7, 3, 5]
    assert strides(6, 4) == [1, 5, 1, 5]
    assert strides(2, 3) == [1, 1, 1]
    parts = build("multi_ring", "all_reduce", 4, orders=((0, 1, 2, 3), (0, 2, 1, 3))).parts
    assert [part.phases[0].source.tolist() for _, part in parts] == [[0, 1, 2, 3], [0, 2, 1, 3]]
    with pytest.raises(UsageError, match="channels and orders both say how many rings there are"):
        build("multi_ring", "all_reduce", 4, channels=2, orders=((0, 1, 2, 3),))


def test_one_shot_through_the_switch_sends_s_and_receives_s() -> None:
    schedule = build("nvls", "all_reduce", 8, shots=1, chunks=4)
    assert schedule.round_count == 5
    assert schedule.sent_share() == pytest.approx([1.0] * 8)
    (phase,) = schedule.phases
    out = phase.source == NETWORK
    assert (phase.length * phase.repeats)[out].sum() == 8 * schedule.chunks


def test_direct_sends_users_of_many_ranks_to_pairwise() -> None:
    with pytest.raises(UsageError, match="it lists every pair, up to N=1024; pairwise has the same traffic"):
        build("direct", "all_to_all", 2048)
    with pytest.raises(UsageError, match="hierarchical all_to_all on 1024 hosts: at most 512"):
        build("hierarchical", "all_to_all", 8192)
