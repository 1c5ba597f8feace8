"""What the samples of one row say: its time, how sure that is, when to stop, and why not to trust it.

A *sample* is the mean seconds per call of one batch of back-to-back calls. Neighbouring samples are correlated (a lag-1
correlation of 0.3-0.8 is usual), have two modes where threads wait for a scheduler, and jump when the host changes
speed. An interval that takes them for independent lies, so nothing here does.

The interval is of the long-run **median** and needs no density and no normality. With sorted samples
x(1) <= ... <= x(n), n/2 of them lie below the true median, give or take ``sqrt(n tau / 4)``; the order statistics at::

    n/2 -+ t(nu) sqrt(n tau) / 2

bound it. ``tau = 1 + 2 (rho_1 + rho_2 + ...)`` is the integrated autocorrelation time of the signs of ``x - median``:
n samples are worth ``n / tau`` independent ones. Sources: the order-statistic interval, David & Nagaraja, Order
Statistics, 3rd ed., 7.1; its long-run variance for dependent samples, Sen (1972), and Heidelberger & Lewis, Operations
Research 32 (1984); tau by the initial monotone sequence, Geyer, Statistical Science 7 (1992), section 3.3. The
alternative, sectioning (medians of k sections with Student's t, Asmussen & Glynn, Stochastic Simulation, III.5), needs
sections longer than the correlation *and* some twenty of them; it was not simulated. benchmarks/measure/coverage_fake.py
prints the coverage that the method here reaches.

Ranks take the same decisions from the same samples: signs and ranks are integers, their sums are exact, and what
follows is a handful of IEEE operations.

Pure functions: no clock, no input or output.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from busbw.core.measurement import Mark
from busbw.core.student_t import student_t
from busbw.core.summary import Modes, Shift, Summary
from busbw.units import format_time

__all__ = [
    "MIN_INDEPENDENT",
    "MIN_SAMPLES",
    "Check",
    "Interval",
    "RankTime",
    "Stopped",
    "check",
    "combine_ranks",
    "drift",
    "level_shifts",
    "marks",
    "median_interval",
    "steady",
    "summarise",
    "two_modes",
]

Floats = npt.NDArray[np.float64]
RankTime = Literal["slowest", "avg", "min", "rank0"]
Stopped = Literal["precision", "budget", "fixed"]

MIN_SAMPLES = 16
"""No decision to stop before this many samples."""
MIN_INDEPENDENT = 20.0
"""Nor before the samples are worth this many independent ones, counted with an upper limit of their autocorrelation."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Two times in seconds that bound the long-run median."""

    low_s: float
    high_s: float

    def relative_half_width(self, center_s: float) -> float:
        """Half of the width as a share of `center_s`."""
        return (self.high_s - self.low_s) / (2 * center_s)


@dataclass(frozen=True, slots=True)
class Check:
    """What the samples so far allow: stop here, or take `more` samples and check again."""

    enough: bool
    more: int
    interval: Interval | None


def combine_ranks(per_rank_s: Floats, rank_time: RankTime = "slowest") -> Floats:
    """One series from samples of shape (ranks, samples): of each the slowest rank, the mean, the fastest, or rank 0."""
    if rank_time == "slowest":
        series: Floats = per_rank_s.max(axis=0)
    elif rank_time == "avg":
        series = per_rank_s.mean(axis=0)
    elif rank_time == "min":
        series = per_rank_s.min(axis=0)
    else:
        series = per_rank_s[0].copy()
    return series


# --- the interval and the stopping rule ------------------------------------------------------------------------------


def median_interval(series: Floats, confidence: float = 0.95, *, sequential: bool = False) -> Interval | None:
    """The interval that holds the long-run median of the samples with probability `confidence`; None if too few.

    Say `sequential` when the number of samples was chosen by `check`: a rule that stops when the interval looks narrow
    stops too early more often than too late, so it is then computed at the level that restores the coverage.
    """
    return _Signs.of(series).interval(confidence, sequential) if len(series) else None


