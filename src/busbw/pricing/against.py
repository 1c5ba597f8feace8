"""A priced bill against a captured one: every difference, named, in calls and bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from busbw.core.bill import Bill, Bills, Line
from busbw.errors import UsageError
from busbw.units import format_size

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that one bill has and the other has not, in one step.

    `calls` and the bytes are captured minus priced: positive where the job does more than the plan.
    """

    step: str
    kind: str
    """more (only captured), less (only priced), changed (a call with other bytes), or moved (another place in the order)."""
    what: str
    calls: int
    size_bytes: int
    sent_bytes_per_rank: int
    advice: str = ""

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of the fields."""
        return {name: getattr(self, name) for name in self.__slots__}


def key_of(line: Line) -> Key:
    """What must agree for two calls to be the same: call, S, dtype, N, root, group, phase, bytes sent.

    A message's peer must agree, and not its phase: torch does not say of every message which it belongs to.
    """
    call = line.call
    message = call.collective == "send_recv_one_way"
    return (
        call.collective,
        call.size_bytes,
        call.dtype,
        call.world_size,
        call.root,
        line.group_ranks,
        line.notes.get("peer") if message else line.phase,
        line.sent_bytes_per_rank,
    )


def unfolded(bill: Bill) -> list[Line]:
    """One line a call, in the order of launch."""
    return [line for line in bill.lines for _ in range(line.count)]


def differences(priced: Bills, captured: Bills, steps: Sequence[str] | None = None) -> list[Difference]:
    """Every difference in the steps that both have (`steps`, or all of them); empty when they agree call by call."""
    if priced.world_size != captured.world_size:
        raise UsageError(
            f"the capture is of {captured.world_size} ranks, the plan of {priced.world_size}: change --world"
        )
    names = [name for name in (steps or priced.steps) if name in priced.steps or name in captured.steps]
    found: list[Difference] = []
    for name in names:
        if name in captured.steps or name in ("constructor",):
            empty = Bill(name, captured.rank, ())
            mine = priced.steps.get(name, priced.steady if name not in priced.steps and name.isdigit() else empty)
            found += in_step(name, unfolded(mine), unfolded(captured.steps.get(name, empty)))
    return found


def in_step(step: str, priced: Sequence[Line], captured: Sequence[Line]) -> list[Difference]:
    """The differences of one step: calls of only one bill, paired where they differ in bytes alone, then the order."""
    mine, theirs = [key_of(line) for line in priced], [key_of(line) for line in captured]
    if mine == theirs:
        return []
    surplus, missing = Counter(theirs) - Counter(mine), Counter(mine) - Counter(theirs)
    found: list[Difference] = []
    less, more = _rest(priced, missing), _rest(captured, surplus)
    pairs = _paired(less, more)
    for old, new in pairs:
        found.append(_changed(step, old, new))
    paired_old, paired_new = {id(old) for old, _ in pairs}, {id(new) for _, new in pairs}
    found += _grouped(step, "less", [line for line in less if id(line) not in paired_old], -1)
    found += _grouped(step, "more", [line for line in more if id(line) not in paired_new], 1)
    if not found:
        found.append(_moved(step, priced, captured))
    return found


def _rest(lines: Sequence[Line], wanted: Counter[Key]) -> list[Line]:
    """Those lines whose keys are wanted, the last of them, each as an object of its own."""
    left = Counter(wanted)
    kept = []
    for line in reversed(lines):
        if left[key_of(line)] > 0:
            left[key_of(line)] -= 1
            kept.append(_copy(line))
    return kept[::-1]


def _copy(line: Line) -> Line:
    from dataclasses import replace

    return replace(line)


def _paired(less: Sequence[Line], more: Sequence[Line]) -> list[tuple[Line, Line]]:
    """Calls of one collective, group and phase that differ in bytes or dtype, in their order."""
    pairs: list[tuple[Line, Line]] = []
    left = list(more)
    for line in less:
        for other in left:
            same = (line.call.collective, line.phase, line.group_ranks, line.call.root)
            if same == (other.call.collective, other.phase, other.group_ranks, other.call.root):
                pairs.append((line, other))
                left.remove(other)
                break
    return pairs


def _changed(step: str, old: Line, new: Line) -> Difference:
    size = new.call.size_bytes - old.call.size_bytes
    sent = new.sent_bytes_per_rank - old.sent_bytes_per_rank
    dtype = f", {new.call.dtype} for {old.call.dtype}" if new.call.dtype != old.call.dtype else ""
    what = (
        f"{_words(new)}: S is {format_size(new.call.size_bytes)}, not {format_size(old.call.size_bytes)} "
        f"({size:+d} B{dtype}); priced for {old.name or 'it'}"
    )
    return Difference(step, "changed", what, 0, size, sent, _advice(new, size))


def _grouped(step: str, kind: str, lines: Sequence[Line], sign: int) -> list[Difference]:
    """Equal calls together."""
    groups: dict[tuple[Key, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((key_of(line), line.name), []).append(line)
    found = []
    for same in groups.values():
        line, count = same[0], len(same)
        size, sent = line.call.size_bytes * count * sign, line.sent_bytes_per_rank * count * sign
        verb = "that the plan does not have" if sign > 0 else "that the job does not make"
        what = f"{count} x {_words(line)} of {format_size(line.call.size_bytes)} {line.call.dtype or ''} {verb}"
        found.append(Difference(step, kind, what, count * sign, size, sent, _advice(line, size) if sign > 0 else ""))
    return found


def _words(line: Line) -> str:
    place = f" at {line.notes['call_site']}" if line.notes.get("call_site") else ""
    name = f" for {line.name}" if line.name else ""
    return f"{line.call.collective} in {line.phase} over {line.group} (N = {line.call.world_size}){name}{place}"


def _advice(line: Line, size: int) -> str:
    """The usual causes of a call that nobody planned."""
    call = line.call
    if call.collective == "broadcast" and line.phase == "forward":
        return "buffers go out before every forward: broadcast_buffers=False where they need not agree"
    if call.collective == "all_reduce" and line.phase in ("other", "optimizer") and call.size_bytes < 1 << 20:
        return "a small all-reduce outside forward and backward: clip_grad_norm_, a logged loss, or a scaler's check"
    if call.collective == "all_reduce" and call.dtype == "int32":
        return "find_unused_parameters reduces a map of used parameters every step"
    if call.collective == "all_reduce" and line.phase == "backward":
        return "more all-reduces than planned: parallel layers that share an input sum its gradient once each (PrepareModuleInput)"
    if call.collective in ("all_gather", "reduce_scatter") and 0 < size < 1 << 20:
        return "padding: a first dimension that N does not divide"
    return ""


def _moved(step: str, priced: Sequence[Line], captured: Sequence[Line]) -> Difference:
    """The same calls in another order: where it begins."""
    mine, theirs = [key_of(line) for line in priced], [key_of(line) for line in captured]
    for tag, start, _, other, _ in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
        if tag != "equal":
            at = min(start, len(priced) - 1)
            seen = captured[min(other, len(captured) - 1)]
            what = f"the same calls in another order from call {other} on: {_words(seen)}, where {_words(priced[at])} was priced"
            return Difference(step, "moved", what, 0, 0, 0)
    raise AssertionError("nothing differs")
