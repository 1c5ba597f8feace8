"""Is a difference between two sets of launches real? The unit is a launch: one number per row and launch.

Calls of one launch share its luck (where buffers lie, which core or channel a rank got, what else the machine does), so
more calls do not bring two launches together; only more launches tell their spread. There are few of them, two to ten
a side, and many rows. So, on logarithms of the times (x = log t; a difference of means is the log of a ratio):

1. A row's spread borrows from the other rows' (moderated t: Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004): with s^2 of
   nu = nA + nB - 2 degrees of freedom, and a prior s0^2 worth d0 degrees that is fitted to all rows' s^2,
   ``s~^2 = (d0 s0^2 + nu s^2) / (d0 + nu)`` and ``t = (mean_B - mean_A) / (s~ sqrt(1/nA + 1/nB))``.
   Launches that are slow as a whole make the rows' s^2 alike without adding knowledge: the degrees of freedom are
   capped at those of the pooled variance of correlated rows, ``nu R / (1 + (R - 1) mean r^2)``.
2. Beside its rows, the launches of a curve (one collective, N, dtype, ...) are compared by the mean over its rows, and
   so are all rows together: a change that is too small for any row, but common to all, is found there.
3. All of these are one family, in which a false alarm anywhere has at most the probability `alpha`: by permuting the launches'
   sides, with the step-down maximum of |z| (Westfall & Young, Resampling-Based Multiple Testing, 1993, algorithm 4.1).
   It holds for any distribution of launches and any correlation of rows, and needs about four launches a side: the
   real division must be able to be extreme enough among all.
   A launch that fell into a hole (another job, a clock that dropped) must not decide: in each division a time that lies
   more than 4 robust standard deviations (1.4826 MAD; the row's, or the usual row's where that is larger) from its
   side's median is moved to there.
4. With fewer launches a t-test would have to be believed, and machines that flip between two speeds break it: two fast
   launches against two slow ones look like a certain difference. So a row is also not taken to repeat better than the
   `assumed` spread of its kind, and Holm's correction replaces the permutations. With one launch a side the assumed
   spread is all there is.

t of different degrees are made comparable as normal deviates by Wallace's transform (Ann. Math. Statist. 30, 1959),
``z = (8 nu + 1) / (8 nu + 3) sqrt(nu log(1 + t^2 / nu))``, which has a closed inverse and errs to the careful side.

Pure functions: no clock, no input or output; the random permutations of many launches have a fixed seed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

__all__ = ["ASSUMED", "MODERATED", "PERMUTATION", "Decision", "complete_curves", "decide"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

PERMUTATION, MODERATED, ASSUMED = "permutation", "moderated-t", "assumed-spread"
"""Methods, in words that are printed: point 3; points 1 and 4; the assumed spread alone."""

LEAST_SPREAD = 0.001
"""No row is taken to repeat better than this (a share): printed digits and clocks do not."""
_MOST_WAYS, _MOST_AT_ONCE = 1000, 1_000_000
_OUTLIER = 4.0
_LEAST_ROWS_FOR_PRIOR = 4
_Z95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Decision:
    """Per row, then per curve: the log ratio B/A, its 95 % interval (for itself alone), and whether it is real.

    `p` is corrected for the whole family; `reach` is the smallest absolute log ratio that would have been called real.
    """

    log_ratio: Floats
    half_width: Floats
    p: Floats
    reach: Floats
    method: str
    logs: Floats
    """The logarithms that were compared: those given, outliers moved in."""


def decide(
    logs: Floats, is_b: Bools, curves: Sequence[Sequence[int]], assumed: Floats, alpha: float = 0.05
) -> Decision:
    """Compare launches: `logs` of shape (launches, rows), nan where a launch lacks a row; `is_b` says whose each is.

    `curves` are lists of rows that are also compared together, rows that all launches have (`complete_curves`). `assumed` is the spread
    (standard deviation of log t) between launches that each row has by default. Each row needs a launch on both sides.
    """
    weights = _weights(logs, curves)
    rows = logs.shape[1]
    seen = np.isfinite(logs)
    filled = np.where(seen, logs - np.nanmean(logs, axis=0), 0.0)
    family = np.hstack([filled, filled @ weights])
    present = np.hstack([seen, np.ones((len(logs), weights.shape[1]), bool)]).astype(float)
    observed = is_b[None, :].astype(float)
    can_estimate = bool(present.sum(axis=0).min() >= _LEAST_LAUNCHES)
    cap = _pooled_degrees(filled, seen, is_b) if can_estimate else 0.0
    if can_estimate and _least_p(is_b) <= alpha:
        moved = _without_outliers(family, present > 0, observed > 0)
        difference, error, degrees = (part[0] for part in _moderated(moved, present, observed, rows, cap))
        z = _to_z(np.abs(difference) / error, degrees)
        divisions = _divisions(is_b)
        size = max(1, _MOST_AT_ONCE // family.size)
        permuted = []
        for chunk in (divisions[first : first + size] for first in range(0, len(divisions), size)):
            d, e, nu = _moderated(_without_outliers(family, present > 0, chunk > 0), present, chunk, rows, cap)
            permuted.append(_to_z(np.abs(d) / e, nu))
        p, critical = _step_down(z, np.vstack(permuted), alpha)
        used = np.where(seen, moved[0, :, :rows] + np.nanmean(logs, axis=0), np.nan)
        half_width, reach = _from_z(_Z95, degrees) * error, _from_z(critical, degrees) * error
        return Decision(difference, half_width, p, reach, PERMUTATION, used)
    difference, error, degrees = (part[0] for part in _moderated(family[None], present, observed, rows, cap))
    z = _to_z(np.abs(difference) / error, degrees)
    critical = NormalDist().inv_cdf(1 - alpha / 2 / len(z))
    n_b = present[is_b].sum(axis=0)
    of_kind = np.concatenate([assumed, [float(np.median(assumed[column > 0])) for column in weights.T]])
    least_error = of_kind * np.sqrt(1 / n_b + 1 / (present.sum(axis=0) - n_b))
    half_width, reach = _Z95 * least_error, critical * least_error
    if not can_estimate:
        return Decision(difference, half_width, _holm(np.abs(difference) / least_error), reach, ASSUMED, logs)
    return Decision(
        difference,
        np.maximum(half_width, _from_z(_Z95, degrees) * error),
        _holm(np.minimum(np.abs(difference) / least_error, z)),
        np.maximum(reach, _from_z(critical, degrees) * error),
        MODERATED,
        logs,
    )


_LEAST_LAUNCHES = 4
"""Of a row, on both sides together: with fewer, the spread between launches cannot be estimated."""


def _from_z(z: float | Floats, degrees: Floats) -> Floats:
    """The quantile of Student's t that corresponds to the normal deviate z: the inverse of Wallace's transform."""
    scaled = z * (8 * degrees + 3) / (8 * degrees + 1)
    return np.sqrt(degrees * np.expm1(scaled**2 / degrees))


def _to_z(t: Floats, degrees: Floats) -> Floats:
    z: Floats = (8 * degrees + 1) / (8 * degrees + 3) * np.sqrt(degrees * np.log1p(t * t / degrees))
    return z


def complete_curves(logs: Floats, curves: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Of each curve the rows that every launch has, where these are two or more."""
    whole = set(np.flatnonzero(np.isfinite(logs).all(axis=0)).tolist())
    kept = {name: [row for row in rows if row in whole] for name, rows in curves.items()}
    return {name: rows for name, rows in kept.items() if len(rows) > 1}


