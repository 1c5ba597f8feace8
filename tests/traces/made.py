"""Traces made by hand."""

from __future__ import annotations

from busbw.core.call import Call
from busbw.core.trace import CallKind, Group, Mark, RecordedCall, Trace

WORLD = Group("world", (0, 1), "nccl")


def kind(
    collective: str = "all_reduce",
    size: int = 1000,
    phase: str = "backward",
    module: str = "",
    group: Group = WORLD,
    **more: object,
) -> CallKind:
    call = Call(collective, size, len(group.ranks), "float32", root=more.pop("root", None))  # type: ignore[arg-type]
    sent = call.kind.sent_bytes(size, call.world_size, 0)
    return CallKind(f"{collective}_", call, group, sent, phase, module, **more)  # type: ignore[arg-type]


def trace(
    rank: int,
    calls: list[tuple[CallKind, float, float | None]],
    marks: tuple[Mark, ...] = (),
    segment: int = 0,
    **more: object,
) -> Trace:
    """Calls as (kind, start, end), in order, of one segment."""
    rows = tuple(RecordedCall(number, what, segment, start, end) for number, (what, start, end) in enumerate(calls))
    facts = more.pop("facts", {"boot_id": "one"})
    return Trace(rank, 2, rows, marks, facts, **more)  # type: ignore[arg-type]
