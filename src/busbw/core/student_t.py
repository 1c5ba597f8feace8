"""Student's t, for intervals from few samples, without scipy."""

from __future__ import annotations

import math
from statistics import NormalDist


def student_t(probability: float, degrees: float) -> float:
    """The quantile of Student's t with `degrees` (1 or more, not only whole) degrees of freedom.

    Exact at 1 and 2 degrees, Hill's approximation elsewhere (Communications of the ACM 13, 1970, algorithm 396): within
    0.1 % between 0.5 and 0.999.
    """
    if probability < 0.5:
        return -student_t(1 - probability, degrees)
    tails = 2 * (1 - probability)
    if degrees <= 1:
        return 1 / math.tan(tails * math.pi / 2)
    if degrees == 2:
        return math.sqrt(2 / (tails * (2 - tails)) - 2)
    a = 1 / (degrees - 0.5)
    b = 48 / a**2
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * degrees
    y = (d * tails) ** (2 / degrees)
    if y > 0.05 + a:
        x = NormalDist().inv_cdf(tails / 2)
        y = x * x
        if degrees < 5:
            c += 0.3 * (degrees - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = math.expm1(a * y * y)
    else:
        y = (
            (1 / (((degrees + 6) / (degrees * y) - 0.089 * d - 0.822) * (degrees + 2) * 3) + 0.5 / (degrees + 4)) * y
            - 1
        ) * (degrees + 1) / (degrees + 2) + 1 / y
    return math.sqrt(degrees * y)
