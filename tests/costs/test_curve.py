from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.core.call import Call
from busbw.core.cost_form import Overlap
from busbw.core.measurement import Measurement, Source
from busbw.costs import fit
from busbw.costs.curve import CurveFit, Interval
from busbw.errors import UsageError

from .worlds import SIZES, ring, rows_of


def one(rows: list[Measurement]) -> CurveFit:
    (found,) = fit(rows).curves
    return found


def holds(interval: Interval | None, value: float) -> bool:
    return interval is not None and interval.low <= value <= interval.high


def test_launch_rate_boundary_and_half_peak_of_a_line_by_hand() -> None:
    """t0 = 60 us and B = 17.5 GB/s at N = 8: launch and wire are equal at t0 B / f = 0.6 MB, where busbw is B / 2."""
    found = one(rows_of(Overlap(60e-6, 1.75 / 17.5e9)))
    for interval, value in (
        (found.launch_s, 60e-6),
        (found.bandwidth_Bps, 17.5e9),
        (found.boundary_bytes, 600e3),
        (found.half_peak_bytes, 600e3),
    ):
        assert interval is not None
        assert interval.value == pytest.approx(value, rel=0.03)
    assert found.switches == ()
    assert found.outliers == ()


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """95 % are claimed; of 2 x 120 intervals, more than 27 misses would be a one in a thousand chance at 93 %."""
    rng = np.random.default_rng(5)
    missed = 0
    for seed in range(120):
        launch_s, rate = float(rng.uniform(8e-6, 80e-6)), float(rng.uniform(10e9, 300e9))
        found = one(rows_of(Overlap(launch_s, 1.75 / rate), scatter=0.02, seed=seed))
        missed += not holds(found.launch_s, launch_s)
        missed += not holds(found.bandwidth_Bps, rate)
    assert missed <= 27


def test_the_interval_of_a_price_holds_new_rows() -> None:
    inside = total = 0
    for seed in range(10):
        form = Overlap(30e-6, 1 / 50e9, 0.5)
        curve = one(rows_of(form, scatter=0.03, seed=seed)).curve
        for row in rows_of(form, scatter=0.03, seed=1000 + seed):
            _, low, high = curve.at(row.call.size_bytes)
            inside += low <= row.time_s <= high
            total += 1
    assert inside / total > 0.9


def test_a_switch_is_named_with_its_place_and_jump() -> None:
    before, after = Overlap(20e-6, 1 / 5e9), Overlap(60e-6, 1 / 40e9)
    rows = rows_of(before, sizes=SIZES[:18], scatter=0.01) + rows_of(after, sizes=SIZES[18:], scatter=0.01)
    (switch,) = one(rows).switches
    assert (switch.least_bytes, switch.most_bytes) == (SIZES[17], SIZES[18])
    middle = (SIZES[17] * SIZES[18]) ** 0.5
    assert switch.jump == pytest.approx(after.seconds(middle) / before.seconds(middle), rel=0.05)
    assert switch.support > 5


def test_an_outlier_is_named_with_its_line_and_does_not_bend_the_curve() -> None:
    form = Overlap(20e-6, 1 / 20e9)
    rows = rows_of(form, scatter=0.01)
    rows[12] = Measurement(rows[12].call, rows[12].time_s * 1.8, source=Source("a.log", 40))
    found = one(rows)
    (outlier,) = found.outliers
    assert (outlier.size_bytes, outlier.source) == (SIZES[12], Source("a.log", 40))
    assert outlier.ratio == pytest.approx(1.8, rel=0.08)
    assert found.curve.at(SIZES[12])[0] == pytest.approx(form.seconds(SIZES[12]), rel=0.08)


def test_what_the_sizes_do_not_show_is_not_named() -> None:
    small = one(rows_of(Overlap(20e-6, 1 / 100e9), sizes=SIZES[:10], scatter=0.01))  # up to 4 KiB
    assert small.launch_s is not None
    assert small.bandwidth_Bps is None
    assert any("B not identifiable" in note for note in small.notes)
    large = one(rows_of(Overlap(5e-6, 1 / 1e9), sizes=SIZES[20:], scatter=0.01))  # from 8 MiB
    assert large.launch_s is None
    assert large.bandwidth_Bps is not None
    assert any("launch not identifiable" in note for note in large.notes)


def test_times_that_fall_are_kept_where_they_fall_beyond_doubt() -> None:
    slow, fast = Overlap(100e-6, 1 / 1e9), Overlap(20e-6, 1 / 50e9)
    rows = rows_of(slow, sizes=SIZES[:18], scatter=0.01) + rows_of(fast, sizes=SIZES[18:], scatter=0.01)
    curve = one(rows).curve
    assert curve.falls == (SIZES[17],)
    assert curve.at(SIZES[17])[0] == pytest.approx(slow.seconds(SIZES[17]), rel=0.03)
    assert curve.at(SIZES[18])[0] == pytest.approx(fast.seconds(SIZES[18]), rel=0.03)