def _weights(logs: Floats, curves: Sequence[Sequence[int]]) -> Floats:
    """Shape (rows, curves): a curve is a mean over its rows, in which noisy rows count less.

    A row's weight is one over its spread, but never more than that of the median row. The spread is that over all
    launches, whichever side they are on, so that permuting sides does not change it.
    """
    weights = np.zeros((logs.shape[1], len(curves)))
    for index, rows in enumerate(curves):
        spread = logs[:, list(rows)].std(axis=0) + LEAST_SPREAD
        weights[list(rows), index] = 1 / np.maximum(spread, np.median(spread))
    total: Floats = weights / weights.sum(axis=0)
    return total


def _without_outliers(family: Floats, present: Bools, sides: Bools) -> Floats:
    """For each division (sides: divisions x launches): the family with outliers moved in, divisions x launches x members."""
    in_b = sides[:, :, None] & present
    in_a = ~sides[:, :, None] & present
    center = np.where(sides[:, :, None], _median(family, in_b)[:, None], _median(family, in_a)[:, None])
    distance = np.abs(family - center)
    deviation = 1.4826 * _median(distance, in_a | in_b)
    usual = np.median(deviation, axis=1, keepdims=True)
    limit = _OUTLIER * np.maximum(np.maximum(deviation, usual), LEAST_SPREAD)[:, None]
    moved: Floats = np.where(present, np.clip(family, center - limit, center + limit), 0.0)
    return moved


