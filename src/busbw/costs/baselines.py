"""What a fit has to beat: predictions that need no model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def interpolate(sizes: Sequence[float], seconds: Sequence[float], at: float) -> float:
    """Log T over log S by straight lines between neighbours; beyond the ends, on along the last two."""
    x, y = np.log(np.array(sizes, float)), np.log(np.array(seconds, float))
    where = float(np.log(at))
    i = min(max(int(np.searchsorted(x, where)), 1), len(x) - 1)
    return float(np.exp(y[i - 1] + (y[i] - y[i - 1]) * (where - x[i - 1]) / (x[i] - x[i - 1])))


def line(sizes: Sequence[float], seconds: Sequence[float], at: float) -> float:
    """T = t0 + S b by least squares of relative errors, neither below 0."""
    launch, per_byte = fit_line(sizes, seconds)
    return launch + per_byte * at


def fit_line(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """t0 and b of the plain relative line."""
    t = np.array(seconds, float)
    u, v = 1 / t, np.array(sizes, float) / t
    uu, uv, vv, uy, vy = u @ u, u @ v, v @ v, u.sum(), v.sum()
    determinant = uu * vv - uv * uv
    if determinant <= 1e-13 * uu * vv:
        return 0.0, float(vy / vv)
    launch, per_byte = (uy * vv - vy * uv) / determinant, (vy * uu - uy * uv) / determinant
    if launch < 0:
        return 0.0, float(vy / vv)
    if per_byte < 0:
        return float(uy / uu), 0.0
    return float(launch), float(per_byte)
