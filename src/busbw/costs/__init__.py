"""Fitting: measurements -> cost model, with what each number rests on and what the data cannot tell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from busbw.core.measurement import Measurement
    from busbw.costs.report import FitReport


def fit(measurements: Iterable[Measurement]) -> FitReport:
    """Fit every (collective, N, group of settings) of the rows, and how each collective goes with N.

    The report's `model` is a CostModel: it prices calls, and is what is saved. Raises UsageError when there is nothing
    to fit: no group of rows with two sizes or more.
    """
    from busbw.costs.report import fit_report

    return fit_report(measurements)
