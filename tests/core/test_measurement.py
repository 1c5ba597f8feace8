from __future__ import annotations

import json
from typing import Any

import pytest

from busbw.core.call import Call
from busbw.core.measurement import Mark, Measurement, Samples, Source
from busbw.core.summary import Modes, Shift, Summary

SUMMARY = Summary(
    samples=40,
    median_s=2e-3,
    mean_s=2.1e-3,
    low_s=1.9e-3,
    high_s=2.1e-3,
    confidence=0.95,
    min_s=1.8e-3,
    p5_s=1.85e-3,
    p95_s=2.5e-3,
    p99_s=2.6e-3,
    max_s=2.7e-3,
    spread=0.325,
    drift=0.01,
    drift_is_significant=False,
    autocorrelation=0.4,
    level_shifts=(Shift(12, 1.1),),
    two_modes=Modes(1.9e-3, 2.5e-3, 0.2),
    slowest_rank=1,
    rank_skew=0.03,
    stopped="precision",
)

ROW = Measurement(
    call=Call("all_reduce", 8_000_000, 4, "float32", "sum", None, False),
    time_s=2e-3,
    summary=SUMMARY,
    samples=Samples(10, ((1.9e-3, 2.0e-3), (2.0e-3, 2.1e-3))),
    wrong=0,
    marks=(Mark("noisy", "the interval is wider than 5 %"),),
    labels={"backend": "gloo", "sched": "batch"},
    repeat=2,
)


def test_rates_are_in_decimal_gigabytes() -> None:
    """8 MB in 2 ms is 4 GB/s; times 2 x 3/4 is 6."""
    assert ROW.algbw_GBps == pytest.approx(4.0)
    assert ROW.busbw_GBps == pytest.approx(6.0)


def test_what_is_saved_reads_back_the_same() -> None:
    assert Measurement.from_json(json.loads(json.dumps(ROW.to_json()))) == ROW


def test_a_bare_row_reads_back_the_same() -> None:
    bare = Measurement(Call("barrier", 0, 2), 1e-5)
    assert Measurement.from_json(json.loads(json.dumps(bare.to_json()))) == bare


def test_the_flat_row_has_these_keys_in_this_order() -> None:
    """They are a promise to other people's programs: add at the end, never rename."""
    assert list(ROW.row()) == [
        "collective",
        "size_bytes",
        "world_size",
        "dtype",
        "redop",
        "root",
        "in_place",
        "time_s",
        "algbw_GBps",
        "busbw_GBps",
        "wrong",
        "time_low_s",
        "time_high_s",
        "mean_s",
        "samples",
        "stopped",
        "marks",
        "labels",
        "repeat",
        "origin",
        "source",
        "beside",
    ]


def test_the_flat_rows_values() -> None:
    row = ROW.row()
    assert (row["time_s"], row["time_low_s"], row["time_high_s"], row["mean_s"]) == (2e-3, 1.9e-3, 2.1e-3, 2.1e-3)
    assert (row["samples"], row["stopped"], row["repeat"], row["origin"]) == (40, "precision", 2, "measured")
    assert row["marks"] == [{"code": "noisy", "reason": "the interval is wider than 5 %"}]
    assert row["source"] is None
    json.dumps(row)


def test_a_row_that_was_read_says_where_and_what_is_not_known_is_null() -> None:
    row = Measurement(Call("gather", 4096, 1), 1e-6, source=Source("a.csv", 7), origin="read").row()
    assert row["source"] == {"file": "a.csv", "line": 7}
    assert row["busbw_GBps"] is None
    assert (row["dtype"], row["wrong"], row["mean_s"], row["samples"]) == (None, None, None, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("time_s", "2"),
        ("time_s", -1.0),
        ("time_s", float("nan")),
        ("time_s", float("inf")),
        ("wrong", -1),
        ("wrong", 0.5),
        ("repeat", "x"),
        ("samples", {"calls_per_sample": 1, "per_rank_s": [["x"]]}),
        ("samples", {"per_rank_s": []}),
        ("summary", {**SUMMARY.to_json(), "median_s": "2"}),
        ("summary", {**SUMMARY.to_json(), "mean_s": None}),
        ("summary", {}),
        ("marks", [1]),
        ("labels", [1]),
        ("call", None),
    ],
)
def test_what_is_not_a_row_is_refused_when_read(key: str, value: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        Measurement.from_json({**ROW.to_json(), key: value})
