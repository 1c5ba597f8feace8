"""What a shape is to the fit: a formula of T(S) that can be fitted to many runs of neighbouring sizes at once.

All fits are of log T, with Student's t of 4 degrees for what is left over: relative errors count, and a row far off has
little weight. The shapes are linear in their parameters after a change of variables, so each is solved in closed form
and the weights repeated a few times (iteratively reweighted least squares; Lange, Little & Taylor, JASA 84, 1989).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from busbw.core.cost_form import Form
from busbw.registry import Registry

Floats = npt.NDArray[np.float64]

_HEAVY_TAIL = 4.0
_ROUNDS = 5
GROSS = 0.25


@dataclass(frozen=True, slots=True)
class Runs:
    """Points of one curve, and runs of them [start, stop): sizes and times scaled to about 1.

    `inside` has a row for each run, 1 where it holds the point; `noise` is the scatter of log T that is expected.
    """

    sizes: Floats
    seconds: Floats
    spans: tuple[tuple[int, int], ...]
    inside: Floats
    noise: float


@dataclass(frozen=True, slots=True)
class Solved:
    """One shape fitted to every run: `form(i)` in the scaled units; where not `valid`, it does not exist there."""

    parameters: int
    misfit: Floats
    """Sum of squares of what is left over in log T, far-off rows counted less, in units of noise^2."""
    weights: Floats
    gross: Floats
    """How many points of the run are off by more than GROSS (and four times the noise)."""
    valid: npt.NDArray[np.bool_]
    form: Callable[[int], Form]


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape. Each file of `busbw.costs.forms` defines one, named SHAPE.

    `has_limits`: it has a launch or a rate that can be read off, as the regimes must.
    """

    name: str
    summary: str
    solve: Callable[[Runs], Iterable[Solved]]
    has_limits: bool = True


SHAPES: Registry[Shape] = Registry("busbw.costs.forms", "SHAPE", "shape")
"""Every shape by name."""


def reweighted(
    runs: Runs,
    parameters: int,
    step: Callable[[Floats], tuple[Floats, Floats, npt.NDArray[np.bool_], Floats]],
    form: Callable[[float, float], Form],
) -> Solved:
    """Repeat `step` (weights -> two parameters, valid, residuals of log T), each of shape (runs, ...)."""
    weights = runs.inside
    for _ in range(_ROUNDS):
        first, second, valid, residual = step(weights)
        strange = (residual / runs.noise) ** 2 / _HEAVY_TAIL
        weights = runs.inside / (1 + strange)
    misfit = _HEAVY_TAIL * (runs.inside * np.log1p(strange)).sum(axis=1)
    gross = (runs.inside * (np.abs(residual) > max(GROSS, 4 * runs.noise))).sum(axis=1)
    return Solved(parameters, misfit, weights, gross, valid, lambda run: form(float(first[run]), float(second[run])))


def solve_two(weights: Floats, u: Floats, v: Floats, y: Floats) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Weighted least squares of y on a u + b v for every run: a, b, and whether u and v differ enough."""
    uu, uv, vv = weights @ (u * u), weights @ (u * v), weights @ (v * v)
    uy, vy = weights @ (u * y), weights @ (v * y)
    determinant = uu * vv - uv**2
    valid = determinant > 1e-13 * uu * vv
    determinant = np.where(valid, determinant, 1.0)
    return (uy * vv - vy * uv) / determinant, (vy * uu - uy * uv) / determinant, valid
