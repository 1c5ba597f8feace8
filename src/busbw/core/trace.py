"""What one rank of a job called: every collective call with its group, bytes, place in the program, and times.

A Trace is of one rank, and has no model behind it: `traces` turns it into a Bill. Calls that differ in nothing but
their time share one CallKind. Times are seconds on the rank's monotonic clock; `Trace.on_rank_0` takes them to the clock
of rank 0, so that ranks can be compared.

The saved form is JSONL, one file a rank, appended as calls happen. Its first line says what it is, each later line is
an object with a "type", or a call as a bare array:

    {"type": "capture", "format": 1, "rank": 0, "world_size": 4, "host": "a", ...}
    {"type": "group", "id": 0, "name": "world", "ranks": [0, 1, 2, 3], "backend": "gloo"}
    {"type": "kind", "id": 0, "op": "allreduce_", "collective": "all_reduce", "size_bytes": 4096, "group_id": 0, ...}
    [sequence, kind, segment, start_ns, end_ns or null]       a call
    [sequence, kind, segment, start_ns, end_ns or null, S, sent]   one of another size than the first of its kind
    [sequence, end_ns]                                        the end of a call that was written before it ended
    [sequence, end_ns, start_ns]                              on a GPU also when it could start, which is known later
    {"type": "mark", "what": "forward" | "optimizer" | "step", "sequence": 7, "segment": 1, "at_ns": ..., "optimizer": 0}
    {"type": "clock", "at_ns": ..., "offset_ns": 12, "uncertainty_ns": 800}     rank 0's clock is ahead by that
    {"type": "end", "calls": 1234, "lost": 0, "why": "exit"}

A file without "end" is of a job that was killed: what it holds is true, and what is missing are the last calls.

History of the saved form:
    1   as above
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from busbw.core.bill import PHASES
from busbw.core.call import Call

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Group:
    """The ranks that take part in a call. `name` is `world`, an axis of a mesh (`dp`), or `ranks 0,4,8`."""

    name: str
    ranks: tuple[int, ...]
    backend: str = ""

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of the fields."""
        return {"name": self.name, "ranks": list(self.ranks), "backend": self.backend}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Group:
        """The inverse of `to_json`; KeyError, TypeError or ValueError for what is not a group."""
        return cls(str(data["name"]), tuple(int(rank) for rank in data["ranks"]), str(data.get("backend", "")))


@dataclass(frozen=True, slots=True)
class CallKind:
    """Everything about a call but when it happened.

    `call.size_bytes` is S, the whole logical tensor. `sent_bytes` is what this rank sends in the optimal form without
    reduction in the network. `asynchronous` is what the program asked for: it goes on while the call runs.
    """

    op: str
    """What the program's library called it: `allreduce_`, `_allgather_base_`, an event's name in a trace file."""
    call: Call
    group: Group
    sent_bytes: int
    phase: str = "other"
    module: str = ""
    """The module, bucket or parameter group that it is for; empty where nothing tells."""
    call_site: str = ""
    """`file.py:12 function`, the innermost line outside torch; empty where there is none (a library's own thread)."""
    asynchronous: bool = False
    notes: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """All fields but the group, which has its own line."""
        return {
            "op": self.op,
            **{name: value for name, value in self.call.to_json().items() if value is not None},
            "sent_bytes": self.sent_bytes,
            "phase": self.phase,
            "module": self.module,
            "call_site": self.call_site,
            "asynchronous": self.asynchronous,
            "notes": dict(self.notes),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], group: Group) -> CallKind:
        """The inverse of `to_json`; KeyError, TypeError, ValueError or UsageError for what is not a kind of call."""
        phase, sent = str(data["phase"]), data["sent_bytes"]
        if phase not in PHASES:
            raise ValueError(f"phase {phase!r} is not one of {', '.join(PHASES)}")
        if not isinstance(sent, int) or isinstance(sent, bool) or sent < 0:
            raise ValueError(f"sent_bytes {sent!r} must be a whole number of 0 or more")
        return cls(
            op=str(data["op"]),
            call=Call.from_json(data),
            group=group,
            sent_bytes=sent,
            phase=phase,
            module=str(data.get("module", "")),
            call_site=str(data.get("call_site", "")),
            asynchronous=bool(data.get("asynchronous", False)),
            notes={str(key): str(value) for key, value in data.get("notes", {}).items()},
        )


class KindsBySize:
    """Kinds by their number, and by size where calls of one kind differ in it (uneven splits, sequences of any length)."""

    def __init__(self, kinds: Sequence[CallKind] | Mapping[int, CallKind]) -> None:
        self._kinds = kinds
        self._sized: dict[tuple[int, int, int], CallKind] = {}

    def get(self, number: int, sizes: Sequence[int]) -> CallKind:
        """The kind of this number; `sizes` is empty, or S and the bytes sent. LookupError for a number that is none."""
        kind = self._kinds[number]
        if not sizes:
            return kind
        size, sent = sizes
        key = (number, size, sent)
        if key not in self._sized:
            self._sized[key] = replace(kind, call=replace(kind.call, size_bytes=size), sent_bytes=sent)
        return self._sized[key]


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call: its place in the rank's order, what it was, and when.

    `start_s` is when this rank arrived: the program made the call (on a GPU: its inputs were ready). `end_s` is when it
    was complete, None where nothing tells. So `end_s - start_s` includes waiting for the ranks that arrived later.
    `segment` counts what lies between one optimizer step and the next forward pass.
    """

    sequence: int
    kind: CallKind
    segment: int
    start_s: float
    end_s: float | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that the job did between calls: `forward` (a segment's first), `optimizer` (a step's end), `step`."""

    what: str
    sequence: int
    """The sequence number of the next call."""
    segment: int
    at_s: float
    optimizer: int | None = None


@dataclass(frozen=True, slots=True)
class ClockPoint:
    """At `at_s` of this rank's clock, rank 0's was ahead by `offset_s`, give or take `uncertainty_s`."""

    at_s: float
    offset_s: float
    uncertainty_s: float


@dataclass(frozen=True, slots=True)
class Trace:
    """What one rank called, in order."""

    rank: int
    world_size: int
    calls: tuple[RecordedCall, ...]
    marks: tuple[Mark, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Host, library, backend, the settings of the capture: whatever the first line says."""
    complete: bool = True
    """The end was written. False: the job was killed, and its last calls are missing."""
    lost: int = 0
    """Calls that were seen and could not be recorded."""
    clock: tuple[ClockPoint, ...] = ()
    """How far rank 0's clock was ahead, over time; empty where that is not known."""
    notes: tuple[str, ...] = ()

    def on_rank_0(self, time_s: float) -> float | None:
        """A time of this rank's clock on the clock of rank 0; straight between clock points, None without any."""
        points = self.clock
        if not points:
            return None
        after = bisect_left([point.at_s for point in points], time_s)
        if after == 0 or after == len(points):
            return time_s + points[min(after, len(points) - 1)].offset_s
        left, right = points[after - 1], points[after]
        share = (time_s - left.at_s) / (right.at_s - left.at_s)
        return time_s + left.offset_s + share * (right.offset_s - left.offset_s)
