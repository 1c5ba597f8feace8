"""power: a rate that grows with S all along; c S^g, as while a library adds channels and threads."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from busbw.core.cost_form import Power
from busbw.costs.shape import Floats, Runs, Shape, Solved, reweighted, solve_two

STEEPEST = 1.5
"""A rate may also fall with S, but T as S^2 is a switch, not a shape."""


def _solve(runs: Runs) -> list[Solved]:
    x, y = np.log(runs.sizes), np.log(runs.seconds)

    def step(weights: Floats) -> tuple[Floats, Floats, npt.NDArray[np.bool_], Floats]:
        level, exponent, valid = solve_two(weights, np.ones(len(x)), x, y)
        valid = valid & (exponent > 0) & (exponent <= STEEPEST)
        return level, exponent, valid, level[:, None] + exponent[:, None] * x - y

    return [reweighted(runs, 2, step, lambda a, b: Power(float(np.exp(a)), 1.0, b))]


SHAPE = Shape("power", "a rate that grows with S", _solve, has_limits=False)
