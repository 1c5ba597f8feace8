"""floor: a launch alone; T does not depend on S."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from busbw.core.cost_form import Overlap
from busbw.costs.shape import Floats, Runs, Shape, Solved, reweighted


def _solve(runs: Runs) -> list[Solved]:
    u = 1 / runs.seconds

    def step(weights: Floats) -> tuple[Floats, Floats, npt.NDArray[np.bool_], Floats]:
        launch = (weights @ u) / (weights @ (u * u))
        return launch, np.zeros_like(launch), launch > 0, np.log(launch[:, None] * u)

    return [reweighted(runs, 1, step, lambda a, b: Overlap(a, 0.0))]


SHAPE = Shape("floor", "a launch alone", _solve)
