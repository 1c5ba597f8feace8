"""What a calibration says: the best description of a machine, its parameters with intervals, and its rivals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from busbw.core.topology import Topology
from busbw.sim.calibrating.curves import Key
from busbw.sim.calibrating.rivals import Rival
from busbw.units import GB

VERDICTS = ("best", "ties", "worse", "refuted")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One physical parameter with its 95 % interval; an end is None where the rows do not bound it there."""

    name: str
    unit: str
    """GB/s, us, or ps/B."""
    value: float
    low: float | None
    high: float | None

    @property
    def identified(self) -> str:
        """yes; `at least` or `at most` where one end is open; no."""
        if self.low is None and self.high is None:
            return "no"
        if self.high is None:
            return "at least"
        return "at most" if self.low is None else "yes"

    @property
    def text(self) -> str:
        """In words: `49.1 GB/s (48.2 to 50.0)`."""
        if self.identified == "no":
            return f"not identifiable: no row depends on it (left at {self.value:.3g} {self.unit})"
        if self.identified == "at least":
            return f"not identifiable but for its least: {self.low:.3g} {self.unit} or more"
        if self.identified == "at most":
            return f"not identifiable but for its most: {self.high:.3g} {self.unit} or less"
        return f"{self.value:.3g} {self.unit} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True, slots=True, eq=False)
class RivalFit:
    """One description, fitted."""

    rival: Rival
    parameters: tuple[Parameter, ...]
    plateau_errors: Mapping[Key, float]
    """(collective, N) -> predicted / measured rate - 1 of its plateau, the median of its large rows."""
    loss: float
    """Of the plateaus; to compare rivals by."""
    verdict: str
    """One of VERDICTS."""
    machine: Topology
    reason: str = ""
    """What speaks against it: its worst plateau; or how it could be told from the best."""

    @property
    def median_error(self) -> float:
        """Of the plateaus, absolute."""
        return median(abs(error) for error in self.plateau_errors.values())

    @property
    def largest_error(self) -> float:
        """Of the plateaus, absolute."""
        return max(abs(error) for error in self.plateau_errors.values())


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A prediction of plateaus that were left out of the fit: all of one collective, or of one N."""

    kind: str
    """op or N."""
    what: str
    errors: Mapping[Key, float]

    @property
    def median_error(self) -> float:
        """Absolute."""
        return median(abs(error) for error in self.errors.values())


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """The outcome of calibrate()."""

    rivals: tuple[RivalFit, ...]
    """The best first."""
    left_out: tuple[LeftOut, ...]
    """Of the best."""
    reducing: Parameter | None
    """What adding a byte costs, asked beside the best description's own parameters; None where no row reduces."""
    rows: int
    plateau_bytes: int
    """Rows of at least this size make the plateaus."""
    notes: tuple[str, ...]

    @property
    def best(self) -> RivalFit:
        """The description that fits best."""
        return self.rivals[0]

    @property
    def machine(self) -> Topology:
        """The best description, ready for `simulate`."""
        return self.best.machine

    def left_out_error(self, kind: str) -> float | None:
        """The median over all plateaus that were predicted without their op (or N); None where there is one only."""
        errors = [abs(error) for each in self.left_out if each.kind == kind for error in each.errors.values()]
        return median(errors) if errors else None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "rivals": [
                {
                    "name": each.rival.name,
                    "text": each.rival.text,
                    "verdict": each.verdict,
                    "reason": each.reason,
                    "median_error": each.median_error,
                    "largest_error": each.largest_error,
                    "parameters": [
                        {
                            "name": p.name,
                            "unit": p.unit,
                            "value": p.value,
                            "low": p.low,
                            "high": p.high,
                            "identified": p.identified,
                        }
                        for p in each.parameters
                    ],
                    "plateaus": [
                        {"collective": op, "world_size": n, "error": error}
                        for (op, n), error in each.plateau_errors.items()
                    ],
                }
                for each in self.rivals
            ],
            "left_out": [
                {"kind": each.kind, "what": each.what, "median_error": each.median_error} for each in self.left_out
            ],
            "rows": self.rows,
            "plateau_bytes": self.plateau_bytes,
            "notes": list(self.notes),
        }


def rate_parameter(name: str, value: float, low: float | None, high: float | None) -> Parameter:
    """A parameter of bytes a second."""
    return Parameter(name, "GB/s", value / GB, None if low is None else low / GB, None if high is None else high / GB)
