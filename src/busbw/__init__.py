"""busbw: the price of collective communication, to measure, read and compare.

The verbs, nouns and errors below are the public interface. Each is loaded when it is first used, so `import busbw`
takes no time and needs none of the optional libraries.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from busbw._version import __version__

if TYPE_CHECKING:
    from busbw.algorithms.spec import Spec, parse_algorithm
    from busbw.bench import measure
    from busbw.comparing import Comparison, Gate, check, compare
    from busbw.core.bill import Bill, Bills, Line
    from busbw.core.call import Call
    from busbw.core.collective import Collective
    from busbw.core.cost_model import CostModel, Estimate
    from busbw.core.finding import Facts, Finding
    from busbw.core.measurement import Measurement, Results, Run
    from busbw.core.plan import Model, Tensor
    from busbw.core.schedule import Schedule
    from busbw.core.sketch import Sketch
    from busbw.core.summary import Summary
    from busbw.core.topology import Topology
    from busbw.core.verify import verify
    from busbw.costs import fit
    from busbw.errors import (
        BusbwError,
        FileError,
        Interrupted,
        LaunchError,
        MeasurementError,
        MissingDependency,
        RankLost,
        RankMismatch,
        UsageError,
        WrongResult,
    )
    from busbw.findings import explain
    from busbw.formats import read_results
    from busbw.pricing import price
    from busbw.report import html_report
    from busbw.sim import Prediction, simulate
    from busbw.sim.calibrating import Calibration, calibrate
    from busbw.topologies import read_topology
    from busbw.traces import capture

__all__ = [
    "Bill",
    "Bills",
    "BusbwError",
    "Calibration",
    "Call",
    "Collective",
    "Comparison",
    "CostModel",
    "Estimate",
    "Facts",
    "FileError",
    "Finding",
    "Gate",
    "Interrupted",
    "LaunchError",
    "Line",
    "Measurement",
    "MeasurementError",
    "MissingDependency",
    "Model",
    "Prediction",
    "RankLost",
    "RankMismatch",
    "Results",
    "Run",
    "Schedule",
    "Sketch",
    "Spec",
    "Summary",
    "Tensor",
    "Topology",
    "UsageError",
    "WrongResult",
    "__version__",
    "calibrate",
    "capture",
    "check",
    "compare",
    "explain",
    "fit",
    "html_report",
    "measure",
    "parse_algorithm",
    "price",
    "read_results",
    "read_topology",
    "simulate",
    "verify",
]

_HOMES = {
    "Bill": "busbw.core.bill",
    "Bills": "busbw.core.bill",
    "Calibration": "busbw.sim.calibrating",
    "Call": "busbw.core.call",
    "Collective": "busbw.core.collective",
    "Comparison": "busbw.comparing",
    "CostModel": "busbw.core.cost_model",
    "Estimate": "busbw.core.cost_model",
    "Facts": "busbw.core.finding",
    "Finding": "busbw.core.finding",
    "Gate": "busbw.comparing",
    "Line": "busbw.core.bill",
    "Measurement": "busbw.core.measurement",
    "Model": "busbw.core.plan",
    "Prediction": "busbw.sim",
    "Results": "busbw.core.measurement",
    "Run": "busbw.core.measurement",
    "Schedule": "busbw.core.schedule",
    "Sketch": "busbw.core.sketch",
    "Spec": "busbw.algorithms.spec",
    "Summary": "busbw.core.summary",
    "Tensor": "busbw.core.plan",
    "Topology": "busbw.core.topology",
    "calibrate": "busbw.sim.calibrating",
    "capture": "busbw.traces",
    "check": "busbw.comparing",
    "compare": "busbw.comparing",
    "explain": "busbw.findings",
    "fit": "busbw.costs",
    "html_report": "busbw.report",
    "measure": "busbw.bench",
    "parse_algorithm": "busbw.algorithms.spec",
    "price": "busbw.pricing",
    "read_results": "busbw.formats",
    "read_topology": "busbw.topologies",
    "simulate": "busbw.sim",
    "verify": "busbw.core.verify",
}
"""Where each name lies; those without an entry are errors."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'busbw' has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "busbw.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
