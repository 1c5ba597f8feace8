from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from busbw.comparing import compare
from busbw.core.call import Call
from busbw.core.measurement import Measurement, Results, Run
from busbw.core.summary import Summary
from busbw.errors import UsageError

Make = Callable[..., Results]
KIB = 2**10
SIZES = [64 * KIB * 4**power for power in range(6)]


def curve(collective: str = "all_reduce", world_size: int = 8) -> list[Call]:
    return [Call(collective, size, world_size, "float32") for size in SIZES]


def launches(random: np.random.Generator, count: int, factor: float = 1.0, jitter: float = 0.01) -> list[float]:
    return list(1e-3 * factor * np.exp(jitter * random.standard_normal(count)))


def test_a_slower_run_is_slower_by_its_ratio(results: Make) -> None:
    random = np.random.default_rng(0)
    a = results({call: launches(random, 5) for call in curve()})
    b = results({call: launches(random, 5, 1.1) for call in curve()})
    comparison = compare(a, b)
    assert comparison.verdict == "slower"
    assert comparison.exit_status() == 1
    assert (comparison.launches_a, comparison.launches_b, comparison.method) == (5, 5, "permutation")
    for row in comparison.rows:
        assert row.ratio.verdict == "slower"
        assert row.ratio.ratio == pytest.approx(1.1, rel=0.03)
        assert 1.05 < row.ratio.low < row.ratio.ratio < row.ratio.high < 1.15
        assert row.ratio.ratio == pytest.approx(row.time_b_s / row.time_a_s)
    assert [(part.name, part.rows) for part in comparison.curves] == [("all_reduce N=8 float32", 6)]
    back = compare(b, a)
    assert (back.verdict, back.exit_status()) == ("faster", 0)
    assert back.rows[0].ratio.ratio == pytest.approx(1 / comparison.rows[0].ratio.ratio)
    assert back.sentence().startswith("faster: 6 of 6 rows faster, most all_reduce ")


def test_equal_runs_are_the_same_within_the_resolution(results: Make) -> None:
    random = np.random.default_rng(1)
    a, b = (results({call: launches(random, 5) for call in curve()}) for _ in range(2))
    comparison = compare(a, b)
    assert (comparison.verdict, comparison.exit_status(), comparison.untold) == ("same", 0, 0)
    assert comparison.sentence() == "same: 6 of 6 rows surely within 5.0%"
    finer = compare(a, b, resolution=0.002)
    assert (finer.verdict, finer.exit_status(), finer.exit_status(fail_on_unknown=True)) == ("cannot tell", 0, 1)


def test_one_curve_slower_and_another_faster_is_mixed(results: Make) -> None:
    random = np.random.default_rng(2)
    calls = curve() + curve("all_gather")
    a = results({call: launches(random, 6) for call in calls})
    b = results({call: launches(random, 6, 1.1 if call.collective == "all_reduce" else 0.9) for call in calls})
    comparison = compare(a, b)
    assert (comparison.verdict, comparison.exit_status()) == ("mixed", 1)
    assert [part.ratio.verdict for part in comparison.curves][:2] == ["slower", "faster"]
    assert comparison.curves[-1].name == "all rows"


def test_changes_below_min_change_do_not_count(results: Make) -> None:
    a = results({call: [1.0, 1.0001, 0.9999, 1.0, 1.0001] for call in curve()})
    b = results({call: [1.008, 1.0081, 1.0079, 1.008, 1.0081] for call in curve()})
    assert compare(a, b).verdict == "same"
    assert compare(a, b, min_change=0.005).verdict == "slower"


def test_one_launch_a_side_claims_nothing_below_what_launches_are_assumed_to_differ(results: Make) -> None:
    a = results({call: [1e-3] for call in curve()})
    below, above = (results({call: [1e-3 * factor] for call in curve()}) for factor in (1.15, 1.6))
    comparison = compare(a, below)
    assert (comparison.verdict, comparison.exit_status(), comparison.method) == ("cannot tell", 0, "assumed-spread")
    # 7 comparisons of z(1 - 0.03 / 14) = 2.857, spread 5 %: exp(2.857 x 0.05 x sqrt 2) - 1
    assert comparison.cannot_tell_below == pytest.approx(0.2238, rel=0.01)
    assert "A has 1 launch and B 1 launch" in comparison.notes[0]
    assert "take --repeats 5 or more" in comparison.notes[0]
    assert compare(a, above).verdict == "slower"
    assert compare(a, below, spread=0.01).verdict == "slower"
    assert "a spread of 1.0% between launches is taken as given" in compare(a, below, spread=0.01).notes[0]