def _median(values: Floats, among: Bools) -> Floats:
    """Medians over the launches (axis 1 of `among`) of the values that count; 0 where none does."""
    ordered = np.sort(np.where(among, values, math.inf), axis=1)
    count = among.sum(axis=1, keepdims=True)
    low, high = (np.take_along_axis(ordered, np.maximum(index, 0), 1) for index in ((count - 1) // 2, count // 2))
    return np.where(count > 0, (low + high) / 2, 0.0)[:, 0]


def _moderated(family: Floats, present: Floats, sides: Floats, rows: int, cap: float) -> tuple[Floats, Floats, Floats]:
    """For each division of the launches (sides: divisions x launches, 1 for B): difference, error, degrees of freedom.

    `family` is divisions x launches x members; where a launch lacks a row it is 0.
    """
    n_b, n = sides @ present, present.sum(axis=0)
    n_a = n - n_b
    sum_b, total = (sides[:, :, None] * family).sum(axis=1), family.sum(axis=1)
    mean_b, mean_a = sum_b / np.maximum(n_b, 1), (total - sum_b) / np.maximum(n_a, 1)
    nu = np.maximum(np.broadcast_to(n - 2, n_b.shape), 1)
    squares = (family**2).sum(axis=1) - n_b * mean_b**2 - n_a * mean_a**2
    variance = np.maximum(squares / nu, LEAST_SPREAD**2)
    degrees = nu.astype(float)
    if rows >= _LEAST_ROWS_FOR_PRIOR:
        prior, weight = _prior(variance[:, :rows], nu[:, :rows])
        variance = variance.copy()
        variance[:, :rows] = (weight * prior + nu[:, :rows] * variance[:, :rows]) / (weight + nu[:, :rows])
        degrees[:, :rows] = np.maximum(np.minimum(nu[:, :rows] + weight, cap), nu[:, :rows])
    error = np.sqrt(variance * (1 / np.maximum(n_a, 1) + 1 / np.maximum(n_b, 1)))
    difference = np.where((n_a > 0) & (n_b > 0), mean_b - mean_a, 0.0)  # a side without launches says nothing
    return difference, error, degrees


def _prior(variance: Floats, nu: Floats) -> tuple[Floats, Floats]:
    """The level s0^2 of the rows' variances and how many degrees of freedom d0 it is worth (Smyth 2004, section 6.2)."""
    e = np.log(variance) - _digamma(nu / 2) + np.log(nu / 2)
    level = e.mean(axis=1, keepdims=True)
    dispersion = e.var(axis=1, ddof=1, keepdims=True) - _trigamma(nu / 2).mean(axis=1, keepdims=True)
    d0 = np.clip(2 * _inverse_trigamma(np.maximum(dispersion, 1e-6)), 0.01, _MOST_PRIOR)
    prior = np.exp(level + _digamma(d0 / 2) - np.log(d0 / 2))
    return prior, d0


_MOST_PRIOR = 1e4


def _digamma(x: Floats) -> Floats:
    shift = sum(1 / (x + k) for k in range(8))
    y = x + 8
    return np.log(y) - 1 / (2 * y) - 1 / (12 * y**2) + 1 / (120 * y**4) - shift


def _trigamma(x: Floats) -> Floats:
    shift = sum(1 / (x + k) ** 2 for k in range(8))
    y = x + 8
    return 1 / y + 1 / (2 * y**2) + 1 / (6 * y**3) - 1 / (30 * y**5) + shift


_GRID = np.exp(np.linspace(math.log(1e4), math.log(1e-3), 600))
_TRIGAMMA_OF_GRID = _trigamma(_GRID)


def _inverse_trigamma(value: Floats) -> Floats:
    return np.exp(np.interp(np.log(value), np.log(_TRIGAMMA_OF_GRID), np.log(_GRID)))


def _pooled_degrees(filled: Floats, seen: Bools, is_b: Bools) -> float:
    """Degrees of freedom of the mean of the rows' variances, whose estimates correlate as r^2.

    The mean squared correlation of independent rows is 1 / nu by chance; that much is taken off.
    """
    data = filled[:, seen.all(axis=0)]
    rows, nu = data.shape[1], len(is_b) - 2
    if rows < 2:
        return float(nu)
    residual = np.vstack([side - side.mean(axis=0) for side in (data[~is_b], data[is_b])])
    length = np.sqrt((residual**2).sum(axis=0))
    unit = residual / np.where(length > 0, length, 1.0)
    r2 = (unit.T @ unit) ** 2
    mean_r2 = (float(r2.sum()) - float(np.trace(r2))) / (rows * (rows - 1))
    mean_r2 = min(max((mean_r2 - 1 / nu) / (1 - 1 / nu), 0.0), 1.0)
    return float(nu * rows / (1 + (rows - 1) * mean_r2))


def _least_p(is_b: Bools) -> float:
    """The smallest p that permuting these launches can reach; with sides of one size, each division is there twice."""
    n, b = len(is_b), int(is_b.sum())
    return (2 if 2 * b == n else 1) / math.comb(n, b)


def _divisions(is_b: Bools) -> Floats:
    """Ways to divide the launches into sides of these sizes; at most _MOST_WAYS, then the real one and random ones."""
    n, b = len(is_b), int(is_b.sum())
    ways = math.comb(n, b)
    if ways > _MOST_WAYS:
        order = np.argsort(np.random.default_rng(0).random((_MOST_WAYS - 1, n)), axis=1)
        return np.vstack([is_b[None, :], order < b]).astype(float)
    sides = np.zeros((ways, n))
    for index, chosen in enumerate(itertools.combinations(range(n), b)):
        sides[index, list(chosen)] = 1
    return sides


def _step_down(z: Floats, permuted: Floats, alpha: float) -> tuple[Floats, float]:
    """Corrected p of each member by the maximum over the members that are not more extreme, and the critical z."""
    order = np.argsort(-z)
    maxima = np.maximum.accumulate(permuted[:, order[::-1]], axis=1)[:, ::-1]
    p_ordered = np.maximum.accumulate((maxima >= z[order] - 1e-9).mean(axis=0))
    p = np.empty_like(z)
    p[order] = p_ordered
    return p, float(np.quantile(maxima[:, 0], 1 - alpha, method="higher"))


def _holm(z: Floats) -> Floats:
    order = np.argsort(-z)
    raw = np.array([math.erfc(value / math.sqrt(2)) for value in z[order]])
    steps = np.arange(len(z), 0, -1)
    p = np.empty_like(z)
    p[order] = np.minimum(np.maximum.accumulate(raw * steps), 1.0)
    return p
