from __future__ import annotations

import dataclasses
import json

import pytest

from busbw.core.summary import Modes, Shift, Summary

SUMMARY = Summary(
    samples=10,
    median_s=1.0,
    mean_s=1.0,
    low_s=0.9,
    high_s=1.2,
    confidence=0.95,
    min_s=0.8,
    p5_s=0.8,
    p95_s=1.3,
    p99_s=1.4,
    max_s=1.5,
    spread=0.5,
    drift=0.0,
    drift_is_significant=False,
    autocorrelation=0.0,
    level_shifts=(Shift(3, 1.5), Shift(7, 0.5)),
    two_modes=Modes(0.9, 1.4, 0.1),
    slowest_rank=0,
    rank_skew=0.0,
    stopped="budget",
)


def test_half_width_is_a_share_of_the_median() -> None:
    assert SUMMARY.half_width == pytest.approx(0.15)
    assert dataclasses.replace(SUMMARY, low_s=None).half_width is None


def test_json_round_trip() -> None:
    assert Summary.from_json(json.loads(json.dumps(SUMMARY.to_json()))) == SUMMARY


def test_a_missing_number_is_named() -> None:
    data = SUMMARY.to_json()
    del data["p99_s"]
    with pytest.raises(KeyError, match="p99_s"):
        Summary.from_json(data)
