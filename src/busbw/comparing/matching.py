"""Which rows of two sides are the same work, taken in the same way; what is unlike is named with its reason.

Rows match by call (collective, S, N, dtype, redop, root, in place) and by what was set: the group, and variables such as
NCCL_ALGO. A field of the call that one side does not know matches anything, where only one row fits. Rows of the same
work that were taken or timed in different ways (sched, mode, rank_time, another tool's definition of time, wrong data)
are not compared; `across` names labels that may differ, which is how two ways are compared on purpose.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from busbw.core.call import Call
from busbw.core.measurement import Measurement, Results
from busbw.errors import UsageError
from busbw.units import format_size

__all__ = ["DEFAULTS", "Refused", "Side", "Unmatched", "Work", "match"]

DEFAULTS = {
    "mode": "pipelined",
    "rank_time": "slowest",
    "sched": "default",
    "method": "busbw",
    "cuda_graph": "",
    "rotate_buffers": "",
    "memory": "",
    "one_sided": "",
    "test": "",
    "schedule": "",
}
"""Labels that say how a row was taken, and what a row without the label is taken to have."""

_OTHER_TIME = {
    "both_directions": "the tool adds both directions",
    "cpu_time": "the time is the host's, to launch the call",
    "mean_of_calls": "the time is a mean over calls of a range of sizes",
    "mean_of_rates": "the rate is a mean of rates",
    "mean_over_ranks": "the time is a mean over the ranks",
    "one_call": "a single call was timed",
    "one_sided": "the transfer is one-sided",
    "overlapped": "computation ran beside the call",
    "percentile_over_ranks": "the time is a percentile over the ranks",
    "rank0_time": "the time is one rank's alone",
    "round_trip": "the time is half of a round trip",
    "time_includes_waiting": "the time includes waiting for the last rank",
}
"""Marks that say what a time means: rows are compared when both sides have the same."""

_NEVER = {
    "op_ambiguous": "the operation is not known",
    "op_disagrees": "its rates are not those of its operation",
    "op_unknown": "the operation is not known",
    "rate_contradicts_time": "its rate contradicts its time",
    "size_per_rank_unknown_n": "its size is not known",
    "size_range": "its size is not known",
    "validation_failed": "its results are wrong",
    "world_size_disagrees": "its rates are not those of its N",
    "world_size_estimated": "N is not known",
    "world_size_unknown": "N is not known",
}
"""Marks of rows that cannot be compared with anything."""

Labels = tuple[tuple[str, str], ...]
LaunchKey = tuple[int, int]
"""Which of the side's files, and the repeat in it."""


@dataclass(frozen=True, slots=True)
class Work:
    """What rows have in common that can be compared: the call, what was set, how it was taken and timed."""

    call: Call
    settings: Labels
    way: Labels
    timed: tuple[str, ...]

    def text(self) -> str:
        """In words, for messages."""
        return self._text([format_size(self.call.size_bytes)])

    def curve_text(self) -> str:
        """In words, without the size."""
        return self._text([])

    def _text(self, size: list[str]) -> str:
        call = self.call
        words = [call.collective, *size, f"N={call.world_size}"]
        words += [part for part in (call.dtype, call.redop) if part is not None]
        if call.root is not None:
            words.append(f"root {call.root}")
        if call.in_place:
            words.append("in place")
        words += [f"{name}={value}" for name, value in self.settings]
        words += [f"{name}={value}" for name, value in self.way if value != DEFAULTS[name]]
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A row that the other side does not have."""

    side: str
    work: Work
    launches: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Rows of the same call that are not alike, and why."""

    work: Work
    reason: str


class Side:
    """One side's rows by work and launch."""

    def __init__(self, name: str, files: Sequence[Results], across: Iterable[str] = ()) -> None:
        self.name = name
        self.rows: dict[Work, dict[LaunchKey, list[Measurement]]] = {}
        self.bad: list[Refused] = []
        across = frozenset(across)
        bad: dict[Work, Counter[str]] = defaultdict(Counter)
        for file, results in enumerate(files):
            for row in results.measurements:
                work = work_of(row, across)
                reason = _bad(row)
                if reason is not None:
                    bad[work][reason] += 1
                launches = self.rows.setdefault(work, {})
                launches.setdefault((file, row.repeat), []).append(row)
        for work, reasons in bad.items():
            del self.rows[work]
            for reason, _ in reasons.most_common(1):
                self.bad.append(Refused(work, f"{name}: {reason}"))
        if across:
            self._refuse_mixtures(across)

    def launch_keys(self) -> list[LaunchKey]:
        """All launches, in order."""
        return sorted({key for launches in self.rows.values() for key in launches})

    def _refuse_mixtures(self, across: frozenset[str]) -> None:
        for work, launches in self.rows.items():
            for name in sorted(across):
                values = {row.labels.get(name) for rows in launches.values() for row in rows}
                if len(values) > 1:
                    shown = ", ".join(sorted(str(value) for value in values))
                    raise UsageError(
                        f"--across {name}: {self.name} itself has rows of {work.text()} with {name}={shown}; "
                        "each side needs one value: split the file, or compare without --across"
                    )


