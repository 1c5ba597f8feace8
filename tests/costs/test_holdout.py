from __future__ import annotations

import pytest

from busbw.core.cost_form import Overlap
from busbw.costs.baselines import fit_line, interpolate
from busbw.costs.holdout import Prediction, hold_out, score

from .worlds import SIZES, ring, rows_of


def test_the_baselines_by_hand() -> None:
    assert interpolate([4, 16], [1.0, 4.0], 8) == pytest.approx(2.0)
    assert interpolate([4, 16], [1.0, 4.0], 64) == pytest.approx(16.0)
    assert fit_line([0, 10, 20], [1.0, 2.0, 3.0]) == pytest.approx((1.0, 0.1))
    assert fit_line([10, 20], [1.0, 3.0])[0] == 0  # a line through them would start below 0


def test_an_error_is_of_time_up_to_1_mib_and_of_busbw_above() -> None:
    small = Prediction("size", "all_reduce", 8, "", 2**20, 10.0, 12.0, 10.0, 10.0, True)
    large = Prediction("size", "all_reduce", 8, "", 2**21, 10.0, 12.0, 10.0, 10.0, True)
    assert small.error(12.0) == pytest.approx(0.2)
    assert large.error(12.0) == pytest.approx(1 / 6)


def test_all_three_kinds_and_what_each_needs() -> None:
    rows = [row for n in (2, 4, 8) for row in rows_of(ring(10e-6, 3e-6, 20e9, n), world_size=n)]
    predictions = hold_out(rows)
    assert {each.kind for each in predictions} == {"size", "large", "worlds"}
    assert sum(each.kind == "size" for each in predictions) == 3 * (len(SIZES) - 2)
    assert {each.size_bytes for each in predictions if each.kind == "large"} == {2**k for k in range(29, 34)}
    assert {each.world_size for each in predictions if each.kind == "worlds"} == {8}
    assert hold_out(rows_of(ring(10e-6, 3e-6, 20e9, 8), sizes=SIZES[:4])) == []


def test_a_known_line_is_predicted_and_interpolation_misses_its_knee() -> None:
    scores = {each.what: each for each in score(hold_out(rows_of(Overlap(30e-6, 1e-10), scatter=0.005)))}
    assert scores["all_reduce N=8"].kind == "large"
    assert scores["all_reduce N=8"].fit < 0.02
    assert scores["all_reduce N=8"].coverage == 1
    below = scores["all_reduce N=8 time up to 1 MiB"]
    assert below.fit < below.interpolated


def test_the_seed_data_is_predicted_better_than_by_what_needs_no_model(seed_files: list) -> None:  # type: ignore[type-arg]
    from busbw.formats import read_results

    rows = [row for path in seed_files for row in read_results(str(path)).measurements]
    over_all = {(each.kind, each.what): each for each in score(hold_out(rows)) if each.curves > 1}
    large = over_all["large", "all curves"]
    assert large.fit < 0.05
    assert large.fit < large.line < large.interpolated
    above = over_all["size", "all curves busbw above 1 MiB"]
    assert above.fit < above.line < above.interpolated
