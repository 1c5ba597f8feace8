"""One curve over size, or two with a switch between them: T = (t0^p + (S/b)^p)^(1/p).

p = 1 adds launch and wire; a large p is their maximum, as when back-to-back calls overlap. Fitted by least absolute
deviations of logarithms on a grid that is refined, so that one bad row does not move the curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

POWERS = (1.0, 2.0, 8.0)
_GRID = 21


@dataclass(frozen=True, slots=True)
class CurveFit:
    """The launch t0 (s), the rate b (bytes of S a second), the power, and log(time / fit) of each point."""

    t0_s: float
    rate_Bps: float  # noqa: N815 - the unit's own capitals
    power: float
    residuals: tuple[float, ...]

    @property
    def misfit(self) -> float:
        """Sum of the absolute residuals."""
        return sum(abs(value) for value in self.residuals)

    @property
    def largest(self) -> float:
        """Largest absolute residual."""
        return max(abs(value) for value in self.residuals)


def fit_curve(sizes: Sequence[float], times: Sequence[float], powers: Sequence[float] = POWERS) -> CurveFit:
    """The best single curve over these points (at least two)."""
    size, time = np.asarray(sizes, float), np.asarray(times, float)
    return min((_fit(size, time, power) for power in powers), key=lambda fit: fit.misfit)


def _fit(size: Floats, time: Floats, power: float) -> CurveFit:
    logs = np.log(time)
    t0, b = float(np.log(time.min())), float(np.log((size / time).max()))
    reach0, reach1 = 1.5, 1.0
    for _ in range(6):
        t0s = np.linspace(t0 - reach0, t0 + reach0 / 3, _GRID)[:, None, None]
        bs = np.linspace(b - reach1 / 2, b + reach1 / 2, _GRID)[None, :, None]
        model = np.logaddexp(power * t0s, power * (np.log(size) - bs)) / power
        misfit = np.abs(logs - model).sum(axis=2)
        i, j = divmod(int(misfit.argmin()), _GRID)
        t0, b = float(t0s[i, 0, 0]), float(bs[0, j, 0])
        reach0, reach1 = reach0 * 0.35, reach1 * 0.35
    final = np.logaddexp(power * t0, power * (np.log(size) - b)) / power
    return CurveFit(float(np.exp(t0)), float(np.exp(b)), power, tuple(float(r) for r in logs - final))


@dataclass(frozen=True, slots=True)
class Switch:
    """Two curves: `after` begins at the point with index `start`."""

    start: int
    before: CurveFit
    after: CurveFit

    @property
    def misfit(self) -> float:
        """Sum of the absolute residuals of both."""
        return self.before.misfit + self.after.misfit

    @property
    def largest(self) -> float:
        """Largest absolute residual of either."""
        return max(self.before.largest, self.after.largest)


def best_switch(sizes: Sequence[float], times: Sequence[float], least: int = 3) -> Switch | None:
    """The best pair of curves with at least `least` points each; None when there are too few points."""
    found = None
    for start in range(least, len(sizes) - least + 1):
        before = fit_curve(sizes[:start], times[:start], (1.0,))
        after = fit_curve(sizes[start:], times[start:], (1.0,))
        switch = Switch(start, before, after)
        if found is None or switch.misfit < found.misfit:
            found = switch
    return found