def test_a_barrier_has_a_launch_alone() -> None:
    found = one([Measurement(Call("barrier", 0, 4), 30e-6)])
    assert found.curve.at(0)[0] == pytest.approx(30e-6)
    assert found.bandwidth_Bps is None


def test_two_sizes_make_a_price_that_says_how_little_it_rests_on() -> None:
    found = one(rows_of(Overlap(20e-6, 1 / 20e9), sizes=(8, 2**30)))
    assert found.notes[0] == "2 sizes only: the shape is assumed, not seen"


def test_nothing_to_fit_says_what_it_takes() -> None:
    with pytest.raises(UsageError, match="nothing to fit in 1 row: it takes two sizes or more"):
        fit([Measurement(Call("all_reduce", 8, 2), 1e-5)])


@given(
    logs=st.lists(st.floats(-14, 3), min_size=2, max_size=24),
    start=st.integers(0, 12),
    step=st.sampled_from([1, 2, 4]),
)
def test_any_rising_times_give_a_price_that_never_falls(logs: list[float], start: int, step: int) -> None:
    times = np.exp(np.sort(np.array(logs)))
    sizes = [2 ** (start + step * i) for i in range(len(times)) if start + step * i < 62]
    rows = [Measurement(Call("all_gather", s, 4), float(t)) for s, t in zip(sizes, times, strict=False)]
    report = fit(rows)
    asked = sorted({0, 1, *sizes, *(s + s // 2 for s in sizes), 2**62})
    prices = [report.model.estimate(Call("all_gather", size, 4)) for size in asked]
    assert all(0 <= price.low <= price.seconds <= price.high < float("inf") for price in prices)
    assert all(a.seconds <= b.seconds * (1 + 1e-9) for a, b in pairwise(prices))
    assert all(p.latency_s + p.bandwidth_s == pytest.approx(p.seconds) and p.latency_s >= 0 for p in prices)


@pytest.mark.parametrize("verdict", ["steps", "constant", "jump"])
def test_over_n(verdict: str) -> None:
    launch = {
        "steps": lambda n: ring(10e-6, 3e-6, 20e9, n).launch_s,
        "constant": lambda n: 20e-6,
        "jump": lambda n: 60e-6 if n >= 16 else 12e-6,
    }[verdict]
    rows = [
        row
        for n in (2, 4, 8, 16)
        for row in rows_of(Overlap(launch(n), ring(0, 0, 20e9, n).s_per_byte), scatter=0.01, seed=n, world_size=n)
    ]
    (scaling,) = fit(rows).scalings
    assert scaling.launch.verdict == verdict
    assert scaling.bandwidth.verdict == "constant"
    if verdict == "steps":
        assert holds(scaling.launch_s, 10e-6)
        assert holds(scaling.alpha_s, 3e-6)
    else:
        assert scaling.alpha_s is None


def test_a_tree_is_told_from_a_ring() -> None:
    rows = [
        row
        for n in (2, 4, 16, 64)
        for row in rows_of(Overlap(10e-6 + 8e-6 * np.log2(n), 1e-10), scatter=0.01, seed=n, world_size=n)
    ]
    (scaling,) = fit(rows).scalings
    assert scaling.launch.verdict == "log2"


def test_two_n_cannot_tell_steps_from_log2() -> None:
    rows = [row for n in (2, 8) for row in rows_of(ring(10e-6, 3e-6, 20e9, n), scatter=0.01, seed=n, world_size=n)]
    (scaling,) = fit(rows).scalings
    assert scaling.launch.verdict == "cannot tell"
    assert "two N fit steps and log2 N alike" in scaling.launch.text
    assert scaling.alpha_s is None


def test_the_seed_data(seed_files: list) -> None:  # type: ignore[type-arg]
    """Points of the post's data: the floor at N = 8, boundaries, and a jump that nothing there explains."""
    from busbw.formats import read_results

    report = fit([row for path in seed_files for row in read_results(str(path)).measurements])
    by = {(found.curve.collective, found.curve.world_size): found for found in report.curves}
    assert len(by) == 18
    reduce8 = by["all_reduce", 8]
    assert holds(reduce8.launch_s, 58.9e-6)
    assert holds(reduce8.bandwidth_Bps, 17.84e9)
    for n in (2, 4, 8):
        boundary = by["all_reduce", n].boundary_bytes
        assert boundary is not None
        assert 0.14 < boundary.value / 2**20 < 0.62
    scalings = {scaling.collective: scaling for scaling in report.scalings}
    assert scalings["all_reduce"].launch.verdict == "jump"
    assert "from N = 4 to 8" in scalings["all_reduce"].launch.text
    assert scalings["gather"].launch.verdict == "constant"
