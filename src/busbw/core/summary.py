"""What a row's samples say: the numbers that are kept even when the raw samples are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Modes:
    """Two speeds in one row: seconds of each, and the share of samples in the slow one."""

    low_s: float
    high_s: float
    share_high: float


@dataclass(frozen=True, slots=True)
class Shift:
    """A jump of the level within a row: the sample at which it happens, and level after / level before."""

    sample: int
    ratio: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics over the samples of one row; all times in seconds per call.

    A sample is the mean of a batch of calls, combined over the ranks (the slowest rank's unless the row says
    otherwise). `low_s` and `high_s` bound the long-run median at `confidence`; None where there are too few samples to
    say.
    """

    samples: int
    median_s: float
    mean_s: float
    low_s: float | None
    high_s: float | None
    confidence: float
    min_s: float
    p5_s: float
    p95_s: float
    p99_s: float
    max_s: float
    spread: float
    """(p95 - p5) / median."""
    drift: float
    """Relative change of the level from the first to the last sample, by a robust line."""
    drift_is_significant: bool
    autocorrelation: float
    """Of neighbouring samples, from -1 to 1."""
    level_shifts: tuple[Shift, ...]
    two_modes: Modes | None
    slowest_rank: int
    rank_skew: float
    """How far the fastest rank's median lies below the slowest rank's, as a share of the latter."""
    stopped: str
    """Why sampling ended: "precision", "budget" or "fixed"."""

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width as a share of the median."""
        if self.low_s is None or self.high_s is None:
            return None
        return (self.high_s - self.low_s) / (2 * self.median_s)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of the fields."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Summary:
        """The inverse of `to_json`; raises KeyError or TypeError for what is not a summary."""
        fields = {name: data[name] for name in cls.__slots__}
        for name in fields.keys() - {"level_shifts", "two_modes", "stopped"}:
            value = fields[name]
            if not isinstance(value, int | float) and not (value is None and name in ("low_s", "high_s")):
                raise TypeError(f"{name} {value!r} of the summary is not a number")
        fields["level_shifts"] = tuple(Shift(**shift) for shift in data["level_shifts"])
        fields["two_modes"] = None if data["two_modes"] is None else Modes(**data["two_modes"])
        return cls(**fields)