def test_scatter_between_neighbouring_sizes_widens_what_is_assumed(results: Make) -> None:
    a = results({call: [1e-3] for call in curve()})
    b = results({call: [1e-3 * factor] for call, factor in zip(curve(), [1, 1.5, 0.8, 1.6, 0.9, 1.5], strict=True)})
    assert compare(a, b).verdict == "cannot tell"
    assert compare(a, b).cannot_tell_below > 1


def test_several_files_a_side_are_pooled_as_launches(results: Make) -> None:
    random = np.random.default_rng(3)
    a = [results({call: launches(random, 1) for call in curve()}) for _ in range(5)]
    b = [results({call: launches(random, 1, 1.1) for call in curve()}) for _ in range(5)]
    comparison = compare(a, b)
    assert (comparison.launches_a, comparison.launches_b, comparison.verdict) == (5, 5, "slower")


def test_rows_that_few_launches_have_do_not_spoil_the_others(results: Make) -> None:
    random = np.random.default_rng(4)
    rare = Call("broadcast", 4096, 8)
    a = results({**{call: launches(random, 5) for call in curve()}, rare: [1e-3]})
    b = results({**{call: launches(random, 5, 1.1) for call in curve()}, rare: [1.1e-3]})
    comparison = compare(a, b)
    assert comparison.verdict == "slower"
    row = comparison.rows[-1]
    assert (row.call, row.launches_a, row.launches_b, row.ratio.verdict) == (rare, 1, 1, "cannot tell")
    assert [part.rows for part in comparison.curves] == [6, 6]


def summary(median_s: float, mean_s: float) -> Summary:
    fields = dict.fromkeys(Summary.__slots__, 0.0)
    return Summary(**{**fields, "median_s": median_s, "mean_s": mean_s})  # type: ignore[arg-type]


def test_medians_are_compared_where_both_sides_have_them_and_means_otherwise() -> None:
    call = Call("all_reduce", 4096, 2)
    with_median = Results(Run(), (Measurement(call, 9.0, summary(1.0, 2.0)),))
    without = Results(Run(), (Measurement(call, 2.0),))
    assert compare(with_median, with_median).rows[0].time_a_s == pytest.approx(1.0)
    comparison = compare(with_median, without)
    assert (comparison.rows[0].time_a_s, comparison.rows[0].time_b_s) == (pytest.approx(2.0), pytest.approx(2.0))
    assert "means are compared in 1 row, since one side gives no median" in comparison.notes


def test_what_else_differs_is_noted(results: Make) -> None:
    call = Call("all_reduce", 4096, 2, "float32")
    a = results({call: [1.0]}, {"backend": "nccl", "nccl": "2.19"})
    b = results({dataclasses.replace(call, dtype=None): [1.0]}, {"backend": "nccl", "nccl": "2.20"})
    a = Results(Run(environment={"kernel": "5", "variables": {"NCCL_ALGO": "Ring"}, "gpus": []}), a.measurements)
    b = Results(Run(environment={"kernel": "6", "variables": {}, "gpus": []}), b.measurements)
    comparison = compare(a, b)
    assert comparison.notes[1:] == (
        "nccl: 2.19 in A, 2.20 in B",
        "NCCL_ALGO: Ring in A, not set in B",
        "kernel: 5 in A, 6 in B",
    )
    assert comparison.rows[0].notes == ("B does not say its dtype",)


def test_a_way_that_one_side_does_not_tell_is_noted(results: Make) -> None:
    call = Call("all_reduce", 4096, 2)
    comparison = compare(results({call: [1.0]}), results({call: [1.0]}, {"rank_time": "slowest"}))
    assert comparison.notes[1:] == ("rank_time: A does not say, taken as slowest",)


def test_without_a_common_row_the_error_says_what_there_is(results: Make) -> None:
    a = results({Call("all_reduce", 4096, 2): [1.0]}, {"sched": "batch"})
    with pytest.raises(UsageError, match="A has all_reduce 4 KiB N=2 sched=batch; B has all_gather 4 KiB N=2"):
        compare(a, results({Call("all_gather", 4096, 2): [1.0]}))
    with pytest.raises(UsageError, match="sched is batch in A and default in B; --across sched"):
        compare(a, results({Call("all_reduce", 4096, 2): [1.0]}))
    with pytest.raises(UsageError, match="a side has no rows"):
        compare(results({}), results({}))


@pytest.mark.parametrize("option", ["min_change", "resolution", "spread"])
def test_a_negative_share_is_an_error(results: Make, option: str) -> None:
    a = results({Call("all_reduce", 4096, 2): [1.0]})
    with pytest.raises(UsageError, match=f"{option} -1 must be a share from 0 up"):
        compare(a, a, **{option: -1.0})  # type: ignore[arg-type]
