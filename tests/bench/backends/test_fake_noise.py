"""The fake backend's noise has the distribution that it states, whatever the batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.bench.backends.fake_noise import NoiseModel, parse_noise
from busbw.errors import UsageError

BUSY = "jitter=0.05,autocorrelation=0.8,second_mode=4ms,second_mode_share=0.15,second_mode_persistence=0.9"


def lag1(x: np.ndarray) -> float:
    return float(np.corrcoef(x[1:], x[:-1])[0, 1])


def test_a_quiet_machine_takes_exactly_the_base():
    assert NoiseModel().draw(2e-3, 3).tolist() == [2e-3] * 3
    assert NoiseModel().draw(2e-3, 0).tolist() == []


def test_jitter_is_the_coefficient_of_variation_and_leaves_the_median():
    x = NoiseModel(jitter=0.3, seed=1).draw(5e-3, 200_000)
    assert np.median(x) == pytest.approx(5e-3, rel=5e-3)
    assert x.std() / x.mean() == pytest.approx(0.3, rel=0.02)
    assert abs(lag1(np.log(x))) < 0.01


@pytest.mark.parametrize("a", [0.3, 0.8, 0.99])
def test_autocorrelation_is_that_of_neighbouring_calls(a):
    log = np.log(NoiseModel(jitter=0.1, autocorrelation=a, seed=2).draw(1.0, 200_000))
    assert lag1(log) == pytest.approx(a, abs=0.01)
    assert np.corrcoef(log[3:], log[:-3])[0, 1] == pytest.approx(a**3, abs=0.02)


def test_the_first_call_is_as_noisy_as_any():
    first = [NoiseModel(jitter=0.2, autocorrelation=0.9, seed=seed).draw(1.0, 1)[0] for seed in range(2000)]
    assert np.std(first) == pytest.approx(0.2, rel=0.1)


def test_second_mode_has_its_share_its_time_and_its_persistence():
    x = NoiseModel(second_mode_s=4e-3, second_mode_share=0.15, second_mode_persistence=0.7, seed=3).draw(1e-3, 200_000)
    assert np.unique(x) == pytest.approx([1e-3, 5e-3])
    slow = (x > 3e-3) * 1.0
    assert slow.mean() == pytest.approx(0.15, abs=0.01)
    assert lag1(slow) == pytest.approx(0.7, abs=0.01)


def test_level_shift_drift_and_warm_up_act_at_their_calls():
    assert NoiseModel(level_shift=0.4, level_shift_at=2).draw(10.0, 4).tolist() == [10.0, 10.0, 14.0, 14.0]
    assert NoiseModel(drift=0.01).draw(10.0, 3) == pytest.approx([10.0, 10.1, 10.2])
    assert NoiseModel(warmup=1.0, warmup_calls=2.0).draw(1.0, 3) == pytest.approx(
        [2.0, 1 + np.exp(-0.5), 1 + np.exp(-1)]
    )


@given(st.lists(st.integers(0, 70), min_size=1, max_size=8), st.integers(0, 1000))
def test_the_calls_do_not_depend_on_the_batches(batches, seed):
    text = BUSY + ",level_shift=0.3,level_shift_at=40,drift=1e-3,warmup=0.5,warmup_calls=9"
    whole = parse_noise(text, seed=seed).draw(1e-3, sum(batches))
    noise = parse_noise(text, seed=seed)
    assert np.concatenate([noise.draw(1e-3, n) for n in batches]) == pytest.approx(whole, rel=1e-12)


def test_ranks_and_seeds_are_independent_and_repeatable():
    draw = {
        (seed, rank): NoiseModel(jitter=0.1, seed=seed, rank=rank).draw(1.0, 20_000)
        for seed in (0, 1)
        for rank in (0, 1)
    }
    assert draw[0, 0].tolist() == NoiseModel(jitter=0.1).draw(1.0, 20_000).tolist()
    assert abs(np.corrcoef(draw[0, 0], draw[0, 1])[0, 1]) < 0.03
    assert abs(np.corrcoef(draw[0, 1], draw[1, 0])[0, 1]) < 0.03


def test_parse_reads_every_key():
    noise = parse_noise(BUSY + ", level_shift=40%, level_shift_at=500, drift=1e-6, seed=7, rank=2")
    assert noise == NoiseModel(
        jitter=0.05,
        autocorrelation=0.8,
        second_mode_s=4e-3,
        second_mode_share=0.15,
        second_mode_persistence=0.9,
        level_shift=0.4,
        level_shift_at=500,
        drift=1e-6,
        seed=7,
        rank=2,
    )
    assert parse_noise("") == NoiseModel()
    assert parse_noise("jitter=1%", seed=5).seed == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jiter=0.1", "jiter.*is unknown; keys are jitter, autocorrelation, second_mode,"),
        ("jitter", "key=value"),
        ("jitter=big", "jitter='big' cannot be read; write it as jitter=0.05 or 5%"),
        ("second_mode=4 parsecs", "second_mode=4ms"),
        ("level_shift_at=1.5", "level_shift_at=500"),
        ("autocorrelation=1", r"autocorrelation is 1; it must be in \[0, 1\)"),
        ("second_mode_share=2", r"second_mode_share is 2; it must be in \[0, 1\]"),
        ("jitter=-1", "jitter is -1; it must be at least 0"),
    ],
)
def test_a_wrong_text_is_answered_with_the_rule(text, message):
    with pytest.raises(UsageError, match=message):
        parse_noise(text)


def test_launch_jitter_is_shared_by_all_rows_and_ranks_of_a_launch():
    first = [
        [NoiseModel(launch_jitter=0.1, seed=4, rank=rank, launch=launch).draw(1.0, 2).tolist() for rank in (0, 1)]
        for launch in range(2000)
    ]
    assert all(one == other and one[0] == one[1] for one, other in first)
    factors = np.array([one[0] for one, _ in first])
    assert np.median(factors) == pytest.approx(1, abs=0.01)
    assert factors.std() / factors.mean() == pytest.approx(0.1, rel=0.05)


def test_row_jitter_is_drawn_for_each_row_and_shared_by_the_ranks():
    rows = {}
    for rank in (0, 1):
        noise = NoiseModel(row_jitter=0.1, seed=4, rank=rank)
        rows[rank] = []
        for _ in range(2000):
            noise.begin_row()
            rows[rank].append(noise.draw(1.0, 1)[0])
    assert rows[0] == rows[1]
    assert np.std(np.log(rows[0])) == pytest.approx(0.1, rel=0.05)
    assert abs(lag1(np.array(rows[0]))) < 0.06


def test_launches_draw_calls_of_their_own_and_the_first_those_of_a_single_launch():
    draw = [NoiseModel(jitter=0.1, launch=launch).draw(1.0, 20_000) for launch in (0, 1)]
    assert draw[0].tolist() == NoiseModel(jitter=0.1).draw(1.0, 20_000).tolist()
    assert abs(np.corrcoef(draw[0], draw[1])[0, 1]) < 0.03
