"""From N to N: how launch and rate of one collective go with the number of ranks, and what the data cannot tell.

At one N, T at S = 0 is launch and the latency of all steps together. Over N they part, where the data identifies it::

    steps:  t0 + steps(N) alpha      steps = 2(N-1) for all_reduce, N-1 for the others (a ring)
    log2:   t0 + log2(N) alpha       (a tree, recursive doubling)
    constant: t0

Two N fit any law of two parameters exactly, so they can refute the constant at most. From three N on, a law is kept when
its weighted squares are within the 95 % quantile of chi^2; where none is kept, there is a jump.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from busbw.core.cost_model import LAWS, Law, Scaling
from busbw.costs.curve import CurveFit, Interval

_CHI2_95 = (3.841, 5.991, 7.815, 9.488, 11.07, 12.59, 14.07, 15.51)
_SIDES = 1.96
LEAST_SPREAD = 0.02
"""Launch and rate of one N are not known better than this, relative: runs differ from day to day."""


@dataclass(frozen=True, slots=True)
class Trend:
    """One quantity over N: its values, the laws that the data allows (the first is used), and the verdict in words."""

    values: Mapping[int, Interval]
    laws: tuple[Law, ...]
    verdict: str
    """constant, steps, log2, cannot tell, jump, or one N."""
    text: str


@dataclass(frozen=True, slots=True)
class ScalingFit:
    """How one collective under one group of settings goes with N."""

    collective: str
    settings: Mapping[str, str]
    launch: Trend
    bandwidth: Trend
    alpha_s: Interval | None
    """Latency of one step of a ring; None where it is not identified."""
    launch_s: Interval | None
    """t0, the part of the launch that does not grow with N; None where it is not identified."""

    @property
    def scaling(self) -> Scaling | None:
        """What the cost model needs of it; None where nothing is known."""
        launch, wire = self.launch.laws, self.bandwidth.laws
        return Scaling(self.collective, self.settings, launch, wire) if launch and wire else None


def steps(collective: str, world_size: int) -> int:
    """Steps of a ring, one after the other."""
    return (2 if collective == "all_reduce" else 1) * (world_size - 1)


def fit_scaling(fits: Sequence[CurveFit]) -> ScalingFit:
    """The trends over the N of one collective and one group of settings."""
    first = fits[0].curve
    launches = {fit.curve.world_size: fit.launch_s for fit in fits if fit.launch_s is not None}
    rates = {fit.curve.world_size: fit.bandwidth_Bps for fit in fits if fit.bandwidth_Bps is not None}
    inverse = {n: Interval(1 / rate.value, 1 / rate.high, 1 / rate.low) for n, rate in rates.items()}
    launch = _trend(launches, "launch")
    wire = _trend(inverse, "1/B")
    alpha = launch_s = None
    if launch.verdict == "steps":
        launch_s, alpha = _parts(launches)
        scale = steps(first.collective, 2)
        alpha = Interval(*(value / scale for value in (alpha.value, alpha.low, alpha.high)))
    return ScalingFit(
        first.collective,
        first.settings,
        launch,
        Trend(rates, wire.laws, wire.verdict, _rate_text(rates, wire)),
        alpha,
        launch_s,
    )


def _trend(values: Mapping[int, Interval], what: str) -> Trend:
    worlds = sorted(values)
    if not worlds:
        return Trend(values, (), "cannot tell", f"no N identifies the {what}")
    if len(worlds) == 1:
        law = Law("constant", values[worlds[0]].value, 0.0)
        return Trend(values, (law,), "one N", f"not identifiable from one N ({worlds[0]}): t0 and alpha stay together")
    fitted = {name: _fit(name, values) for name in LAWS}
    free = {name: len(worlds) - (1 if name == "constant" else 2) for name in LAWS}
    kept = [name for name in LAWS if free[name] == 0 or fitted[name][1] <= _CHI2_95[min(free[name], 8) - 1]]
    if "constant" in kept:
        rest = tuple(fitted[name][0] for name in kept if name != "constant" and fitted[name][0].slope > 0)
        text = "does not change beyond its intervals" + (", nor is growth refuted" if rest else "")
        return Trend(values, (fitted["constant"][0], *rest), "constant", text)
    if not kept:
        best = min(("steps", "log2"), key=lambda name: fitted[name][1])
        below, above = max(
            pairwise(worlds),
            key=lambda pair: abs(math.log(values[pair[1]].value / values[pair[0]].value)),
        )
        ratio = values[above].value / values[below].value
        text = f"a jump from N = {below} to {above} (x {ratio:.2f}); neither steps nor log2 N fits, the cause is not in these data"
        return Trend(values, (fitted[best][0],), "jump", text)
    kept.sort(key=lambda name: fitted[name][1])
    if len(kept) > 1:
        text = "it changes with N; " + ("two N fit" if len(worlds) == 2 else "these N fit") + " steps and log2 N alike"
        return Trend(values, tuple(fitted[name][0] for name in ("log2", "steps")), "cannot tell", text)
    return Trend(
        values,
        (fitted[kept[0]][0],),
        kept[0],
        f"it grows with {'the steps of a ring' if kept[0] == 'steps' else 'log2 N'}",
    )


def _fit(name: str, values: Mapping[int, Interval]) -> tuple[Law, float]:
    """Weighted least squares with neither base nor slope below 0; and its chi^2."""
    rows = [(LAWS[name](n), value.value, _deviation(value)) for n, value in values.items()]
    a = sum(1 / s**2 for _, _, s in rows)
    b = sum(g / s**2 for g, _, s in rows)
    c = sum(g * g / s**2 for g, _, s in rows)
    y = sum(v / s**2 for _, v, s in rows)
    z = sum(g * v / s**2 for g, v, s in rows)
    determinant = a * c - b * b
    if name == "constant" or determinant <= 1e-12 * a * c:
        law = Law(name, y / a, 0.0)
    else:
        law = Law(name, (c * y - b * z) / determinant, (a * z - b * y) / determinant)
        if law.slope < 0:
            law = Law(name, y / a, 0.0)
        elif law.base < 0:
            law = Law(name, 0.0, z / c)
    return law, sum(((v - law.base - law.slope * g) / s) ** 2 for g, v, s in rows)


def _deviation(value: Interval) -> float:
    width = (value.high - value.low) / 2 if math.isfinite(value.high) else value.value
    return max(width / _SIDES, LEAST_SPREAD * value.value)


def _parts(values: Mapping[int, Interval]) -> tuple[Interval, Interval]:
    """t0 and the latency of one N-1 with their intervals, under the law of steps."""
    law, _ = _fit("steps", values)
    weights = [(n - 1.0, 1 / _deviation(value) ** 2) for n, value in values.items()]
    a, b, c = (sum(w * g**power for g, w in weights) for power in (0, 1, 2))
    determinant = a * c - b * b
    base, slope = _SIDES * math.sqrt(c / determinant), _SIDES * math.sqrt(a / determinant)
    return (
        Interval(law.base, max(law.base - base, 0.0), law.base + base),
        Interval(law.slope, max(law.slope - slope, 0.0), law.slope + slope),
    )


def _rate_text(rates: Mapping[int, Interval], wire: Trend) -> str:
    if len(rates) < 2:
        return wire.text if rates else "no N identifies B"
    values = [rate.value for rate in rates.values()]
    spread = f"{100 * (max(values) / min(values) - 1):.0f} %"
    if wire.verdict == "constant":
        return f"busbw collapses over N: the spread of {spread} is within the intervals"
    return f"B differs over N by {spread}, beyond its intervals"
