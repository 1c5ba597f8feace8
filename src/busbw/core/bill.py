"""What one training step communicates: lines of Call x count x phase. Priced and captured bills have this one type.

A bill is of one rank and one step. Its lines stand in launch order; calls that follow each other and differ in nothing
are one line with a count. `busbw.pricing.against.differences` compares two bills line by line.

Point-to-point: a send of S bytes is a `send_recv_one_way` line with world_size 2 and sent_bytes_per_rank = S; on the
receiving rank the same call stands with sent_bytes_per_rank = 0. A batch of them is one line a message.

History of the saved form:
    1   {"type": "bill", "format": 1, "rank": ..., "lines": [...], totals, "steps": {step: {"lines": [...], totals}}}
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from busbw.core.call import Call
from busbw.core.cost_model import Estimate

FORMAT_VERSION = 1
PHASES = ("constructor", "forward", "backward", "optimizer", "other")
STEADY = "steady"
STEPS = ("constructor", "first", "second", STEADY)
"""The steps of a priced job: before training, the two steps that differ from the rest, and every later one."""


@dataclass(frozen=True, slots=True)
class Line:
    """`count` equal calls in a row.

    `call.size_bytes` is S, the whole logical tensor (padding included), `call.dtype` the type on the wire.
    `group` names the ranks that take part: an axis of the plan (`dp`, `tp`), or `world`, or `ranks 0,4,8`.
    `sent_bytes_per_rank` is what this rank sends in one call in the optimal form without reduction in the network
    (`Collective.sent_bytes`), whatever algorithm the backend uses.
    """

    call: Call
    group: str
    count: int
    phase: str
    name: str
    """The module, bucket or parameter that it is for."""
    sent_bytes_per_rank: int
    overlappable: bool = False
    """Computation can run beside it: it was started before its result is needed."""
    estimate: Estimate | None = None
    """The time of one call with its interval, where a cost model or a measurement tells it."""
    group_ranks: tuple[int, ...] = ()
    """The world's ranks in the group, where they are known."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What else is known: call_site, wait_us (arrival skew), link (inside, across), ..."""

    @property
    def seconds(self) -> float | None:
        """Seconds of one call; None where nothing tells."""
        return None if self.estimate is None else self.estimate.seconds

    @property
    def same_call(self) -> tuple[object, ...]:
        """What must agree for two lines to be the same call: everything but count, time and where it was seen."""
        return (self.call, self.group, self.phase, self.name, self.sent_bytes_per_rank, self.overlappable)

    def to_json(self) -> dict[str, Any]:
        """The line of `--json` (docs/json.md); keys are stable."""
        estimate = self.estimate
        return {
            "collective": self.call.collective,
            "group": self.group,
            "world_size": self.call.world_size,
            "size_bytes": self.call.size_bytes,
            "dtype": self.call.dtype,
            "redop": self.call.redop,
            "root": self.call.root,
            "count": self.count,
            "phase": self.phase,
            "name": self.name,
            "sent_bytes_per_rank": self.sent_bytes_per_rank,
            "seconds": self.seconds,
            "seconds_low": None if estimate is None else estimate.low,
            "seconds_high": None if estimate is None else estimate.high,
            "latency_s": None if estimate is None else estimate.latency_s,
            "bandwidth_s": None if estimate is None else estimate.bandwidth_s,
            "extrapolates": [] if estimate is None else list(estimate.extrapolates),
            "overlappable": self.overlappable,
            "group_ranks": list(self.group_ranks),
            "notes": dict(self.notes),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Line:
        """The inverse of `to_json`; KeyError, TypeError, ValueError or UsageError for what is not a line."""
        seconds = data.get("seconds")
        estimate = None
        if seconds is not None:
            latency = data.get("latency_s")
            estimate = Estimate(
                _seconds(seconds),
                _seconds(data.get("seconds_low", seconds)),
                _seconds(data.get("seconds_high", seconds)),
                0.0 if latency is None else _seconds(latency),
                _seconds(seconds if data.get("bandwidth_s") is None else data["bandwidth_s"]),
                tuple(map(str, data.get("extrapolates", ()))),
            )
        count, sent, phase = data["count"], data["sent_bytes_per_rank"], str(data["phase"])
        if not _is_whole(count, 1) or not _is_whole(sent, 0):
            raise ValueError(f"count {count!r} must be 1 or more, sent_bytes_per_rank {sent!r} 0 or more")
        if phase not in PHASES:
            raise ValueError(f"phase {phase!r} is not one of {', '.join(PHASES)}")
        return cls(
            call=Call.from_json(data),
            group=str(data["group"]),
            count=count,
            phase=phase,
            name=str(data["name"]),
            sent_bytes_per_rank=sent,
            overlappable=bool(data.get("overlappable", False)),
            estimate=estimate,
            group_ranks=tuple(int(rank) for rank in data.get("group_ranks", ())),
            notes={str(key): str(value) for key, value in data.get("notes", {}).items()},
        )


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a bill's lines. Seconds are None where some line has none."""

    calls: int
    size_bytes: int
    sent_bytes_per_rank: int
    seconds: float | None
    overlappable_seconds: float | None

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of the fields."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Bill:
    """What one rank communicates in one step, in launch order."""

    step: str
    """One of STEPS, or the number of a captured step from 0."""
    rank: int
    lines: tuple[Line, ...]

    def totals(self) -> Totals:
        """Calls, bytes and seconds over all lines."""
        return totals(self.lines)

    def to_json(self) -> dict[str, Any]:
        """Lines and totals."""
        return {"lines": [line.to_json() for line in self.lines], **self.totals().to_json()}


@dataclass(frozen=True, slots=True)
class Bills:
    """The bills of a job as one rank pays them, by step; `facts` says what they rest on (model, plan, machine, ...)."""

    world_size: int
    rank: int
    steps: Mapping[str, Bill]
    source: str
    """priced or captured."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What a reader has to know: one sentence each."""

    @property
    def steady(self) -> Bill:
        """The step that all later ones are like: `steady`, or the last that there is."""
        return self.steps[STEADY] if STEADY in self.steps else list(self.steps.values())[-1]

    def to_json(self) -> dict[str, Any]:
        """The steady step's lines and totals on top, every step under `steps` (docs/json.md)."""
        return {
            "type": "bill",
            "format": FORMAT_VERSION,
            "source": self.source,
            "world_size": self.world_size,
            "rank": self.rank,
            **self.steady.to_json(),
            "steps": {name: bill.to_json() for name, bill in self.steps.items()},
            "facts": dict(self.facts),
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Bills:
        """The inverse of `to_json`; KeyError, TypeError, ValueError or UsageError for what is not a bill."""
        if data.get("type") != "bill":
            raise ValueError('this is not a bill: it has no "type": "bill"')
        if data.get("format") != FORMAT_VERSION:
            raise ValueError(f"format {data.get('format')!r} of a bill is not known here (only {FORMAT_VERSION})")
        rank = int(data["rank"])
        return cls(
            world_size=int(data["world_size"]),
            rank=rank,
            steps={
                str(name): Bill(str(name), rank, tuple(Line.from_json(line) for line in step["lines"]))
                for name, step in data["steps"].items()
            },
            source=str(data["source"]),
            facts=dict(data.get("facts", {})),
            notes=tuple(map(str, data.get("notes", ()))),
        )


def totals(lines: Iterable[Line]) -> Totals:
    """Calls, bytes and seconds over lines."""
    rows = tuple(lines)
    timed = all(line.seconds is not None for line in rows)
    times = [(line.seconds or 0.0) * line.count for line in rows]
    return Totals(
        calls=sum(line.count for line in rows),
        size_bytes=sum(line.call.size_bytes * line.count for line in rows),
        sent_bytes_per_rank=sum(line.sent_bytes_per_rank * line.count for line in rows),
        seconds=math.fsum(times) if timed else None,
        overlappable_seconds=math.fsum(t for t, line in zip(times, rows, strict=True) if line.overlappable)
        if timed
        else None,
    )


def fold(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Equal calls that follow each other, as one line with a count. Their times are the mean of both."""
    folded: list[Line] = []
    for line in lines:
        last = folded[-1] if folded else None
        if last is not None and last.same_call == line.same_call and last.group_ranks == line.group_ranks:
            folded[-1] = replace(last, count=last.count + line.count, estimate=_mean(last, line))
        else:
            folded.append(line)
    return tuple(folded)


def _mean(one: Line, other: Line) -> Estimate | None:
    a, b, n, m = one.estimate, other.estimate, one.count, other.count
    if a is None or b is None:
        return None
    if a == b:
        return a

    def mean(x: float, y: float) -> float:
        return (x * n + y * m) / (n + m)

    return Estimate(
        mean(a.seconds, b.seconds),
        min(a.low, b.low),
        max(a.high, b.high),
        mean(a.latency_s, b.latency_s),
        mean(a.bandwidth_s, b.bandwidth_s),
        tuple(dict.fromkeys((*a.extrapolates, *b.extrapolates))),
    )


def _seconds(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError(f"{value!r} is not a number of seconds")
    return float(value)


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
