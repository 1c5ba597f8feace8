"""What a comparison says: ratios B/A with intervals, what is real, what cannot be told, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from busbw.comparing.matching import Refused, Unmatched, Work
from busbw.core.call import Call
from busbw.units import GB

SAME, SLOWER, FASTER, MIXED, CANNOT_TELL = "same", "slower", "faster", "mixed", "cannot tell"
"""Verdicts. mixed is for the whole comparison alone: some of it is slower and some faster."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of times, B / A: above 1, B is slower."""

    ratio: float
    low: float
    high: float
    """The 95 % interval of this ratio for itself alone."""
    p: float
    """Probability of a ratio this far from 1 anywhere in the comparison, if nothing had changed."""
    reach: float
    """A change below this share would not have been called real."""
    verdict: str

    @classmethod
    def of(
        cls, log_ratio: float, half_width: float, p: float, reach: float, min_change: float, resolution: float
    ) -> Ratio:
        """From logarithms; real is what is significant and at least `min_change`, the same what is surely small."""
        low, high = log_ratio - half_width, log_ratio + half_width
        if p <= ALPHA and abs(log_ratio) >= math.log1p(min_change):
            verdict = SLOWER if log_ratio > 0 else FASTER
        elif max(-low, high) <= math.log1p(resolution):
            verdict = SAME
        else:
            verdict = CANNOT_TELL
        return cls(_exp(log_ratio), _exp(low), _exp(high), p, _exp(reach) - 1, verdict)

    def change(self) -> str:
        """The change of the time in per cent with its interval."""
        return f"time {self.ratio - 1:+.1%}, 95 %: {self.low - 1:+.1%} to {self.high - 1:+.1%}"

    def to_json(self) -> dict[str, Any]:
        """Of times, and of busbw, which is its inverse."""
        return {
            "time_ratio": self.ratio,
            "time_ratio_low": self.low,
            "time_ratio_high": self.high,
            "busbw_ratio": 1 / self.ratio,
            "busbw_ratio_low": 1 / self.high,
            "busbw_ratio_high": 1 / self.low,
            "p": self.p,
            "cannot_tell_below": self.reach,
            "verdict": self.verdict,
        }


def change_text(share: float) -> str:
    """A change of the time in words: `3.2%`, or `x 5.8` where it is more than double."""
    if share < 1:
        return f"{share:.1%}"
    return f"x {1 + share:.3g}" if share < 1000 else "x 1000+"


ALPHA = 0.03
"""The probability of a false alarm anywhere in the comparison: below the 5 % that are promised, since the test is exact
and would spend all of them."""


def _exp(x: float) -> float:
    return math.exp(min(max(x, -50.0), 50.0))


