"""Waiting apart from moving: when a call could begin, seen from all ranks, so that a straggler is not called bandwidth.

A collective moves data only when its last rank has arrived. So with all ranks' traces on one clock

    wait of a rank = last arrival - own arrival,        time of the call = own end - when it could begin,

where it could begin at the last arrival, or when the backend was done with what was queued before it (NCCL runs one
call of a group at a time; gloo has two threads). With one rank's trace they cannot be told apart: the time includes
the wait, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from busbw.core.trace import RecordedCall, Trace

_LANES = {"gloo": 2}
"""Calls of one group that run side by side; 1 for backends that are not listed."""


@dataclass(frozen=True, slots=True)
class Timing:
    """`seconds` of a call (None where nothing tells), and how long this rank waited for others (None: not known)."""

    seconds: float | None
    wait_s: float | None = None


def own_timing(trace: Trace) -> dict[int, Timing]:
    """What one rank's trace tells alone: from arrival to end, waiting included. Sequence number -> Timing."""
    return {
        call.sequence: Timing(None if call.end_s is None else max(call.end_s - call.start_s, 0.0))
        for call in trace.calls
    }


def compare_ranks(traces: Sequence[Trace]) -> tuple[dict[int, dict[int, Timing]], list[str]]:
    """Timings by rank and sequence number where all ranks of a group are there, and what could not be compared.

    The nth call of a group on one rank is the nth on the others, as the collectives' contract demands; where the
    traces disagree on what it was, that group is left alone from there on.
    """
    notes: list[str] = []
    found = {trace.rank: own_timing(trace) for trace in traces}
    clocks = {trace.rank: clock for trace in traces if (clock := _clock(trace, traces[0])) is not None}
    groups: dict[tuple[int, ...], dict[int, list[RecordedCall]]] = {}
    for trace in traces:
        for call in trace.calls:
            if call.kind.group.ranks and call.kind.call.collective != "send_recv_one_way":
                groups.setdefault(call.kind.group.ranks, {}).setdefault(trace.rank, []).append(call)
    for ranks, calls in groups.items():
        missing = [rank for rank in ranks if rank not in calls]
        if missing:
            notes.append(
                f"group of ranks {_ranks(ranks)}: no trace of rank {_ranks(missing)}, so waiting is part of its times"
            )
            continue
        if not all(rank in clocks for rank in ranks):
            notes.append(
                f"group of ranks {_ranks(ranks)}: its clocks were not aligned, so waiting is part of its times"
            )
            continue
        note = _compare(ranks, calls, clocks, found)
        if note:
            notes.append(note)
    return found, notes


def _compare(
    ranks: tuple[int, ...],
    calls: Mapping[int, Sequence[RecordedCall]],
    clocks: Mapping[int, Callable[[float], float]],
    found: dict[int, dict[int, Timing]],
) -> str | None:
    free: dict[int, list[float]] = {rank: [] for rank in ranks}
    for number, row in enumerate(zip(*(calls[rank] for rank in ranks), strict=False)):
        if len({(call.kind.call.collective, call.kind.op) for call in row}) > 1:
            what = ", ".join(f"rank {rank} {call.kind.op}" for rank, call in zip(ranks, row, strict=True))
            return f"group of ranks {_ranks(ranks)}: call {number} differs ({what}); from there on waiting is not told apart"
        arrivals = [clocks[rank](call.start_s) for rank, call in zip(ranks, row, strict=True)]
        last = max(arrivals)
        for rank, call, arrival in zip(ranks, row, arrivals, strict=True):
            lanes = _LANES.get(call.kind.group.backend, 1)
            seconds = None
            if call.end_s is not None:
                end = clocks[rank](call.end_s)
                busy = free[rank]
                queued = sorted(busy)[-lanes] if len(busy) >= lanes else last
                seconds = max(end - max(last, queued), 0.0)
                free[rank] = sorted([*busy, end])[-lanes:]
            found[rank][call.sequence] = Timing(seconds, max(last - arrival, 0.0))
    return None


def _clock(trace: Trace, first: Trace) -> Callable[[float], float] | None:
    """What takes a time of this rank to a clock that all share: none is needed on one host. None: not known."""
    boot = trace.facts.get("boot_id")
    if boot is not None and boot == first.facts.get("boot_id"):
        return lambda time_s: time_s
    if not trace.clock or first.rank != 0:
        return None
    return lambda time_s: trace.on_rank_0(time_s) or time_s


def _ranks(ranks: Sequence[int]) -> str:
    shown = ",".join(map(str, ranks[:16]))
    return f"{shown},... ({len(ranks)})" if len(ranks) > 16 else shown
