"""How far two launches of the same work may lie apart when nobody has repeated them: an assumption, stated as one.

With one launch a side no statistics can tell a change from the luck of a launch. What is assumed is the standard
deviation between launches, as a share of the time. Where the defaults come from: launches of gloo on a shared machine
differ by 13 to 168 % (docs/comparing.md has the measurement); of GPUs there is the post's table, one launch a world size,
whose rows of 4 and 64 KiB should take the same time and differ by -18 to +27 %, and whose plateaus scatter by a few per
cent. They are upper ends, not averages: a change that is called real must not be the luck of a launch. Where the ratios
of neighbouring sizes scatter more than that, their scatter counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ON_CPUS = 1.0
SHORT, LONG = 0.10, 0.05
SHORT_S = 100e-6
_CPU_BACKENDS = ("gloo", "mpi", "ucc")
_LEAST_DIFFERENCES = 4


def assumed_spread(labels: Mapping[str, str], time_s: float) -> float:
    """The assumed standard deviation between launches: 100 % on CPUs (a factor of 2.7), 10 % below 100 us, 5 % above."""
    if labels.get("backend") in _CPU_BACKENDS and labels.get("memory") != "device":
        return ON_CPUS
    return SHORT if time_s < SHORT_S else LONG


def neighbours_spread(log_ratio: Floats, curves: Sequence[Sequence[int]]) -> Floats:
    """What the ratios of neighbouring sizes of a curve say of a launch's luck: its standard deviation, 0 if too few.

    A change of the machine moves neighbours alike; what is left is luck. From second differences, d[i-1] - 2 d[i] +
    d[i+1], whose variance is 6 times that of d, and d has twice the variance of a launch. Their upper quartile stands
    for them, since a part of the rows may be quieter, and one step of the curve must not count. Short curves are
    judged by all curves together.
    """
    second = [np.abs(np.diff(log_ratio[list(curve)], 2)) for curve in curves]
    together = np.concatenate([*second, np.zeros(0)])
    spread = np.zeros(len(log_ratio))
    for curve, own in zip(curves, second, strict=True):
        values = own if len(own) >= _LEAST_DIFFERENCES else together
        if len(values) >= _LEAST_DIFFERENCES:
            spread[list(curve)] = float(np.quantile(values, 0.75)) / _NORMAL_QUARTILE / math.sqrt(6 * 2)
    return spread


_NORMAL_QUARTILE = 1.15
"""Of |x|: three quarters of it lie below."""
