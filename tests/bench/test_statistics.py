"""The statistics of a row: worked by hand, by property, and by a short simulation that a lying interval would fail."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.bench import statistics
from busbw.bench.backends.fake_noise import NoiseModel, parse_noise
from busbw.bench.statistics import (
    MIN_SAMPLES,
    Interval,
    check,
    combine_ranks,
    drift,
    level_shifts,
    marks,
    median_interval,
    steady,
    summarise,
    two_modes,
)
from busbw.core.summary import Modes, Shift, Summary

ALTERNATING = np.column_stack((np.arange(1, 51), np.arange(51, 101))).ravel().astype(float)
"""1, 51, 2, 52, ... 50, 100: no positive autocorrelation, order statistics that equal their rank."""

series_of_times = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=120).map(np.array)


def quiet(n: int, seed: int = 0, jitter: float = 0.001, level_s: float = 1e-3) -> np.ndarray:
    return NoiseModel(jitter=jitter, seed=seed).draw(level_s, n)


# --- ranks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rank_time", "expected"),
    [("slowest", [3.0, 5.0]), ("avg", [2.0, 3.5]), ("min", [1.0, 2.0]), ("rank0", [1.0, 5.0])],
)
def test_ranks_are_combined_per_sample(rank_time, expected):
    per_rank_s = np.array([[1.0, 5.0], [3.0, 2.0]])
    assert combine_ranks(per_rank_s, rank_time).tolist() == expected


# --- the interval ----------------------------------------------------------------------------------------------------


def test_half_width_is_relative_to_the_center():
    assert Interval(9.0, 11.0).relative_half_width(10.0) == pytest.approx(0.1)


def test_independent_samples_give_the_order_statistics_of_the_binomial():
    # tau = 1, 100 / 2 degrees of freedom: t = 2.0086, so 50 -+ 10.043 of 100 samples lie below; value = count + 1/2
    interval = median_interval(ALTERNATING)
    assert interval is not None
    assert interval.low_s == pytest.approx(50.5 - 10.043, abs=2e-3)
    assert interval.high_s == pytest.approx(50.5 + 10.043, abs=2e-3)


def test_a_higher_confidence_is_wider():
    # t(0.995, 50) = 2.6778: 50 -+ 13.389
    interval = median_interval(ALTERNATING, confidence=0.99)
    assert interval is not None
    assert interval.high_s - interval.low_s == pytest.approx(2 * 13.389, abs=5e-3)


def test_each_value_twice_is_worth_half_the_samples():
    x = np.random.default_rng(3).permutation(1000) * 1.0
    once, twice = median_interval(x), median_interval(np.repeat(x, 2))
    assert once is not None
    assert twice is not None
    # the width in ranks goes with sqrt(n tau): twice the samples with twice the tau, of twice as many ranks
    assert (twice.high_s - twice.low_s) / (once.high_s - once.low_s) == pytest.approx(1.0, abs=0.1)


def test_a_geometric_autocorrelation_has_tau_of_one_plus_over_one_minus():
    assert statistics._autocorrelation_time(0.5 ** np.arange(60)) == pytest.approx(3.0)
    assert statistics._autocorrelation_time(0.8 ** np.arange(200)) == pytest.approx(9.0)


def test_autocovariance_is_the_sum_of_products():
    x = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 0.0])
    assert statistics._autocovariance(x) == pytest.approx([5.0, -2.0, -1.0, 2.0])


@pytest.mark.parametrize("n", [0, 1, 2, 5, 10])
def test_too_few_samples_have_no_interval(n):
    assert median_interval(quiet(n)) is None


def test_few_samples_of_a_strong_autocorrelation_have_no_interval():
    assert median_interval(np.linspace(1.0, 1.1, 40)) is None


def test_equal_samples_have_an_interval_of_width_zero():
    assert median_interval(np.full(40, 2e-3)) == Interval(2e-3, 2e-3)


@given(series_of_times)
def test_the_interval_holds_the_median_and_lies_inside_the_samples(series):
    interval = median_interval(series)
    if interval is not None:
        assert series.min() <= interval.low_s <= np.median(series) * (1 + 1e-12)
        assert np.median(series) * (1 - 1e-12) <= interval.high_s <= series.max()


@given(series_of_times, st.integers(-20, 20))
def test_the_interval_scales_with_the_unit(series, power):
    interval, scaled = median_interval(series), median_interval(series * 2.0**power)
    assert (interval is None) == (scaled is None)
    if interval is not None:
        assert scaled == Interval(interval.low_s * 2.0**power, interval.high_s * 2.0**power)


@given(series_of_times)
def test_the_interval_does_not_know_the_direction_of_time(series):
    assert median_interval(series) == median_interval(series[::-1].copy())


@given(series_of_times)
def test_a_sequential_interval_is_never_narrower(series):
    fixed, sequential = median_interval(series), median_interval(series, sequential=True)
    if sequential is not None:
        assert fixed is not None
        assert sequential.low_s <= fixed.low_s
        assert fixed.high_s <= sequential.high_s


# --- coverage --------------------------------------------------------------------------------------------------------

TWO_MODED = (
    "jitter=10%,autocorrelation=0.5,second_mode=400us,second_mode_share=0.15,second_mode_persistence=0.5"  # of 1 ms
)


def test_the_interval_covers_the_long_run_median_of_correlated_two_moded_samples():
    truth = np.median(parse_noise(TWO_MODED, seed=10**6).draw(1e-3, 10**6))
    covered, naive = 0, 0
    for seed in range(400):
        series = parse_noise(TWO_MODED, seed=seed).draw(1e-3, 200)
        interval = median_interval(series)
        assert interval is not None
        covered += interval.low_s <= truth <= interval.high_s
        low, high = np.sort(series)[[85, 113]]  # 100 -+ 1.96 sqrt(200) / 2, as if the samples were independent
        naive += low <= truth <= high
    assert 0.92 <= covered / 400 <= 0.98
    assert naive / 400 < 0.88


def test_the_stopping_rule_keeps_the_coverage():
    truth = np.median(parse_noise(TWO_MODED, seed=10**6).draw(1e-3, 10**6))
    covered, taken = 0, []
    for seed in range(250):
        noise = parse_noise(TWO_MODED, seed=seed)
        series = noise.draw(1e-3, 1)
        while not (state := check(series, 0.05)).enough:
            series = np.concatenate((series, noise.draw(1e-3, state.more)))
        assert state.interval is not None
        assert state.interval.relative_half_width(float(np.median(series))) <= 0.05
        covered += state.interval.low_s <= truth <= state.interval.high_s
        taken.append(len(series))
    assert 0.91 <= covered / 250 <= 0.98
    assert np.mean(taken) < 180


# --- when to stop ----------------------------------------------------------------------------------------------------


def test_the_first_check_is_due_at_the_minimum():
    state = check(quiet(1), 0.02)
    assert (state.enough, state.more, state.interval) == (False, MIN_SAMPLES - 1, None)


def test_quiet_samples_are_enough_as_soon_as_they_are_worth_twenty():
    assert not check(quiet(20), 0.02).enough
    assert check(quiet(60), 0.02).enough


def test_a_wide_interval_asks_for_half_as_many_again():
    state = check(quiet(100, jitter=0.5), 0.02)
    assert (state.enough, state.more) == (False, 50)


def test_a_nearly_narrow_interval_asks_for_a_tenth():
    interval = median_interval(ALTERNATING, sequential=True)
    assert interval is not None
    state = check(ALTERNATING, interval.relative_half_width(50.5) * 0.999)
    assert (state.enough, state.more) == (False, 11)  # ceil(100 * (1.1 - 1)), and floating point makes it 11
    assert check(ALTERNATING, interval.relative_half_width(50.5) * 1.001).enough


@given(series_of_times, st.floats(0.001, 0.5))
def test_a_check_either_stops_with_a_narrow_interval_or_asks_for_more(series, precision):
    state = check(series, precision)
    if state.enough:
        assert state.more == 0
        assert state.interval is not None
        assert state.interval.relative_half_width(float(np.median(series))) <= precision
    else:
        assert 1 <= state.more <= max(MIN_SAMPLES, math.ceil(len(series) / 2))


# --- warm-up, drift, shifts, modes -----------------------------------------------------------------------------------


def test_warm_up_is_over_when_the_samples_stop_falling():
    series = NoiseModel(jitter=0.01, warmup=2.0, warmup_calls=10, seed=5).draw(1e-3, 120)
    assert not steady(series[:9])
    assert not steady(series[:12])
    assert not steady(series[:25])
    assert steady(series[:80])
    assert steady(series)


def test_constant_and_rising_samples_are_steady():
    assert steady(np.full(10, 1.0))
    assert steady(np.linspace(1.0, 2.0, 10))


def test_a_fall_within_the_tolerance_is_steady():
    assert steady(np.linspace(1.005, 1.0, 10))
    assert not steady(np.linspace(1.005, 1.0, 10), tolerance=0.001)


def test_drift_of_a_straight_line_is_its_rise_over_its_median():
    assert drift(np.linspace(1.0, 1.1, 201)) == (pytest.approx(0.1 / 1.05, rel=1e-3), True)


def test_drift_under_noise_is_found_and_its_absence_too():
    change, significant = drift(NoiseModel(jitter=0.05, drift=0.1 / 1000, seed=1).draw(1.0, 1000))
    assert significant
    assert change == pytest.approx(0.1 / 1.05, abs=0.02)
    change, significant = drift(NoiseModel(jitter=0.05, autocorrelation=0.5, seed=1).draw(1.0, 1000))
    assert not significant
    assert abs(change) < 0.02


@pytest.mark.parametrize("series", [[], [1.0], [1.0, 2.0]])
def test_too_few_samples_do_not_drift(series):
    assert drift(np.array(series)) == (0.0, False)


def test_a_level_shift_is_found_where_it_is():
    series = np.concatenate((quiet(100, 1, 0.02, 92e-6), quiet(150, 2, 0.02, 128e-6)))
    (shift,) = level_shifts(series)
    assert shift.sample == 100
    assert shift.ratio == pytest.approx(128 / 92, rel=0.01)


def test_two_level_shifts_there_and_back():
    series = np.concatenate((quiet(100, 1, 0.02, 92e-6), quiet(120, 2, 0.02, 128e-6), quiet(200, 3, 0.02, 92e-6)))
    up, down = level_shifts(series)
    assert (up.sample, down.sample) == (100, 220)
    assert up.ratio * down.ratio == pytest.approx(1.0, rel=0.01)


def test_correlated_noise_and_slopes_are_no_level_shifts():
    false_alarms = sum(
        bool(level_shifts(NoiseModel(jitter=0.1, autocorrelation=0.8, seed=seed).draw(1.0, 300))) for seed in range(100)
    )
    assert false_alarms <= 3
    assert level_shifts(NoiseModel(jitter=0.02, drift=0.3 / 500, seed=1).draw(1.0, 500)) == ()


def test_two_modes_are_their_medians_and_the_share_of_the_slow_one():
    times_s = np.array([290e-6, 300e-6, 310e-6, 300e-6] * 17 + [4.3e-3] * 12)
    modes = two_modes(times_s)
    assert modes is not None
    assert modes.low_s == pytest.approx(300e-6)
    assert modes.high_s == pytest.approx(4.3e-3)
    assert modes.share_high == pytest.approx(12 / 80)


def test_one_hump_is_one_mode():
    found = [
        two_modes(NoiseModel(jitter=jitter, seed=seed).draw(1.0, n)) is not None
        for jitter in (0.01, 0.3)
        for n in (20, 100, 500)
        for seed in range(50)
    ]
    assert sum(found) <= 3


def test_two_modes_within_noise_show_in_long_stretches():
    noise = parse_noise("jitter=10%,second_mode=400us,second_mode_share=0.3,second_mode_persistence=0.99", seed=3)
    modes = two_modes(noise.draw(1e-3, 2000))
    assert modes is not None
    assert modes.low_s == pytest.approx(1.0e-3, rel=0.02)
    assert modes.high_s == pytest.approx(1.4e-3, rel=0.02)


# --- the summary -----------------------------------------------------------------------------------------------------


def test_summary_of_a_hand_worked_row():
    per_rank_s = np.vstack((ALTERNATING, ALTERNATING * 0.8))
    summary = summarise(per_rank_s, stopped="budget")
    assert (summary.samples, summary.median_s, summary.mean_s) == (100, 50.5, 50.5)
    assert (summary.min_s, summary.max_s) == (1.0, 100.0)
    assert (summary.p5_s, summary.p95_s, summary.p99_s) == pytest.approx((5.95, 95.05, 99.01))
    assert summary.spread == pytest.approx((95.05 - 5.95) / 50.5)
    assert (summary.low_s, summary.high_s) == pytest.approx((50.5 - 10.043, 50.5 + 10.043), abs=2e-3)
    assert summary.slowest_rank == 0
    assert summary.rank_skew == pytest.approx(0.2)
    assert summary.autocorrelation < 0
    assert (summary.level_shifts, summary.two_modes, summary.stopped) == ((), None, "budget")


def test_summary_of_a_single_sample():
    summary = summarise(np.array([[3e-3]]))
    assert (summary.samples, summary.median_s, summary.low_s, summary.spread, summary.drift) == (1, 3e-3, None, 0, 0)


@settings(max_examples=30)
@given(st.integers(1, 3), series_of_times)
def test_a_summary_survives_json(ranks, series):
    summary = summarise(np.vstack([series] * ranks))
    assert Summary.from_json(json.loads(json.dumps(summary.to_json()))) == summary


def test_modes_are_looked_for_in_single_calls_where_they_are_known():
    calls_s = np.array([300e-6] * 85 + [4.3e-3] * 15)
    summary = summarise(quiet(60)[None, :], calls_s=calls_s)
    assert summary.two_modes is not None
    assert summary.two_modes.share_high == pytest.approx(0.15)


# --- marks -----------------------------------------------------------------------------------------------------------


def codes(summary: Summary, **options) -> list[str]:
    return [mark.code for mark in marks(summary, 0.02, **options)]


def test_a_good_row_has_no_mark():
    assert marks(summarise(np.vstack([quiet(60), quiet(60, 1)]), stopped="precision"), 0.02) == ()


def test_too_few_samples_are_marked():
    (mark,) = marks(summarise(quiet(5)[None, :]), 0.02)
    assert mark.code == "few_samples"
    assert mark.reason.startswith("5 samples")


def test_a_wide_interval_is_marked_with_what_was_reached():
    summary = summarise(quiet(60, jitter=0.3)[None, :], stopped="budget")
    (mark,) = marks(summary, 0.02)
    assert mark.code == "wide_interval"
    assert f"{summary.half_width:.1%}" in mark.reason
    assert "asked for 2.0%" in mark.reason
    assert "--time-budget" in mark.reason


def test_a_level_shift_is_marked_once_and_not_as_drift():
    series = np.concatenate((quiet(100, 1, 0.02, 92e-6), quiet(150, 2, 0.02, 128e-6)))
    found = codes(summarise(series[None, :]))
    assert "level_shift" in found
    assert "drift" not in found


def test_drift_is_marked_with_its_size():
    series = NoiseModel(jitter=0.05, drift=0.1 / 1000, seed=1).draw(1e-3, 1000)
    (mark,) = (mark for mark in marks(summarise(series[None, :]), 0.02) if mark.code == "drift")
    assert "rises by 9." in mark.reason


def test_a_skewed_rank_is_named():
    (mark,) = marks(summarise(np.vstack([quiet(60), quiet(60, 1) * 1.5])), 0.02)
    assert mark.code == "rank_skew"
    assert mark.reason.startswith("rank 1 is the slowest")
    assert "33%" in mark.reason


TICKING = Modes(low_s=300e-6, high_s=4.35e-3, share_high=0.15)


def with_modes(modes: Modes) -> Summary:
    calls_s = np.concatenate((np.full(85, modes.low_s), np.full(15, modes.high_s)))
    return summarise(quiet(60)[None, :], calls_s=calls_s)


def test_modes_a_tick_apart_under_the_default_policy_are_the_schedulers():
    (mark,) = marks(with_modes(TICKING), 0.02, sched="default", tick_s=4e-3)
    assert mark.code == "scheduler_tick"
    assert "300 us and, for 15%, 4.35 ms" in mark.reason
    assert "--sched batch" in mark.reason


@pytest.mark.parametrize(
    ("sched", "tick_s", "code"),
    [("batch", 4e-3, "two_modes"), ("default", None, "two_modes"), ("default", 10e-3, "two_modes")],
)
def test_other_modes_are_just_two_speeds(sched, tick_s, code):
    assert codes(with_modes(TICKING), sched=sched, tick_s=tick_s) == [code]


def test_a_tick_in_one_call_of_a_batch_is_recognised_in_its_mean():
    # one call of 16 waits for 4 ms: the mean is 0.25 ms longer
    modes = Modes(low_s=1e-3, high_s=1.25e-3, share_high=0.15)
    assert codes(with_modes(modes), tick_s=4e-3, calls_per_sample=16) == ["scheduler_tick"]


@pytest.mark.parametrize(("gap_s", "expected"), [(4e-3, True), (7.7e-3, True), (2e-3, False), (50e-3, False)])
def test_gaps_of_one_to_four_ticks(gap_s, expected):
    assert statistics._is_ticks(gap_s, 4e-3) is expected


def test_level_after_over_level_before():
    assert Shift(3, 1.5).ratio == 1.5
