"""One contract for every algorithm: whatever file lies in busbw/algorithms has to keep it, at any N and root."""

from __future__ import annotations

import time

import numpy as np
import pytest

from busbw.core.collective import COLLECTIVES, Place
from busbw.core.schedule import ALGORITHMS
from busbw.core.verify import verify

PAIRS = [(algorithm.name, collective) for algorithm in ALGORITHMS for collective in algorithm.builders]

# Options beside the defaults, that every collective of the algorithm which has them must keep the contract with.
OPTIONS: dict[str, list[tuple[int, dict[str, object]]]] = {
    "ring": [(4, {"order": (0, 2, 1, 3)}), (5, {"order": (4, 2, 0, 1, 3)}), (6, {"chunks": 1}), (6, {"chunks": 7})],
    "double_binary_tree": [(6, {"chunks": 2}), (7, {"chunks": 10})],
    "centralised": [(5, {"centre": 3})],
    "hierarchical": [(12, {"ranks_per_host": per_host}) for per_host in (1, 2, 3, 4, 6, 12)],
    "torus_2d": [(12, {"rows": rows, "both_ways": ways}) for rows in (1, 2, 3, 6, 12) for ways in (0, 1)],
    "multi_ring": [
        (8, {"channels": 5}),
        (4, {"orders": ((0, 1, 2, 3), (0, 2, 1, 3), (3, 1, 2, 0))}),
        (12, {"ranks_per_host": 4}),
        (8, {"channels": 3, "ranks_per_host": 2}),
        (6, {"channels": 2, "chunks": 7}),
    ],
    "nvls": [(4, {"shots": 1}), (4, {"chunks": 3}), (4, {"shots": 1, "chunks": 1})],
}


@pytest.mark.parametrize(("name", "collective"), PAIRS)
def test_every_rank_ends_with_what_the_collective_promises(name: str, collective: str) -> None:
    algorithm = ALGORITHMS.get(name)
    for n in range(2, 18):
        for root in sorted({0, 1, n // 2, n - 1} if n > 9 else range(n)) if COLLECTIVES.get(collective).rooted else [0]:
            verify(algorithm.builders[collective](n, root=root))
    for n in (32, 64):
        if "ring" not in name or collective not in ("broadcast", "reduce"):  # 10 (N-2) rounds each
            verify(algorithm.builders[collective](n, root=n - 1 if COLLECTIVES.get(collective).rooted else 0))


@pytest.mark.parametrize(("name", "n", "options"), [(k, n, o) for k, many in OPTIONS.items() for n, o in many])
def test_options_keep_it_too(name: str, n: int, options: dict[str, object]) -> None:
    algorithm = ALGORITHMS.get(name)
    done = 0
    for collective, builder in algorithm.builders.items():
        try:
            schedule = builder(n, root=n - 1 if COLLECTIVES.get(collective).rooted else 0, **options)
        except TypeError:
            continue  # an option of the algorithm's other collectives
        verify(schedule)
        assert all(schedule.options[key] == value for key, value in options.items() if value != 0)
        done += 1
    assert done


def test_every_option_in_the_list_above_is_one_that_an_algorithm_has() -> None:
    assert {(name, key) for name, many in OPTIONS.items() for _, options in many for key in options} == {
        (algorithm.name, key) for algorithm in ALGORITHMS for key in algorithm.options
    }


@pytest.mark.parametrize(("name", "collective"), PAIRS)
def test_no_rank_set_sends_less_than_must_be_received(name: str, collective: str) -> None:
    """All that the ranks must receive has to be sent by someone; only a switch that multicasts may send less."""
    if name == "nvls":
        pytest.skip("the switch multiplies what is sent")
    kind = COLLECTIVES.get(collective)
    for n in (2, 3, 8, 12):
        schedule = ALGORITHMS.get(name).build(collective, n)
        must = sum(kind.received_elements(Place(840, n, rank, 0)) for rank in range(n)) / 840
        assert schedule.sent_share().sum() >= must - 1e-9


@pytest.mark.parametrize(("name", "collective"), PAIRS)
def test_131072_ranks_are_a_few_arrays_and_no_waiting(name: str, collective: str) -> None:
    algorithm, n = ALGORITHMS.get(name), 131072
    if algorithm.supports(collective, n) or (name, collective) == ("hierarchical", "all_to_all"):
        pytest.skip("it lists every pair, and says so")
    began = time.perf_counter()
    schedule = algorithm.build(collective, n)
    entries = sum(len(phase.source) for _, part in schedule.parts or ((1.0, schedule),) for phase in part.phases)
    assert entries <= 34 * 2 * n
    assert time.perf_counter() - began < 5  # 0.2 s alone on a 2.x GHz core
    assert np.isfinite(schedule.sent_share()).all()