@dataclass(frozen=True, slots=True)
class RowComparison:
    """One row on both sides; times are geometric means over the launches of each launch's own time."""

    work: Work
    time_a_s: float
    time_b_s: float
    launches_a: int
    launches_b: int
    ratio: Ratio
    notes: tuple[str, ...] = ()

    @property
    def call(self) -> Call:
        """The call that both sides measured."""
        return self.work.call

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        rates = [self.call.busbw_Bps(time_s) for time_s in (self.time_a_s, self.time_b_s)]
        return {
            **self.call.to_json(),
            "settings": dict(self.work.settings),
            "time_a_s": self.time_a_s,
            "time_b_s": self.time_b_s,
            "busbw_a_GBps": None if rates[0] is None else rates[0] / GB,
            "busbw_b_GBps": None if rates[1] is None else rates[1] / GB,
            "launches_a": self.launches_a,
            "launches_b": self.launches_b,
            **self.ratio.to_json(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class CurveComparison:
    """Several rows together, the launches compared by their mean over the rows: one curve, or everything."""

    name: str
    rows: int
    ratio: Ratio

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {"name": self.name, "rows": self.rows, **self.ratio.to_json()}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs, row by row."""

    rows: tuple[RowComparison, ...]
    curves: tuple[CurveComparison, ...]
    """Where there are several rows: each curve, and last everything together."""
    unmatched: tuple[Unmatched, ...]
    refused: tuple[Refused, ...]
    launches_a: int
    launches_b: int
    method: str
    min_change: float
    resolution: float
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """same, slower, faster, mixed or cannot tell.

        Where nothing is real it is "same" when at least half of the rows are, surely, within `resolution`.
        """
        verdicts = [row.ratio.verdict for row in self.rows] + [curve.ratio.verdict for curve in self.curves]
        found = set(verdicts) & {SLOWER, FASTER}
        if len(found) == 2:
            return MIXED
        if found:
            return found.pop()
        same = sum(row.ratio.verdict == SAME for row in self.rows)
        return SAME if 2 * same >= len(self.rows) and same else CANNOT_TELL

    @property
    def untold(self) -> int:
        """Rows of which nothing can be said."""
        return sum(row.ratio.verdict == CANNOT_TELL for row in self.rows)

    @property
    def cannot_tell_below(self) -> float:
        """The change that the median row needs to be called real."""
        reaches = sorted(row.ratio.reach for row in self.rows)
        return reaches[len(reaches) // 2]

    def sentence(self) -> str:
        """The verdict with what it rests on."""
        verdict = self.verdict
        if verdict == CANNOT_TELL:
            return (
                f"cannot tell: of {_count(self.untold, 'row')} among {len(self.rows)} nothing can be said; in the "
                f"median row a change below {change_text(self.cannot_tell_below)} is not told from the luck of a "
                "launch: more --repeats narrow it"
            )
        untold = f"; of {_count(self.untold, 'row')} nothing can be said" if self.untold else ""
        if verdict == SAME:
            same = sum(row.ratio.verdict == SAME for row in self.rows)
            return f"same: {same} of {_count(len(self.rows), 'row')} surely within {self.resolution:.1%}{untold}"
        parts = []
        for direction in (SLOWER, FASTER):
            rows = [row for row in self.rows if row.ratio.verdict == direction]
            if rows:
                most = max(rows, key=lambda row: abs(math.log(row.ratio.ratio)))
                of = f"{len(rows)} of {_count(len(self.rows), 'row')}"
                parts.append(f"{of} {direction}, most {most.work.text()} ({most.ratio.change()})")
            together = [curve for curve in self.curves if curve.ratio.verdict == direction]
            if together:
                last = together[-1]
                more = f" and {_count(len(together) - 1, 'other curve')}" if len(together) > 1 else ""
                parts.append(f"{last.name}{more} together {direction} ({last.ratio.change()})")
        return f"{verdict}: {'; '.join(parts)}{untold}"

    def exit_status(self, fail_on_unknown: bool = False) -> int:
        """0 when nothing is slower, else 1; with `fail_on_unknown` also 1 when a row cannot be told."""
        if self.verdict in (SLOWER, MIXED):
            return 1
        return int(fail_on_unknown and (self.verdict == CANNOT_TELL or self.untold > 0))

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary (docs/comparing.md lists the keys)."""
        return {
            "verdict": self.verdict,
            "untold": self.untold,
            "cannot_tell_below": self.cannot_tell_below,
            "method": self.method,
            "launches_a": self.launches_a,
            "launches_b": self.launches_b,
            "min_change": self.min_change,
            "resolution": self.resolution,
            "rows": [row.to_json() for row in self.rows],
            "curves": [curve.to_json() for curve in self.curves],
            "unmatched": [
                {"side": item.side, **_work_json(item.work), "launches": item.launches} for item in self.unmatched
            ],
            "refused": [{**_work_json(item.work), "reason": item.reason} for item in self.refused],
            "notes": list(self.notes),
        }


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _work_json(work: Work) -> Mapping[str, Any]:
    return {**work.call.to_json(), "settings": dict(work.settings)}
