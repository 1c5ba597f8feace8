"""rate: the wire alone; S b, where every size is large."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from busbw.core.cost_form import Overlap
from busbw.costs.shape import Floats, Runs, Shape, Solved, reweighted


def _solve(runs: Runs) -> list[Solved]:
    v = runs.sizes / runs.seconds

    def step(weights: Floats) -> tuple[Floats, Floats, npt.NDArray[np.bool_], Floats]:
        wire = (weights @ v) / (weights @ (v * v))
        return np.zeros_like(wire), wire, wire > 0, np.log(wire[:, None] * v)

    return [reweighted(runs, 1, step, lambda a, b: Overlap(0.0, b))]


SHAPE = Shape("rate", "the wire alone", _solve)
