"""The statistics: exact where they can be worked by hand, and calibrated on simulated launches."""

from __future__ import annotations

import math

import numpy as np
import pytest

from busbw.comparing.launches import ASSUMED, MODERATED, PERMUTATION, complete_curves, decide

NO_CURVES: list[list[int]] = []


def two_sides(a: int, b: int) -> np.ndarray:
    return np.array([False] * a + [True] * b)


def test_one_row_by_permutation_has_the_t_interval_and_the_p_of_the_most_extreme_division() -> None:
    a, b = [0.00, 0.01, 0.02, 0.03, 0.04], [0.10, 0.11, 0.12, 0.13, 0.14]
    decision = decide(np.array([a + b]).T, two_sides(5, 5), NO_CURVES, np.array([0.05]))
    assert decision.method == PERMUTATION
    assert decision.log_ratio == pytest.approx([0.10])
    # s = 0.01581 on 8 degrees, error = s sqrt(2/5) = 0.01; t(0.975, 8) = 2.306
    assert decision.half_width == pytest.approx([0.02306], rel=0.005)
    assert decision.p == pytest.approx([2 / math.comb(10, 5)])


def test_four_launches_a_side_can_be_certain_and_three_cannot() -> None:
    logs = np.array([[0.0, 0.001, 0.002, 0.003, 0.5, 0.501, 0.502, 0.503]]).T
    assert decide(logs, two_sides(4, 4), NO_CURVES, np.array([0.05])).method == PERMUTATION
    three = decide(logs[[0, 1, 2, 4, 5, 6]], two_sides(3, 3), NO_CURVES, np.array([0.05]))
    assert three.method == MODERATED
    # the assumed spread of 5 % counts, not the 0.1 % that three launches show: 1.96 x 0.05 x sqrt(2/3)
    assert three.half_width == pytest.approx([1.96 * 0.05 * math.sqrt(2 / 3)], rel=1e-3)
    assert three.p[0] < 1e-6


def test_one_launch_a_side_rests_on_the_assumed_spread_corrected_for_the_number_of_rows() -> None:
    logs = np.array([[0.0] * 10, [0.1] + [0.0] * 9])
    decision = decide(logs, two_sides(1, 1), NO_CURVES, np.full(10, 0.05))
    assert decision.method == ASSUMED
    # z(1 - 0.05 / 20) = 2.807
    assert decision.reach == pytest.approx([2.807 * 0.05 * math.sqrt(2)] * 10, rel=1e-3)
    assert decision.p[0] == pytest.approx(1.0)
    assert decide(logs[:, :1] * 3, two_sides(1, 1), NO_CURVES, np.array([0.05])).p[0] < 0.001


def test_equal_launches_are_equal() -> None:
    decision = decide(np.zeros((10, 3)), two_sides(5, 5), [[0, 1, 2]], np.full(3, 0.05))
    assert decision.log_ratio.tolist() == [0.0] * 4
    assert decision.p.tolist() == [1.0] * 4


def test_a_launch_that_lacks_a_row_is_left_out_of_that_row_and_the_row_of_curves() -> None:
    logs = np.array([[0.0, 0.0]] * 5 + [[0.2, 0.2]] * 5) + np.linspace(0, 0.01, 10)[:, None]
    logs[9, 1] = np.nan
    assert complete_curves(logs, {"both": [0, 1]}) == {}
    decision = decide(logs, two_sides(5, 5), NO_CURVES, np.full(2, 0.05))
    assert decision.log_ratio == pytest.approx([0.2 + 0.01 * 5 / 9, 0.2 + 0.01 * 4.5 / 9])


def test_what_no_row_shows_is_found_in_all_rows_together() -> None:
    random = np.random.default_rng(1)
    logs = 0.02 * random.standard_normal((10, 30))
    logs[5:] += 0.02
    decision = decide(logs, two_sides(5, 5), [list(range(30))], np.full(30, 0.05))
    assert (decision.p[:30] <= 0.05).sum() <= 3
    assert decision.p[30] <= 0.05
    assert decision.log_ratio[30] == pytest.approx(0.02, abs=0.008)


def noise(kind: str, random: np.random.Generator, launches: int, rows: int) -> np.ndarray:
    if kind == "rows":
        return 0.02 * random.standard_normal((launches, rows))
    if kind == "launches":
        return 0.02 * random.standard_normal((launches, 1)) + 0.003 * random.standard_normal((launches, rows))
    if kind == "tails":
        return 0.01 * random.standard_t(3, (launches, rows))
    return 0.1 * (random.random((launches, rows)) < 0.4) + 0.004 * random.standard_normal((launches, rows))


@pytest.mark.parametrize("kind", ["rows", "launches", "tails", "two speeds"])
@pytest.mark.parametrize("sides", [(1, 1), (2, 2), (3, 3), (2, 3), (4, 4), (5, 5), (3, 6)])
def test_false_alarms_are_at_most_5_per_cent_whatever_the_noise(kind: str, sides: tuple[int, int]) -> None:
    random = np.random.default_rng(7)
    is_b = two_sides(*sides)
    curves = [list(range(6)), list(range(6, 12)), list(range(12))]
    alarms = 0
    for _ in range(200):
        logs = noise(kind, random, len(is_b), 12)
        alarms += bool((decide(logs, is_b, curves, np.full(12, 0.05)).p <= 0.05).any())
    assert alarms <= 18  # of 200: 5 % and 2.5 standard deviations
