"""Relative least squares over few parameters, robust, of models with maxima in them; intervals by profiles.

The loss is that of soft L1 over ln(predicted / measured): square for small errors, linear beyond SOFT, so that rows of a
protocol switch do not pull. Where the fullest wire changes the loss has kinks, so steps along single parameters are taken
by turns with Levenberg-Marquardt's.

A parameter's interval has all values at which the loss, least over the others, rises by less than its noise allows: F's
quantile times the loss a degree of freedom, times what rows of one curve have in common. Where it never rises on one side,
the rows say nothing there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from busbw.core.student_t import student_t
from busbw.core.topology import Floats

SOFT = 0.02
ROUNDS = 60
FARTHEST = math.log(100.0)
"""How far a profile is followed from the best value, as a factor's logarithm."""
_SHIFTS = np.array([0.7, 0.3, 0.1, 0.04, 0.015, 0.005, 0.0015, 5e-4, 1e-4])

Errors = Callable[[Floats], Floats]
"""[sets, parameters] -> [sets, rows]."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The best parameters (logarithms), and how well they do."""

    parameters: Floats
    loss: float
    errors: Floats
    """[rows] ln(predicted / measured)."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A 95 % interval of a parameter (logarithms); infinite where the rows do not bound it."""

    low: float
    high: float


def soft_loss(errors: Floats) -> Floats:
    """[sets] the loss of errors [sets, rows]."""
    ratio = errors / SOFT
    return np.asarray((2 * SOFT**2 * (np.sqrt(1 + ratio * ratio) - 1)).sum(axis=-1))


def fit(errors: Errors, start: Floats, held: np.ndarray | None = None, rounds: int = ROUNDS) -> Fitted:
    """The parameters of the least loss from `start` on; those that are `held` stay."""
    at = start.copy()
    moves = np.arange(len(at)) if held is None else np.flatnonzero(~held)
    best = float(soft_loss(errors(at[None]))[0])
    for _ in range(rounds):
        before = best
        at, best = _along_each(errors, at, best, moves)
        at, best = _together(errors, at, best, moves)
        if before - best <= 1e-9 * max(before, 1e-12):
            break
    return Fitted(at, best, errors(at[None])[0])


def _along_each(errors: Errors, at: Floats, best: float, moves: np.ndarray) -> tuple[Floats, float]:
    """The best of many shifts of each parameter alone."""
    shifts = np.concatenate([_SHIFTS, -_SHIFTS])
    for k in moves:
        trials = np.repeat(at[None], len(shifts), axis=0)
        trials[:, k] += shifts
        losses = soft_loss(errors(trials))
        i = int(np.argmin(losses))
        if losses[i] < best:
            at, best = trials[i], float(losses[i])
    return at, best


def _together(errors: Errors, at: Floats, best: float, moves: np.ndarray) -> tuple[Floats, float]:
    """Levenberg-Marquardt steps with soft L1's weights, for several dampings at once."""
    if not len(moves):
        return at, best
    for _ in range(8):
        h = 1e-5
        trials = np.repeat(at[None], len(moves) + 1, axis=0)
        trials[np.arange(len(moves)), moves] += h
        values = errors(trials)
        here = values[-1]
        slopes = ((values[:-1] - here) / h).T
        weight = 1 / np.sqrt(1 + (here / SOFT) ** 2)
        square = slopes.T @ (slopes * weight[:, None])
        downhill = -slopes.T @ (here * weight)
        diagonal = np.diag(square).copy()
        diagonal[diagonal <= 0] = 1.0
        steps = []
        for damping in (0.0, 1e-3, 1e-1, 1.0, 10.0):
            matrix = square + np.diag(diagonal * (damping + 1e-12))
            step = np.linalg.lstsq(matrix, downhill, rcond=None)[0]
            steps.append(np.clip(step, -1.0, 1.0))
        trials = np.repeat(at[None], len(steps), axis=0)
        trials[:, moves] += np.array(steps)
        losses = soft_loss(errors(trials))
        i = int(np.argmin(losses))
        if not losses[i] < best * (1 - 1e-12):
            break
        at, best = trials[i], float(losses[i])
    return at, best


def bounds(errors: Errors, fitted: Fitted, groups: np.ndarray, held: np.ndarray) -> list[Bounds | None]:
    """A profile for each parameter that is not held; `groups` [rows] tells which rows are of one curve and err together."""
    count, rows = int((~held).sum()), len(fitted.errors)
    degrees = max(rows - count, 1)
    quantile = student_t(0.975, degrees) ** 2
    allowed = max(fitted.loss, rows * 1e-12) * (1 + quantile / degrees * _in_common(fitted.errors, groups))
    return [
        None
        if held[k]
        else Bounds(_edge(errors, fitted, k, held, -1.0, allowed), _edge(errors, fitted, k, held, 1.0, allowed))
        for k in range(len(held))
    ]


def _in_common(errors: Floats, groups: np.ndarray) -> float:
    """How many rows' noise one row stands for, since rows of a curve err together: 1 where they do not."""
    names, which = np.unique(groups, return_inverse=True)
    clipped = np.clip(errors, -2 * SOFT, 2 * SOFT)
    sizes = np.bincount(which)
    means = np.bincount(which, clipped) / sizes
    variance = float((clipped**2).mean())
    if variance <= 0 or len(names) < 2:
        return 1.0
    return max(1.0, float((means**2 * sizes**2).sum() / sizes.sum()) / variance)


def _edge(errors: Errors, fitted: Fitted, k: int, others_held: np.ndarray, side: float, allowed: float) -> float:
    """The farthest value on one side that the rows allow; infinite where they allow any."""
    held = others_held.copy()
    held[k] = True
    at, inside, width = fitted.parameters.copy(), 0.0, 0.01

    def loss_at(distance: float, start: Floats) -> Fitted:
        trial = start.copy()
        trial[k] = fitted.parameters[k] + side * distance
        return fit(errors, trial, held, rounds=6)

    while True:  # outwards, in growing steps, from the last best values of the others
        found = loss_at(inside + width, at)
        if found.loss > allowed:
            break
        at, inside = found.parameters, inside + width
        width *= 1.6
        if inside > FARTHEST:
            return side * math.inf
    outside = inside + width
    for _ in range(12):
        middle = (inside + outside) / 2
        found = loss_at(middle, at)
        if found.loss > allowed:
            outside = middle
        else:
            inside, at = middle, found.parameters
    return float(fitted.parameters[k] + side * inside)
