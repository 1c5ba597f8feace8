"""How far two launches of the same work may lie apart when nobody has repeated them: an assumption, stated as one.

With one launch a side no statistics can tell a change from the luck of a launch. What is assumed is the standard
deviation between launches, as a share of the time. Sources of the defaults: launches of gloo on shared CPUs differ by
tens of per cent (docs/comparing.md); on GPUs the post's neighbouring sizes, where time should be flat, lie -18 to +27 %
apart below 100 us, and plateaus repeat within a few per cent (docs/comparing.md lists them). They are upper ends, not averages: a
change that is called real must not be the luck of a launch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ON_CPUS = 0.30
SHORT, LONG = 0.10, 0.05
SHORT_S = 100e-6
_CPU_BACKENDS = ("gloo", "mpi", "ucc")
_LEAST_SIZES = 5


def assumed_spread(labels: Mapping[str, str], time_s: float) -> float:
    """The assumed standard deviation between launches: 30 % on CPUs, 10 % below 100 us, 5 % above."""
    if labels.get("backend") in _CPU_BACKENDS and labels.get("memory") != "device":
        return ON_CPUS
    return SHORT if time_s < SHORT_S else LONG


def neighbours_spread(log_ratio: Floats, curves: Sequence[Sequence[int]]) -> Floats:
    """What the ratios of neighbouring sizes of a curve say of a launch's luck: its standard deviation, 0 if too few.

    A change of the machine moves neighbours alike; what is left is luck. From second differences, d[i-1] - 2 d[i] +
    d[i+1], whose variance is 6 times that of d, by their median (so that one step does not count), and d has twice
    the variance of a launch.
    """
    spread = np.zeros(len(log_ratio))
    for curve in curves:
        if len(curve) >= _LEAST_SIZES:
            second = np.diff(log_ratio[list(curve)], 2)
            spread[list(curve)] = float(np.median(np.abs(second))) / 0.6745 / math.sqrt(6 * 2)
    return spread