def check(
    series: Floats,
    precision: float,
    confidence: float = 0.95,
    *,
    min_samples: int = MIN_SAMPLES,
    min_independent: float = MIN_INDEPENDENT,
) -> Check:
    """Whether the interval is within `precision` (relative half-width), and after how many more samples to look again.

    Looking at growing counts (by at least a tenth, at most a half, in between where the width is predicted to suffice)
    keeps the number of looks, and with it the chance to stop by luck, small. What is left of the bias of a sequential
    rule (Chow & Robbins 1965; Glynn & Whitt 1992) is met by the two minima and by `sequential` in `median_interval`.
    """
    n = len(series)
    if n < min_samples:
        return Check(enough=False, more=min_samples - n, interval=None)
    signs = _Signs.of(series)
    interval = signs.interval(confidence, sequential=True)
    width = _NO_WIDTH if interval is None else interval.relative_half_width(signs.median) / precision
    independent = n / signs.tau_upper
    if width <= 1 and independent >= min_independent:
        return Check(enough=True, more=0, interval=interval)
    wanted = max(width * width * _AIM, min_independent / independent)
    growth = min(max(wanted, _MIN_GROWTH), _MAX_GROWTH)
    return Check(enough=False, more=max(1, math.ceil(n * (growth - 1))), interval=interval)


_NO_WIDTH = 3.0  # the half-width over the precision that stands in for "no interval yet"
_AIM = 0.95  # look a little before the predicted count, since half of the rows need less
_MIN_GROWTH, _MAX_GROWTH = 1.1, 1.5
_SEQUENTIAL = 0.3  # the share of 1 - confidence that optional stopping costs strongly correlated samples
_SMALL_SAMPLE_BIAS = 5.0  # tau from n samples is low by about 1 + 5 (tau - 1) / n: simulated, autocorrelation 0.3-0.8


@dataclass(frozen=True, slots=True)
class _Signs:
    """Sorted samples, the autocorrelation time of their signs about the median, and an upper limit of it."""

    ordered: Floats
    median: float
    tau: float
    tau_upper: float

    @classmethod
    def of(cls, series: Floats) -> _Signs:
        n = len(series)
        ordered = np.sort(series)
        median = float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2
        tau = _autocorrelation_time(np.rint(_autocovariance(np.sign(series - median))))
        tau *= 1 + _SMALL_SAMPLE_BIAS * (tau - 1) / n
        return cls(ordered, median, tau, _autoregressive_time(_centred_ranks(series, ordered)))

    def interval(self, confidence: float, sequential: bool) -> Interval | None:
        n = len(self.ordered)
        alpha = 1 - confidence
        if sequential:
            alpha *= 1 - _SEQUENTIAL * (1 - 1 / self.tau)
        degrees = max(n / (3 * self.tau - 1), 2.0)
        few = n < MIN_INDEPENDENT * self.tau_upper
        tau = max(self.tau, self.tau_upper) if few else self.tau
        reach = student_t(1 - alpha / 2, degrees) * math.sqrt(n * tau) / 2
        if n / 2 - reach < 0.5:
            return None
        return Interval(self._at(n / 2 - reach), self._at(n / 2 + reach))

    def _at(self, count: float) -> float:
        """The time below which `count` of the samples lie, between order statistics."""
        position = min(max(count - 0.5, 0.0), len(self.ordered) - 1.0)
        below = min(int(position), len(self.ordered) - 2)
        weight = position - below
        return float(self.ordered[below]) * (1 - weight) + float(self.ordered[below + 1]) * weight


_MAX_LAG1 = 0.99


