"""One rank that differs from the others in row after row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from statistics import median

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.core.measurement import Measurement
from busbw.findings._evidence import Evidence, where
from busbw.findings._law import Law
from busbw.findings._words import share

LEAST = 0.08
ROWS = 0.6


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for n in sorted({row.call.world_size for row in evidence.usable}):
        rows = [row for row in evidence.usable if row.call.world_size == n]
        sampled = [row for row in rows if row.samples is not None and len(row.samples.per_rank_s) == n]
        if sampled and n >= 3:
            yield from _from_samples(sampled, n)
        else:
            yield from _from_summaries([row for row in rows if row.summary is not None or row.samples is not None], n)


def _from_samples(rows: list[Measurement], n: int) -> Iterator[Finding]:
    blamed: Counter[tuple[int, bool]] = Counter()
    sizes: dict[tuple[int, bool], list[float]] = {}
    for row in rows:
        found = _odd_rank(row)
        if found is not None:
            blamed[found[0], found[1] > 0] += 1
            sizes.setdefault((found[0], found[1] > 0), []).append(found[1])
    if not blamed:
        yield Finding("straggler", f"all {n} ranks take the same time, to {share(LEAST)}", "holds", "fact")
        return
    (rank, slow), count = blamed.most_common(1)[0]
    if count < max(ROWS * len(rows), 2 if len(rows) > 1 else 1):
        yield Finding(
            "straggler",
            f"at N={n} now and then a rank differs, but none in most rows (rank {rank} in {count} of {len(rows)})",
            "cannot_tell",
            "fact",
            next="more samples a row",
        )
        return
    by = math.expm1(median(sizes[rank, slow]))
    text = (
        f"rank {rank} of {n} is slower than the others by {share(by)} in {count} of {len(rows)} rows: every rank waits for it"
        if slow
        else f"rank {rank} of {n} spends {share(-by)} less time in the calls than the others in {count} of {len(rows)} rows: it comes last, and the others wait for it"
    )
    yield Finding(
        "straggler",
        text,
        "fails",
        "problem",
        (
            Number(
                f"rank {rank} against the median of the others",
                100 * by,
                "%",
                f"{where(rows[0])} and {len(rows) - 1} more rows",
            ),
        ),
        (
            Cause("slow-gpu", "its GPU runs at a lower clock (power, heat), or its link at a lower rate or width"),
            Cause("slow-host", "its process is delayed: CPU binding, other work on its core"),
        ),
        next="nvidia-smi -q -d PERFORMANCE,CLOCK on that rank's GPU, lspci LnkSta against LnkCap; the same run with ranks placed in another order",
        weight=abs(by),
    )


def _odd_rank(row: Measurement) -> tuple[int, float] | None:
    """The rank that stands out of one row, and the logarithm of its time over the median of the others; None if none."""
    assert row.samples is not None
    middles = [math.log(max(median(samples), 1e-12)) for samples in row.samples.per_rank_s if samples]
    if len(middles) < 3:
        return None
    center = median(middles)
    rank = max(range(len(middles)), key=lambda r: abs(middles[r] - center))
    others = [value for r, value in enumerate(middles) if r != rank]
    away = middles[rank] - median(others)
    scatter = 1.4826 * median(abs(value - median(others)) for value in others)
    spread = max(others) - min(others)
    return (rank, away) if abs(away) > max(LEAST, 4 * scatter, 1.5 * spread) else None


def _from_summaries(rows: list[Measurement], n: int) -> Iterator[Finding]:
    """Rows that keep the slowest rank and how far the fastest lies below it; or samples of two ranks."""
    slowest = [rank for row in rows if (rank := _slowest(row)) is not None]
    if len(rows) < 5 or len(slowest) < ROWS * len(rows):
        return
    rank, count = Counter(slowest).most_common(1)[0]
    if count < 0.8 * len(slowest):
        return
    yield Finding(
        "straggler",
        f"rank {rank} of {n} is the slowest in {count} of {len(rows)} rows, by more than {share(2 * LEAST)} against the fastest",
        "fails",
        "problem",
        causes=(
            Cause("slow-gpu", "its GPU, its link or its process is slower"),
            Cause("fast-rank", "another rank leaves early"),
        ),
        next="samples of each of more than two ranks (busbw bench keeps them) show whether one rank differs from all others",
        weight=0.3,
    )


def _slowest(row: Measurement) -> int | None:
    """The slowest rank of a row, where the fastest lies far enough below it."""
    if row.summary is not None:
        return row.summary.slowest_rank if row.summary.rank_skew > 2 * LEAST else None
    if row.samples is None or len(row.samples.per_rank_s) < 2 or not all(row.samples.per_rank_s):
        return None
    middles = [median(samples) for samples in row.samples.per_rank_s]
    slow = max(middles)
    return middles.index(slow) if min(middles) < (1 - 2 * LEAST) * slow else None


LAW = Law(
    "straggler",
    "All ranks take the same time",
    "Rows with samples of each rank, N of 3 or more: a rank stands out when its median differs from that of the others by more than 8 %, four times their robust scatter and 1.5 times their "
    "range; it is named when it does so, in one direction, in 60 % of the rows. With less (two ranks, or the slowest rank alone): the same rank is slowest by 16 % in most of five or more rows.",
    _find,
)
