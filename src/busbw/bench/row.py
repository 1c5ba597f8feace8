"""Taking one row: check, warm up, time batches until the interval is narrow enough, check again. Runs on every rank.

All ranks take the same decisions because they take them from the same numbers: after each batch they exchange their
times (and rank 0's clock) and look at nothing else.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from busbw.bench.backends.base import Backend, Group, Issue, Progress
from busbw.bench.beside import take_beside
from busbw.bench.check import Expected, table
from busbw.bench.load import Load
from busbw.bench.settings import BATCH_S, Settings
from busbw.bench.statistics import check, combine_ranks, steady
from busbw.bench.work import Item
from busbw.core.collective import Collective, Place
from busbw.core.dtype import DTYPES
from busbw.core.measurement import Beside
from busbw.units import MIB

_WARMUP_BATCH_S = 0.005
_MOST_CALLS = 1 << 20
_MOST_SAMPLES = 20_000
_MOST_SINGLES = 400


@dataclass(frozen=True, slots=True)
class TakenRow:
    """What one group's ranks saw of one row: seconds per call, shape (ranks of the group, samples)."""

    per_rank_s: NDArray[np.float64]
    calls_per_sample: int
    stopped: str
    wrong: int | None
    warmup_calls: int
    calls_s: NDArray[np.float64] | None
    """Single calls on this rank's clock, timed apart: a batch's mean hides two modes of its calls. None on GPUs."""
    beside: Beside | None = None
    """What ran beside the calls, and how much each slowed the other."""