def _autocovariance(x: Floats) -> Floats:
    """Sums of ``x[t] x[t+k]`` for lags k = 0 ... n/2, by FFT."""
    n = len(x)
    size = 1 << (n + n // 2).bit_length()
    spectrum = np.fft.rfft(x, size)
    sums: Floats = np.fft.irfft(spectrum * spectrum.conj(), size)[: n // 2 + 1]
    return sums


def _autocorrelation_time(autocovariance: Floats) -> float:
    """``1 + 2 (rho_1 + rho_2 + ...)``, at least 1, by Geyer's initial monotone sequence.

    Sums of neighbouring pairs of autocovariances are positive and decreasing for a reversible chain; the sum ends where
    the estimates stop being so.
    """
    if autocovariance[0] <= 0:
        return 1.0
    pairs = autocovariance[: len(autocovariance) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    pairs = np.minimum.accumulate(pairs[: ends[0]] if len(ends) else pairs)
    return max(2 * float(pairs.sum()) / float(autocovariance[0]) - 1, 1.0)


def _centred_ranks(series: Floats, ordered: Floats) -> Floats:
    """Twice the mid-ranks less their mean: whole numbers, so that their sums are exact."""
    ranks = ordered.searchsorted(series, "left") + ordered.searchsorted(series, "right") - len(series)
    return ranks.astype(np.float64)


def _lag1(centred: Floats) -> float:
    square = float(centred @ centred)
    return float(centred[1:] @ centred[:-1]) / square if square > 0 else 0.0


def _autoregressive_time(centred: Floats) -> float:
    """An upper limit: tau of a first-order autoregression whose lag-1 correlation is one standard error above theirs.

    From few samples the sum of correlations misses a long correlation; this does not.
    """
    upper = min(max(_lag1(centred), 0.0) + 1 / math.sqrt(len(centred)), _MAX_LAG1)
    return (1 + upper) / (1 - upper)


# --- what else the series shows --------------------------------------------------------------------------------------


def steady(series: Floats, *, window: int = 10, tolerance: float = 0.01) -> bool:
    """Whether warm-up is over: the last `window` samples do not fall.

    They fall when later samples are smaller than earlier ones more often than chance has it (Kendall's S, one-sided
    5 %) and the median of their later half lies more than `tolerance` below that of the earlier half.
    """
    if len(series) < window:
        return False
    last = series[-window:]
    earlier, later = float(np.median(last[: window // 2])), float(np.median(last[-(window // 2) :]))
    return later >= earlier * (1 - tolerance) or _kendall_z(last) > -1.645


def _kendall_z(values: Floats) -> float:
    """Kendall's S of the values against their order, in standard deviations of independent values."""
    n = len(values)
    s = float(np.sign(values[None, :] - values[:, None])[np.triu_indices(n, 1)].sum())
    return s / math.sqrt(n * (n - 1) * (2 * n + 5) / 18)


def drift(series: Floats) -> tuple[float, bool]:
    """The relative change of the level from the first to the last sample, and whether it is more than chance.

    Theil-Sen line through the medians of at most 40 blocks; Mann-Kendall test at three standard deviations, widened by
    the autocorrelation of what is left beside the line (Hamed & Rao, Journal of Hydrology 204, 1998).
    """
    n = len(series)
    if n < 3:
        return 0.0, False
    center, level = _blocks(series)
    slope, _ = _theil_sen(center, level)
    change = slope * (n - 1) / float(np.median(level))
    if len(level) < MIN_SAMPLES:
        return change, False
    beside = _Signs.of(level - slope * center)
    z = _kendall_z(level) / math.sqrt(max(beside.tau, beside.tau_upper))
    return change, abs(z) >= 3


_DRIFT_BLOCKS = 40


def _blocks(series: Floats) -> tuple[Floats, Floats]:
    """Centre (in samples) and median of at most 40 blocks of the series."""
    edges = np.linspace(0, len(series), min(len(series), _DRIFT_BLOCKS) + 1).astype(int)
    level = np.array([np.median(series[a:b]) for a, b in pairwise(edges)])
    return (edges[:-1] + edges[1:] - 1) / 2, level


def _theil_sen(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and offset of the line with the median of the slopes between all pairs of points."""
    first, second = np.triu_indices(len(x), 1)
    slope = float(np.median((y[second] - y[first]) / (x[second] - x[first])))
    return slope, float(np.median(y - slope * x))


def level_shifts(series: Floats, *, min_change: float = 0.02, limit: int = 8) -> tuple[Shift, ...]:
    """Samples at which the level jumps, each with level after / level before (medians of the stretches around it).

    Binary segmentation on the cumulative sum of ranks (Pettitt, Applied Statistics 28, 1979), scaled by the long-run
    deviation of the ranks about the levels on both sides. A jump there and back hides in the whole, so stretches of a
    half, a quarter and an eighth are searched too (seeded intervals, Kovacs et al., Biometrika 110, 2023). A jump
    counts from 2.2 (1 + 10 tau / n) of the scale in a stretch of n samples with autocorrelation time tau (the maximum
    of a Brownian bridge exceeds 2.2 once in 8000 times), and from a relative change of `min_change`. A slope is no
    staircase: nothing is reported where the line of `drift` fits as well.
    """
    cuts = sorted(_cuts(series, 0, len(series), limit))
    edges = [0, *cuts, len(series)]
    levels = [float(np.median(series[a:b])) for a, b in pairwise(edges)]
    shifts = (Shift(cut, after / before) for cut, (before, after) in zip(cuts, pairwise(levels), strict=True))
    found = tuple(shift for shift in shifts if abs(math.log(shift.ratio)) >= math.log1p(min_change))
    if not found:
        return ()
    center, level = _blocks(series)
    slope, offset = _theil_sen(center, level)
    steps = np.array(levels)[np.searchsorted(cuts, center, "right")]
    line_misses_by = float(np.abs(level - offset - slope * center).sum())
    return found if line_misses_by > 1.1 * float(np.abs(level - steps).sum()) else ()


_SHIFT_SCALE = 2.2
_MIN_STRETCH = 8


def _cuts(series: Floats, begin: int, end: int, limit: int) -> Iterator[int]:
    n = end - begin
    if limit < 1:
        return
    for length in (n, n // 2, n // 4, n // 8):
        if length < 2 * _MIN_STRETCH:
            return
        starts = range(begin, end - length + 1, max(1, length // 2))
        strength, cut = max(_strongest_cut(series, start, start + length) for start in starts)
        if strength > _SHIFT_SCALE:
            yield cut
            yield from _cuts(series, begin, cut, limit // 2)
            yield from _cuts(series, cut, end, limit // 2)
            return


def _strongest_cut(series: Floats, begin: int, end: int) -> tuple[float, int]:
    """The best place to cut a stretch in two levels, and how far the cumulative sum of ranks goes there."""
    n = end - begin
    part = series[begin:end]
    ranks = _centred_ranks(part, np.sort(part))
    bridge = np.abs(np.cumsum(ranks))[_MIN_STRETCH - 1 : n - _MIN_STRETCH]
    cut = int(np.argmax(bridge)) + _MIN_STRETCH
    beside = np.concatenate((ranks[:cut] - ranks[:cut].mean(), ranks[cut:] - ranks[cut:].mean()))
    tau = max(_autocorrelation_time(_autocovariance(beside)), _autoregressive_time(beside))
    deviation = math.sqrt(tau * float(beside @ beside))
    reach = float(bridge[cut - _MIN_STRETCH])
    return (reach / deviation / (1 + 10 * tau / n) if deviation > 0 else math.inf if reach > 0 else 0.0), begin + cut


def two_modes(times_s: Floats, *, min_gap: float = 0.05) -> Modes | None:
    """Two speeds in a series of times, or None: medians of both, and the share of the slow one.

    Looked for in the times, and, for speeds that last longer than their noise is wide, in running medians of five.
    """
    modes = _two_humps(times_s, min_gap)
    if modes is None and len(times_s) >= _MIN_SMOOTHED:
        modes = _two_humps(np.median(sliding_window_view(times_s, 5), axis=1), min_gap)
    return modes


_MIN_SMOOTHED = 100


def _two_humps(times_s: Floats, min_gap: float) -> Modes | None:
    """Two humps in the distribution of the times.

    The split of the logarithms with the largest variance between its parts (Otsu, IEEE Trans. SMC 9, 1979), kept when
    the valley is real: the middle third between the two medians holds at most 15 % of the smaller part, which has at
    least 3 times and 2 % of them (one normal hump, split in two, has 35 % there), and the parts lie five standard
    deviations apart (Ashman, Bird & Zepf, Astronomical Journal 108, 1994: D > 2 separates; one hump, split, has 2.7).
    """
    n = len(times_s)
    least = max(3, math.ceil(0.02 * n))
    if n < MIN_SAMPLES or n < 2 * least:
        return None
    logs = np.log(np.sort(times_s))
    total = np.cumsum(logs)
    below = np.arange(1, n)
    between = below * (n - below) * (total[:-1] / below - (total[-1] - total[:-1]) / (n - below)) ** 2
    between = between[least - 1 : n - least]
    split = int(np.argmax(between)) + least
    low, high = float(np.median(logs[:split])), float(np.median(logs[split:]))
    third = (high - low) / 3
    valley = int(logs.searchsorted(high - third, "left")) - int(logs.searchsorted(low + third, "right"))
    distance = (high - low) / math.sqrt((float(logs[:split].var()) + float(logs[split:].var())) / 2 + 1e-30)
    if high - low < math.log1p(min_gap) or valley > 0.15 * min(split, n - split) or distance < _MIN_DISTANCE:
        return None
    return Modes(math.exp(low), math.exp(high), (n - split) / n)


_MIN_DISTANCE = 5.0


def summarise(
    per_rank_s: Floats,
    rank_time: RankTime = "slowest",
    *,
    stopped: Stopped = "fixed",
    confidence: float = 0.95,
    calls_s: Floats | None = None,
) -> Summary:
    """All that is kept of a row's samples, of shape (ranks, samples), seconds per call; at least one sample.

    A batch's mean hides two modes of its calls. Where the backend can time single calls, `calls_s` holds such times and
    modes are looked for there; else in the samples.
    """
    series = combine_ranks(per_rank_s, rank_time)
    interval = median_interval(series, confidence, sequential=stopped == "precision")
    median_s = float(np.median(series))
    p5_s, p95_s, p99_s = (float(q) for q in np.percentile(series, (5, 95, 99)))
    change, significant = drift(series)
    rank_medians_s = np.median(per_rank_s, axis=1)
    slowest = int(np.argmax(rank_medians_s))
    return Summary(
        samples=len(series),
        median_s=median_s,
        mean_s=float(series.mean()),
        low_s=None if interval is None else interval.low_s,
        high_s=None if interval is None else interval.high_s,
        confidence=confidence,
        min_s=float(series.min()),
        p5_s=p5_s,
        p95_s=p95_s,
        p99_s=p99_s,
        max_s=float(series.max()),
        spread=(p95_s - p5_s) / median_s,
        drift=change,
        drift_is_significant=significant,
        autocorrelation=_lag1(_centred_ranks(series, np.sort(series))),
        level_shifts=level_shifts(series),
        two_modes=two_modes(series if calls_s is None else calls_s),
        slowest_rank=slowest,
        rank_skew=1 - float(rank_medians_s.min()) / float(rank_medians_s[slowest]),
        stopped=stopped,
    )


# --- reasons for doubt -----------------------------------------------------------------------------------------------


def marks(
    summary: Summary,
    precision: float,
    *,
    sched: str = "default",
    tick_s: float | None = None,
    calls_per_sample: int = 1,
    max_skew: float = 0.1,
) -> tuple[Mark, ...]:
    """Why the row cannot be trusted, or must be read with care: one line each, with its numbers; empty when it can.

    `tick_s` is the period of the scheduler's tick where the calls run on CPUs (4 ms at HZ=250), None where they do not.
    """
    return tuple(_marks(summary, precision, sched, tick_s, calls_per_sample, max_skew))


def _marks(
    summary: Summary, precision: float, sched: str, tick_s: float | None, calls_per_sample: int, max_skew: float
) -> Iterator[Mark]:
    half_width = summary.half_width
    if half_width is None:
        yield Mark(
            "few_samples",
            f"{summary.samples} samples with autocorrelation {summary.autocorrelation:.2f} are too few for a "
            f"{summary.confidence:.0%} interval: give the row more time (--row-budget, --time-budget) or more calls (-n)",
        )
    elif half_width > precision:
        yield Mark(
            "wide_interval",
            f"the median {format_time(summary.median_s)} is known to {half_width:.1%}, asked for {precision:.1%}: "
            + ("raise --row-budget or --time-budget" if summary.stopped == "budget" else "take more samples"),
        )
    if summary.level_shifts:
        yield Mark(
            "level_shift",
            "the level jumps "
            + ", ".join(f"by {shift.ratio - 1:+.0%} at sample {shift.sample}" for shift in summary.level_shifts)
            + f" of {summary.samples}: the machine changed speed, the median mixes both",
        )
    elif summary.drift_is_significant and abs(summary.drift) > precision:
        yield Mark(
            "drift",
            f"the time {'falls' if summary.drift < 0 else 'rises'} by {abs(summary.drift):.1%} over the row: "
            + ("warm up longer (-w)" if summary.drift < 0 else "the machine slows down, measure again"),
        )
    if summary.two_modes is not None:
        yield _two_modes_mark(summary, summary.two_modes, sched, tick_s, calls_per_sample)
    if summary.rank_skew > max_skew:
        yield Mark(
            "rank_skew",
            f"rank {summary.slowest_rank} is the slowest; the fastest rank's median is {summary.rank_skew:.0%} shorter",
        )


def _two_modes_mark(summary: Summary, modes: Modes, sched: str, tick_s: float | None, calls_per_sample: int) -> Mark:
    what = (
        f"two speeds: {format_time(modes.low_s)} and, for {modes.share_high:.0%}, {format_time(modes.high_s)}; "
        f"the mean is {summary.mean_s / summary.median_s:.2f} times the median"
    )
    gap_s = modes.high_s - modes.low_s
    if sched == "default" and tick_s and any(_is_ticks(gap, tick_s) for gap in (gap_s, gap_s * calls_per_sample)):
        return Mark(
            "scheduler_tick",
            f"{what}; they lie a scheduler tick ({format_time(tick_s)}) apart: threads wait for a core, "
            "try --sched batch",
        )
    return Mark("two_modes", what)


def _is_ticks(gap_s: float, tick_s: float) -> bool:
    """Whether the gap is one to four ticks, to a quarter of a tick."""
    ticks = round(gap_s / tick_s)
    return 1 <= ticks <= 4 and abs(gap_s - ticks * tick_s) <= tick_s / 4
