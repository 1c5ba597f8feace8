from __future__ import annotations

import numpy as np
import pytest

from busbw.comparing.assumed import assumed_spread, neighbours_spread


@pytest.mark.parametrize(
    ("labels", "time_s", "spread"),
    [
        ({"backend": "nccl"}, 1e-3, 0.05),
        ({"backend": "nccl"}, 20e-6, 0.10),
        ({}, 20e-6, 0.10),
        ({"backend": "gloo"}, 1e-3, 1.0),
        ({"backend": "mpi", "memory": "device"}, 1e-3, 0.05),
    ],
)
def test_defaults(labels: dict[str, str], time_s: float, spread: float) -> None:
    assert assumed_spread(labels, time_s) == spread


def test_neighbours_show_the_luck_of_launches_and_not_a_step() -> None:
    random = np.random.default_rng(3)
    ratio = 0.05 * np.sqrt(2) * random.standard_normal(400)
    ratio[200:] += 0.3
    assert neighbours_spread(ratio, [list(range(400))])[0] == pytest.approx(0.05, rel=0.2)


def test_short_curves_are_judged_together_and_too_few_sizes_say_nothing() -> None:
    ratio = np.array([0.0, 0.2, 0.0] * 4)
    curves = [list(range(first, first + 3)) for first in range(0, 12, 3)]
    # |second difference| = 0.4, over 1.15 sqrt 12
    assert neighbours_spread(ratio, curves) == pytest.approx(np.full(12, 0.1004), rel=1e-3)
    assert neighbours_spread(ratio, curves[:3]).tolist() == [0.0] * 12
