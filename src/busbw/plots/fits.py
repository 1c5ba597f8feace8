"""A line's fit: the curve through its points, what can be read off it, and the ribbon that shows it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from busbw.plots.chart import Ribbon
from busbw.plots.lines import Line
from busbw.units import format_size

if TYPE_CHECKING:
    from busbw.costs.curve import CurveFit, Interval

PER_OCTAVE = 4
"""Points of a drawn curve between a size and its double."""


def fit_line(line: Line) -> CurveFit | None:
    """The fit of one line, on its own points: those that are drawn. None where it has a single size."""
    from busbw.costs.curve import fit_curve
    from busbw.costs.points import Points

    points = [point for point in line.points if point.time_s > 0]
    sizes, seconds = (tuple(getattr(point, name) for point in points) for name in ("size_bytes", "time_s"))
    rows = sum(point.rows for point in points)
    settings = {"variant": line.variant} if line.variant else {}
    return fit_curve(Points(line.collective, line.world_size, settings, sizes, seconds, rows, (None,) * len(sizes)))


def ribbon(line: Line, fit: CurveFit, colour: str) -> Ribbon:
    """Seconds over S with the 95 % interval of a row measured in the same way, from the first size to the last."""
    x = grid(fit.curve.least_bytes, fit.curve.most_bytes)
    y, low, high = zip(*(fit.curve.at(size) for size in x), strict=True)
    return Ribbon(f"fit of {line.name}", x, y, low, high, colour, line.variant_index)


def grid(least_bytes: float, most_bytes: float, per_octave: int = PER_OCTAVE) -> tuple[float, ...]:
    """Sizes from the least to the most, evenly in logarithms."""
    steps = max(1, round(per_octave * math.log2(most_bytes / least_bytes)))
    inner = (least_bytes * (most_bytes / least_bytes) ** (i / steps) for i in range(1, steps))
    return (float(least_bytes), *inner, float(most_bytes))


def boundary(fit: CurveFit | None) -> Interval | None:
    """Where latency and bytes cost the same, if that lies inside the sizes of the fit."""
    if fit is None or fit.boundary_bytes is None:
        return None
    inside = fit.curve.least_bytes < fit.boundary_bytes.value < fit.curve.most_bytes
    return fit.boundary_bytes if inside else None


def rough_size(size_bytes: float) -> str:
    """A size to three digits: what a fit says is not known to the byte."""
    number, unit = format_size(round(size_bytes)).split()
    return f"{float(number):.3g} {unit}"
