"""Rows with numbers that can be worked by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from busbw.core.call import Call
from busbw.core.measurement import Mark, Measurement, Source
from busbw.core.summary import Summary


def row(
    collective: str,
    world_size: int,
    size_bytes: int,
    time_s: float,
    *,
    labels: Mapping[str, str] | None = None,
    marks: tuple[Mark, ...] = (),
    low_high: tuple[float, float] | None = None,
    file: str | None = None,
    repeat: int = 0,
    wrong: int | None = None,
    **call: Any,
) -> Measurement:
    return Measurement(
        Call(collective, size_bytes, world_size, **call),
        time_s,
        summary=None if low_high is None else summary(time_s, *low_high),
        marks=marks,
        labels=labels or {},
        source=None if file is None else Source(file, 2),
        repeat=repeat,
        wrong=wrong,
    )


def summary(median_s: float, low_s: float, high_s: float) -> Summary:
    return Summary(
        samples=20, median_s=median_s, mean_s=median_s, low_s=low_s, high_s=high_s, confidence=0.95, min_s=low_s,
        p5_s=low_s, p95_s=high_s, p99_s=high_s, max_s=high_s, spread=0.1, drift=0.0, drift_is_significant=False,
        autocorrelation=0.0, level_shifts=(), two_modes=None, slowest_rank=0, rank_skew=0.0, stopped="precision",
    )  # fmt: skip
