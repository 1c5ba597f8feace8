"""Everything that a fit says: the curves, how they go with N, what was left out, and the model made of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from busbw.core.cost_model import CostModel
from busbw.core.measurement import Measurement
from busbw.costs.curve import CurveFit, fit_curve
from busbw.costs.points import Points, group_points
from busbw.costs.scaling import ScalingFit, fit_scaling
from busbw.errors import UsageError


@dataclass(frozen=True, slots=True)
class FitReport:
    """What `fit` found."""

    curves: tuple[CurveFit, ...]
    scalings: tuple[ScalingFit, ...]
    skipped: tuple[str, ...]
    """One sentence for each group of rows that is not in the model."""
    model: CostModel


def fit_report(measurements: Iterable[Measurement]) -> FitReport:
    """See `busbw.costs.fit`."""
    rows = list(measurements)
    return fit_groups(group_points(rows), len(rows))


def fit_groups(groups: Iterable[Points], rows: int) -> FitReport:
    """The same for rows that are grouped already; `rows` is how many there were, for the error."""
    curves, skipped = [], []
    for points in groups:
        found = fit_curve(points)
        if found is None:
            skipped.append(f"{points.collective} N={points.world_size}: one size only; a fit needs two or more")
        else:
            curves.append(found)
    if not curves:
        raise UsageError(
            f"nothing to fit in {rows} row{'' if rows == 1 else 's'}: it takes two sizes or more of one collective, at N of 2 or more and "
            "with the same settings; what a file does not tell, --op and -N do"
        )
    families: dict[tuple[str, tuple[tuple[str, str], ...]], list[CurveFit]] = defaultdict(list)
    for fit in curves:
        families[fit.curve.collective, tuple(sorted(fit.curve.settings.items()))].append(fit)
    scalings = tuple(fit_scaling(family) for family in families.values())
    model = CostModel(
        tuple(fit.curve for fit in curves),
        tuple(scaling for fit in scalings if (scaling := fit.scaling) is not None),
    )
    return FitReport(tuple(curves), scalings, tuple(skipped), model)
