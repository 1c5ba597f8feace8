"""Waiting apart from moving: when a call could begin, seen from all ranks, so that a straggler is not called bandwidth.

A collective moves data only when the ranks that it needs have arrived: for most, the last one. So with all ranks' traces on
one clock

    wait of a rank = their last arrival - own arrival,        time of the call = own end - when it could begin,

where it could begin at that arrival, or when the backend was done with what was queued before it (NCCL runs one
call of a group at a time; gloo has two threads). With one rank's trace they cannot be told apart: the time includes
the wait, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.core.call import Call
from busbw.core.trace import ClockPoint, RecordedCall, Trace

_LANES = {"gloo": 2}
"""Calls of one group that run side by side; 1 for backends that are not listed."""
_ROOTED = frozenset(("broadcast", "scatter", "gather", "reduce"))


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
    _compare_messages(traces, clocks, found)
    return found, notes


def align_by_ends(traces: Sequence[Trace]) -> tuple[Trace, ...]:
    """Traces on one clock, from what they share: a call that needs all ranks ends on all at nearly the same time.

    For files of profilers, whose clocks nobody compared. The offset to the first trace is the median difference of ends; how
    far it can be off, the middle half of them. Left alone where fewer than three calls can be matched.
    """
    if len(traces) < 2:
        return tuple(traces)
    first = _ends(traces[0])
    aligned = [replace(traces[0], clock=(ClockPoint(0.0, 0.0, 0.0),))]
    for trace in traces[1:]:
        own = _ends(trace)
        differences = sorted(first[key] - own[key] for key in first.keys() & own.keys())
        if len(differences) >= 3:
            quarter = len(differences) // 4
            spread = (differences[-1 - quarter] - differences[quarter]) / 2
            trace = replace(trace, clock=(ClockPoint(0.0, differences[len(differences) // 2], spread),))
        aligned.append(trace)
    return tuple(aligned)


def _ends(trace: Trace) -> dict[tuple[tuple[int, ...], int, str], float]:
    """End by (group, how many calls of it came before, what)."""
    turns: dict[tuple[int, ...], int] = {}
    ends: dict[tuple[tuple[int, ...], int, str], float] = {}
    for call in trace.calls:
        ranks, collective = call.kind.group.ranks, call.kind.call.collective
        if len(ranks) < 2 or collective == "send_recv_one_way":
            continue
        turns[ranks] = turns.get(ranks, 0) + 1
        if call.end_s is not None and collective not in _ROOTED:
            ends[ranks, turns[ranks], collective] = call.end_s
    return ends


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
        for place, (rank, call) in enumerate(zip(ranks, row, strict=True)):
            ready = _ready(call.kind.call, place, arrivals)
            seconds = None
            if call.end_s is not None:
                end = clocks[rank](call.end_s)
                lanes = _LANES.get(call.kind.group.backend, 1)
                busy = free[rank]
                queued = busy[-lanes] if len(busy) >= lanes else ready
                begin = max(ready, queued)
                seconds = end - begin if end > begin else None  # else it did not take part in the part that takes time
                free[rank] = sorted([*busy, end])[-lanes:]
            found[rank][call.sequence] = Timing(seconds, ready - arrivals[place])
    return None


def _compare_messages(
    traces: Sequence[Trace], clocks: Mapping[int, Callable[[float], float]], found: dict[int, dict[int, Timing]]
) -> None:
    """The nth message from one rank to another on both: the receiver waits for the sender, who waits for nobody."""
    sent: dict[tuple[int, int], list[float]] = {}
    for trace in traces:
        if trace.rank in clocks:
            for call in trace.calls:
                if call.kind.op == "send" and call.kind.notes.get("peer", "any") != "any":
                    pair = (trace.rank, int(call.kind.notes["peer"]))
                    sent.setdefault(pair, []).append(clocks[trace.rank](call.start_s))
    for trace in traces:
        turns: dict[int, int] = {}
        for call in trace.calls if trace.rank in clocks else ():
            if call.kind.call.collective != "send_recv_one_way" or call.kind.op == "send":
                continue
            peer = call.kind.notes.get("peer", "any")
            if peer == "any":
                break  # from here on nothing tells whose message is whose
            turn = turns.get(int(peer), 0)
            turns[int(peer)] = turn + 1
            starts = sent.get((int(peer), trace.rank), [])
            if turn < len(starts):
                arrival = clocks[trace.rank](call.start_s)
                ready = max(arrival, starts[turn])
                end = None if call.end_s is None else clocks[trace.rank](call.end_s)
                seconds = None if end is None or end <= ready else end - ready
                found[trace.rank][call.sequence] = Timing(seconds, ready - arrival)


def _ready(call: Call, place: int, arrivals: Sequence[float]) -> float:
    """When a rank of a group can begin to move data: what it needs from whom.

    All ranks need all, but who only receives from the root needs the root (broadcast, scatter), and who only sends to it
    needs nobody (gather, reduce), because what it sends may be buffered.
    """
    root = call.root
    if root is None or not 0 <= root < len(arrivals):
        return max(arrivals)
    if call.collective in ("broadcast", "scatter"):
        return max(arrivals[place], arrivals[root])
    return max(arrivals) if place == root else arrivals[place]


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
