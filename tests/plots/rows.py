"""Rows with numbers that can be worked by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from busbw.core.call import Call
from busbw.core.measurement import Mark, Measurement, Samples, Source
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
    samples: Samples | None = None,
    **call: Any,
) -> Measurement:
    return Measurement(
        Call(collective, size_bytes, world_size, **call),
        time_s,
        samples=samples,
        summary=None if low_high is None else summary(time_s, *low_high),
        marks=marks,
        labels=labels or {},
        source=None if file is None else Source(file, 2),
        repeat=repeat,
        wrong=wrong,
    )


KIB, GIB = 2**10, 2**30
SIZES = (4 * KIB, 64 * KIB, 1024 * KIB, 16384 * KIB, 262144 * KIB, GIB)


def two_runs() -> list[Measurement]:
    """Two files that every figure can draw: six sizes of AG, RS and AR at N = 2 and 4, each with samples; in b.csv
    all_reduce takes 1.5 times as long. T = launch + S f(N) / 20 GB/s, the launch 10 us (AR: 12 us) times N / 2.
    """
    rows = []
    for file, slower in (("a.csv", 1.0), ("b.csv", 1.5)):
        for collective, launch_s in (("all_gather", 10e-6), ("reduce_scatter", 10e-6), ("all_reduce", 12e-6)):
            for n in (2, 4):
                for size in SIZES:
                    factor = Call(collective, size, n).kind.bus_factor(n)
                    time_s = launch_s * n / 2 + size * factor / 20e9
                    time_s *= slower if collective == "all_reduce" else 1.0
                    taken = tuple(tuple(time_s * (0.98 + 0.01 * i) for i in range(5)) for _ in range(n))
                    rows.append(
                        row(
                            collective, n, size, time_s, file=file, dtype="bfloat16", redop="sum",
                            low_high=(0.99 * time_s, 1.01 * time_s), samples=Samples(10, taken),
                        )
                    )  # fmt: skip
        rows += [row("all_reduce", 1, KIB, 1e-5, file=file), row("barrier", 4, 0, 1e-5, file=file)]
    return rows


def summary(median_s: float, low_s: float, high_s: float) -> Summary:
    return Summary(
        samples=20, median_s=median_s, mean_s=median_s, low_s=low_s, high_s=high_s, confidence=0.95, min_s=low_s,
        p5_s=low_s, p95_s=high_s, p99_s=high_s, max_s=high_s, spread=0.1, drift=0.0, drift_is_significant=False,
        autocorrelation=0.0, level_shifts=(), two_modes=None, slowest_rank=0, rank_skew=0.0, stopped="precision",
    )  # fmt: skip
