"""overlap: launch and wire, more or less side by side; (t0^p + (S b)^p)^(1/p), p from a short list."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from busbw.core.cost_form import Overlap
from busbw.costs.shape import Floats, Runs, Shape, Solved, reweighted, solve_two

SHARPNESS = (0.5, 0.7, 1.5, 2.5, 6.0)
"""Half a dozen values tell all shapes apart that rows with a scatter of 1 % can; p = 1 is the line's. Below 1/2 (a
pipeline of the best depth) no mechanism is known, and the rate at large S is anyone's guess."""


def _solve(runs: Runs) -> Iterator[Solved]:
    return (solve_overlap(runs, sharpness, 3) for sharpness in SHARPNESS)


def solve_overlap(runs: Runs, sharpness: float, parameters: int) -> Solved:
    """T^p = t0^p + (S b)^p is linear in t0^p and b^p; (model / T)^p - 1 is p times the relative error."""
    u, v = runs.seconds**-sharpness, (runs.sizes / runs.seconds) ** sharpness

    def step(weights: Floats) -> tuple[Floats, Floats, npt.NDArray[np.bool_], Floats]:
        launch, wire, valid = solve_two(weights, u, v, np.ones(len(u)))
        valid = valid & (launch > 0) & (wire > 0)
        launch, wire = np.where(valid, launch, 1.0), np.where(valid, wire, 1.0)
        return launch, wire, valid, np.log(launch[:, None] * u + wire[:, None] * v) / sharpness

    return reweighted(
        runs, parameters, step, lambda a, b: Overlap(a ** (1 / sharpness), b ** (1 / sharpness), sharpness)
    )


SHAPE = Shape("overlap", "launch and wire side by side", _solve)