def work_of(row: Measurement, across: frozenset[str] = frozenset()) -> Work:
    """What a row is compared by."""
    settings = tuple(
        (name, value)
        for name, value in sorted(row.labels.items())
        if (name.isupper() or name == "group") and name not in across
    )
    way = tuple((name, row.labels.get(name, value)) for name, value in DEFAULTS.items() if name not in across)
    timed = tuple(sorted({mark.code for mark in row.marks} & _OTHER_TIME.keys()))
    return Work(row.call, settings, way, timed)


def _bad(row: Measurement) -> str | None:
    if row.wrong:
        return f"{row.wrong} elements of its results are wrong"
    for mark in row.marks:
        if mark.code in _NEVER:
            return _NEVER[mark.code]
    return "its time is 0" if row.time_s <= 0 else None


def match(a: Side, b: Side) -> tuple[list[tuple[Work, Work]], list[Unmatched], list[Refused]]:
    """Pairs of works that can be compared, in A's order; rows without a partner; rows that are not alike."""
    left_a = {work: None for work in a.rows if work not in b.rows}
    left_b = {work: None for work in b.rows if work not in a.rows}
    partner = {work: work for work in a.rows if work in b.rows}
    for one, other in _alike_where_known(left_a, left_b):
        partner[one] = other
        del left_a[one], left_b[other]
    refused = [*a.bad, *b.bad]
    spoilt = {(item.work.call, item.work.settings) for item in refused}
    by_call: dict[tuple[Call, Labels], list[Work]] = defaultdict(list)
    for work in b.rows:
        by_call[work.call, work.settings].append(work)
    for work in list(left_a):
        others = by_call.get((work.call, work.settings), [])
        if others:
            refused.append(Refused(work, _unlike(work, others[0])))
            del left_a[work]
            for other in others:
                left_b.pop(other, None)
    unmatched = [
        Unmatched(side.name, work, len(side.rows[work]))
        for side, left in ((a, left_a), (b, left_b))
        for work in left
        if (work.call, work.settings) not in spoilt
    ]
    return [(work, partner[work]) for work in a.rows if work in partner], unmatched, refused


def _alike_where_known(left_a: Mapping[Work, Any], left_b: Mapping[Work, Any]) -> list[tuple[Work, Work]]:
    """Pairs that differ only in what one side does not know, where just one partner fits on both sides."""
    near: dict[tuple[object, ...], list[Work]] = defaultdict(list)
    for work in left_b:
        near[_place(work)].append(work)
    fits = {work: [other for other in near[_place(work)] if _may_be(work.call, other.call)] for work in left_a}
    asked = Counter(other for others in fits.values() for other in others)
    return [(work, others[0]) for work, others in fits.items() if len(others) == 1 and asked[others[0]] == 1]


def _place(work: Work) -> tuple[object, ...]:
    call = work.call
    return call.collective, call.size_bytes, call.world_size, work.settings, work.way, work.timed


def _may_be(one: Call, other: Call) -> bool:
    return all(
        None in (getattr(one, name), getattr(other, name)) or getattr(one, name) == getattr(other, name)
        for name in ("dtype", "redop", "root", "in_place")
    )


def _unlike(a: Work, b: Work) -> str:
    """Why two works of one call are not alike."""
    for (name, one), (_, other) in zip(a.way, b.way, strict=True):
        if one != other:
            hint = f"; --across {name} compares them even so"
            return f"{name} is {one or 'not set'} in A and {other or 'not set'} in B{hint}"
    only_a, only_b = (set(x.timed) - set(y.timed) for x, y in ((a, b), (b, a)))
    side, codes = ("A", only_a) if only_a else ("B", only_b)
    return f"times mean different things: in {side} {_OTHER_TIME[min(codes)]}"
