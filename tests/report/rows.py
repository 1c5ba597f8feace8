"""Results for the page: a machine that follows T = t0 + steps alpha + f(N) S / B, with text that would like to be markup."""

from __future__ import annotations

import random
from collections.abc import Sequence

from busbw.core.call import Call
from busbw.core.measurement import Mark, Measurement, Results, Run, Source
from busbw.core.summary import Summary

OPS = ("broadcast", "scatter", "gather", "all_gather", "reduce_scatter", "all_reduce")
SIZES = tuple(2**power for power in range(12, 31, 3))
HOSTILE = "gpu-<script>alert(1)</script>"
REASON = 'known to 3 %, asked for 2 % </script><!--<script>alert("x")</script>'


def summary(time_s: float, width: float = 0.01) -> Summary:
    return Summary(
        samples=31, median_s=time_s, mean_s=time_s, low_s=time_s * (1 - width), high_s=time_s * (1 + width), confidence=0.95,
        min_s=time_s, p5_s=time_s, p95_s=time_s, p99_s=time_s, max_s=time_s, spread=0.1, drift=0.0, drift_is_significant=False,
        autocorrelation=0.0, level_shifts=(), two_modes=None, slowest_rank=0, rank_skew=0.0, stopped="precision",
    )  # fmt: skip


def results(
    *,
    file: str = "run.jsonl",
    ops: Sequence[str] = OPS,
    worlds: Sequence[int] = (2, 4, 8),
    sizes: Sequence[int] = SIZES,
    launches: int = 1,
    slower: float = 1.0,
    noise: float = 0.01,
    seed: int = 1,
    dtype: str = "bfloat16",
) -> Results:
    """Rows of all ops at every N and size; `slower` multiplies their times."""
    luck = random.Random(f"{seed} {slower}")
    rows = []
    for launch in range(launches):
        for n in worlds:
            for op in ops:
                for size in sizes:
                    call = Call(op, size, n, dtype, in_place=False)
                    time_s = slower * (8e-6 + 3e-6 * (n - 1) + call.kind.bus_factor(n) * size / 18e9)
                    time_s *= 1 + luck.uniform(-noise, noise)
                    marked = (op, n, size) == ("all_reduce", 8, 2**21)
                    marks = (Mark("wide_interval", REASON),) if marked else ()
                    labels = {"backend": "nccl", "mode": "pipelined", "note": "=1+1"}
                    source = Source(file, len(rows) + 2)
                    rows.append(
                        Measurement(call, time_s, summary(time_s), None, 0, marks, labels, launch, source, "measured")
                    )
    ranks = [{"rank": rank, "host": HOSTILE, "pid": 7, "device": "RTX PRO 6000"} for rank in range(max(worlds))]
    run = Run(
        version="0.1.0",
        started="2026-11-30T09:09:20+00:00",
        environment={
            "host": HOSTILE,
            "cpus": 96,
            "memory_bytes": 2**39,
            "gpus": [{"name": "RTX PRO 6000", "driver_version": "580", "pci.bus_id": f"0{i}"} for i in range(8)],
            "variables": {"NCCL_DEBUG": "INFO"},
        },
        settings={"backend": "nccl", "sizes": list(sizes), "row_budget_s": 3.0, "iters": None},
        launches=tuple({"world_size": max(worlds), "repeat": launch, "ranks": ranks} for launch in range(launches)),
        notes=(f"note of {HOSTILE}",),
        source=Source(file, 1),
    )
    return Results(run, tuple(rows))