@dataclass(frozen=True, slots=True)
class Buffers:
    """One rank's input and output (None where it has none), and more pairs of them when buffers rotate."""

    pairs: tuple[tuple[Any, Any], ...]

    @classmethod
    def allocate(cls, backend: Backend, item: Item, place: Place, dtype: str, rotate: bool) -> Buffers:
        """Buffers for the item; in place, the smaller lies inside the larger."""
        copies = 1
        if rotate and item.call.size_bytes:
            copies = max(1, min(64, 64 * MIB // max(item.call.size_bytes, 1)))
        return cls(tuple(cls._pair(backend, item, place, dtype) for _ in range(copies)))

    @staticmethod
    def _pair(backend: Backend, item: Item, place: Place, dtype: str) -> tuple[Any, Any]:
        kind: Collective = item.call.kind
        send_count, recv_count = kind.send_count(place), kind.recv_count(place)
        if not item.call.in_place:
            return (
                backend.allocate(send_count, dtype) if send_count else None,
                backend.allocate(recv_count, dtype) if recv_count else None,
            )
        assert kind.in_place_offset is not None
        large = backend.allocate(max(send_count, recv_count), dtype)
        start = kind.in_place_offset(place) if min(send_count, recv_count) < max(send_count, recv_count) else 0
        if send_count >= recv_count:
            return large, large[start : start + recv_count] if recv_count else None
        return large[start : start + send_count] if send_count else None, large


class RowTaker:
    """Takes rows on this rank, one after the other."""

    def __init__(self, backend: Backend, settings: Settings, groups: list[Group], progress: Progress) -> None:
        self.backend, self.settings, self.progress = backend, settings, progress
        self.groups = groups
        self.group = next(group for group in groups if backend.rank in group.ranks)
        self.group.rank = self.group.ranks.index(backend.rank)
        self._load: Load | None = None
        self.warmup: int | None = None
        self.iters: int | None = None
        self.precision = settings.precision or (0.02 if backend.is_gpu else 0.05)

    def take(self, index: int, item: Item, budget_s: float) -> TakenRow:
        """Take the row; every rank of the world calls it with the same index and its own group's item."""
        backend, settings, progress = self.backend, self.settings, self.progress
        progress.item, progress.phase, progress.batch, progress.call = index, "prepare", 0, 0
        progress.limit_s = self.limit_s(item)
        self.warmup, self.iters = _fixed_counts(settings, item)
        place = Place(item.count, self.group.size, self.group.rank, item.call.root or 0)
        dtype = item.call.dtype or "uint8"
        buffers = Buffers.allocate(backend, item, place, dtype, settings.rotate_buffers)
        prepare = backend.prepare if item.schedule is None else backend.prepare_schedule
        issues = [prepare(item, send, recv, self.group) for send, recv in buffers.pairs]
        send, recv = buffers.pairs[0]
        checks = settings.check if item.call.kind.moves_data and not item.compute else 0
        before = (checks + 1) // 2
        wrong = sum(self._check(item, place, dtype, send, recv, issues[0], index, k) for k in range(before))
        for pair in buffers.pairs:
            self._fill_for_timing(pair, dtype, place.rank)
        issue, calls_in_one = _rotating(issues), 1
        if settings.aggregate > 1:
            issue, calls_in_one = backend.aggregate(issue, settings.aggregate, self.group), settings.aggregate
        if settings.cuda_graph:
            issue, calls_in_one = backend.capture(issue, settings.cuda_graph), settings.cuda_graph * calls_in_one
        warmup_calls, estimate_s = self._warm_up(issue, budget_s)
        if item.compute:
            return self._take_beside(item, issue, calls_in_one, warmup_calls, estimate_s, budget_s)
        per_rank_s, calls, stopped = self._time(issue, estimate_s, budget_s)
        singles = min(max(calls, 32), _MOST_SINGLES, max(int(budget_s / 4 / max(estimate_s, 1e-9)), 8))
        calls_s = None if self.iters is not None else backend.time_calls(issue, singles, progress)
        wrong += sum(self._check(item, place, dtype, send, recv, issues[0], index, k) for k in range(before, checks))
        progress.phase = "report"
        wrong_by_rank = backend.gather([float(wrong)])[list(self.group.ranks), 0]
        return TakenRow(
            per_rank_s[list(self.group.ranks)] / calls_in_one,
            calls * calls_in_one,
            stopped,
            int(wrong_by_rank.sum()) if checks else None,
            warmup_calls,
            None if calls_s is None else calls_s / calls_in_one,
        )

    def _take_beside(
        self, item: Item, issue: Issue, calls_in_one: int, warmup_calls: int, estimate_s: float, budget_s: float
    ) -> TakenRow:
        """Time the calls by turns with and without computation beside them; their data was checked in the row before."""
        if self._load is None:
            self._load = self.backend.load(item.compute)
        self.progress.phase, self.progress.batch = "beside", 0
        started = time.monotonic()

        def exchange(values: list[float]) -> tuple[NDArray[np.float64], float]:
            self.progress.batch += 1
            table_ = self.backend.gather([*values, time.monotonic() - started])
            return table_[:, :-1], float(table_[0, -1])

        self.backend.barrier()
        turns = None if self.iters is None else 10
        found = take_beside(self._load, self._run, exchange, issue, estimate_s, budget_s, self.precision, turns)
        return TakenRow(
            found.per_rank_s[list(self.group.ranks)] / calls_in_one,
            found.calls * calls_in_one,
            found.stopped,
            None,
            warmup_calls,
            None,
            replace(found.beside, alone_s=found.beside.alone_s / calls_in_one),
        )

    def close(self) -> None:
        """End what runs beside the rows."""
        if self._load is not None:
            self._load.close()
            self._load = None

    def limit_s(self, item: Item) -> float:
        """Seconds without progress after which a call of this item counts as hung: 30 s, and 10 MB/s for what moves."""
        if self.settings.timeout_s is not None:
            return self.settings.timeout_s
        return 30.0 + item.call.size_bytes * max(self.group.size - 1, 1) / 10e6

    def _check(
        self, item: Item, place: Place, dtype: str, send: Any, recv: Any, issue: Issue, index: int, turn: int
    ) -> int:
        """Run one call on fresh data and count this rank's wrong elements."""
        self.progress.phase, self.progress.call = "check", turn
        backend = self.backend
        expected = Expected(item.call.kind, place, dtype, item.call.redop, seed=(index << 8) | turn)
        if recv is not None:
            backend.fill(recv, expected.poison())
        if send is not None:
            backend.fill(send, expected.input())
        backend.barrier()
        issue()
        backend.synchronize()
        return 0 if recv is None else expected.wrong(recv, backend.download)

    def _fill_for_timing(self, pair: tuple[Any, Any], dtype: str, rank: int) -> None:
        values = table(DTYPES[dtype], "sum", 1 << 30, rank, 0)
        for buffer in pair:
            if buffer is not None:
                self.backend.fill(buffer, values)

    def _exchange(self, seconds: float, started: float) -> tuple[NDArray[np.float64], float]:
        """Every rank's time, and rank 0's seconds since `started`."""
        self.progress.call += 1  # this rank waits for the others now: one that hangs in its batch is behind
        table_ = self.backend.gather([seconds, time.monotonic() - started])
        return table_[:, 0], float(table_[0, 1])

    def _run(self, issue: Issue, calls: int) -> float:
        if self.settings.mode == "isolated":
            return self.backend.time_isolated(issue, calls, self.progress)
        return self.backend.time_batch(issue, calls, self.progress)

    def _warm_up(self, issue: Issue, budget_s: float) -> tuple[int, float]:
        """Call until the time per call no longer falls (at most a third of the budget); (calls made, seconds a call)."""
        self.progress.phase = "warm-up"
        started = time.monotonic()
        if self.warmup is not None:
            seconds = self._run(issue, self.warmup) if self.warmup else 0.0
            times, _ = self._exchange(seconds, started)
            return self.warmup, float(times.max()) / max(self.warmup, 1) or BATCH_S
        done, calls, series = 0, 1, []
        while True:
            self.progress.batch += 1
            times, elapsed_s = self._exchange(self._run(issue, calls), started)
            batch_s = float(times.max())
            done += calls
            if batch_s < _WARMUP_BATCH_S and calls < _MOST_CALLS and elapsed_s < budget_s:
                calls *= 2 if batch_s <= 0 else int(min(10, max(2, math.ceil(_WARMUP_BATCH_S / batch_s))))
                continue
            series.append(batch_s / calls)
            if steady(np.array(series)) or elapsed_s > budget_s / 3:
                return done, float(np.median(series[-3:]))

    def _time(self, issue: Issue, estimate_s: float, budget_s: float) -> tuple[NDArray[np.float64], int, str]:
        """Batches until the interval is narrow or the budget spent: (seconds per call (world, samples), calls, why)."""
        settings, progress = self.settings, self.progress
        progress.phase, progress.batch = "timing", 0
        calls = int(min(max(math.ceil(BATCH_S / max(estimate_s, 1e-9)), 1), _MOST_CALLS))
        fixed = None
        if self.iters is not None:
            calls = self.iters if settings.method == "post" else min(calls, self.iters)
            fixed = max(self.iters // calls, 1)
            calls = -(-self.iters // fixed)
        due = 0
        samples: list[NDArray[np.float64]] = []
        started = time.monotonic()
        self.backend.barrier()
        while True:
            progress.batch += 1
            times, elapsed_s = self._exchange(self._run(issue, calls), started)
            samples.append(times / calls)
            if fixed is not None:
                if len(samples) == fixed:
                    return np.array(samples).T, calls, "fixed"
                continue
            if len(samples) >= due:
                more = self._more_samples(samples)
                if more == 0:
                    return np.array(samples).T, calls, "precision"
                due = len(samples) + more
            if elapsed_s >= budget_s or len(samples) >= _MOST_SAMPLES:
                return np.array(samples).T, calls, "budget"

    def _more_samples(self, samples: list[NDArray[np.float64]]) -> int:
        """Samples to take before looking again, 0 when every group's interval is narrow enough."""
        matrix = np.array(samples).T
        return max(
            check(combine_ranks(matrix[list(group.ranks)], self.settings.rank_time), self.precision).more
            for group in self.groups
        )


def _fixed_counts(settings: Settings, item: Item) -> tuple[int | None, int | None]:
    """Warm-up calls and timed calls where they are not adaptive; the post's are 20 and 50, from 256 MiB on 5 and 10."""
    if settings.method != "post":
        return settings.warmup, settings.iters
    return (20, 50) if item.call.size_bytes < 256 * MIB else (5, 10)


def _rotating(issues: list[Issue]) -> Issue:
    """One call after the other on each pair of buffers in turn."""
    if len(issues) == 1:
        return issues[0]
    turn = 0

    def issue() -> None:
        nonlocal turn
        issues[turn]()
        turn = (turn + 1) % len(issues)

    return issue
