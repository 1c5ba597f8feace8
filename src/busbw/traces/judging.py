"""What a bill's lines are worth: sums by what they share, each line against what the machine can do, and what to change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from busbw.core.bill import Bill, Line, Totals, totals
from busbw.core.call import UNKNOWN_COLLECTIVE, Call
from busbw.core.cost_model import Estimate
from busbw.errors import UsageError
from busbw.units import format_size, format_time


class Profile(Protocol):
    """Anything that says what a call takes on this machine: a cost model, or alpha and bandwidth."""

    def estimate(self, call: Call) -> Estimate:
        """Seconds of one call with their interval; UsageError for a call that it does not know."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A line beside what the machine can do. `expected` is None without a profile, or for a call that it lacks."""

    line: Line
    expected: Estimate | None

    @property
    def below_boundary(self) -> bool | None:
        """Latency is the larger part of the expected time: a call twice as large would cost about the same."""
        return None if self.expected is None else self.expected.latency_s >= self.expected.bandwidth_s

    @property
    def share_of_machine(self) -> float | None:
        """Expected over measured time: 1 is all that the machine gives."""
        if self.expected is None or not self.line.seconds:
            return None
        return self.expected.seconds / self.line.seconds

    def to_json(self) -> dict[str, Any]:
        """Keys of docs/json.md."""
        expected = self.expected
        return {
            "expected_seconds": None if expected is None else expected.seconds,
            "expected_low": None if expected is None else expected.low,
            "expected_high": None if expected is None else expected.high,
            "below_boundary": self.below_boundary,
            "share_of_machine": self.share_of_machine,
        }


@dataclass(frozen=True, slots=True)
class Advice:
    """Something to change, and the seconds of a step that it would save at most; `basis` says what they rest on."""

    text: str
    saved_s: float
    basis: str

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of the fields."""
        return {"text": self.text, "saved_s": self.saved_s, "basis": self.basis}


def judge(lines: Iterable[Line], profile: Profile | None) -> tuple[Judged, ...]:
    """Each line with what the profile expects of it."""
    return tuple(
        Judged(line, None if line.notes.get("size") == "unknown" else _expected(line, profile)) for line in lines
    )


def sums(lines: Iterable[Line], key: Callable[[Line], str]) -> dict[str, Totals]:
    """Totals by what `key` says of a line; the largest in bytes sent first."""
    parts: dict[str, list[Line]] = {}
    for line in lines:
        parts.setdefault(key(line), []).append(line)
    found = {name: totals(part) for name, part in parts.items()}
    return dict(sorted(found.items(), key=lambda item: -item[1].sent_bytes_per_rank))


def size_class(line: Line) -> str:
    """The range of sizes that a line falls into, in steps of 16."""
    size = line.call.size_bytes
    if line.notes.get("size") == "unknown":
        return "not known"
    if size == 0:
        return "no data"
    power = int(math.log2(size)) // 4 * 4
    return f"{format_size(2**power)} to {format_size(2 ** (power + 4))}"


def advise(bill: Bill, profile: Profile | None) -> tuple[Advice, ...]:
    """What to change in a step, the largest saving first."""
    found = [advice for rule in _RULES for advice in rule(bill.lines, profile) if advice.saved_s > 0]
    return tuple(sorted(found, key=lambda advice: -advice.saved_s))


# --- rules: lines and a profile -> advice ------------------------------------------------------------------------------


def _join_small(lines: Sequence[Line], profile: Profile | None) -> Iterator[Advice]:
    """Several calls that one call could be: those of one collective, group, type and phase."""
    if profile is None:
        return
    alike: dict[tuple[Any, ...], list[Line]] = {}
    for line in lines:
        call = line.call
        if (
            call.collective != UNKNOWN_COLLECTIVE
            and call.size_bytes
            and call.collective != "send_recv_one_way"
            and call.world_size > 1
        ):
            alike.setdefault((call.collective, call.dtype, call.redop, call.root, line.group, line.phase), []).append(
                line
            )
    for (collective, *_, group, phase), rows in alike.items():
        small = [row for row in judge(rows, profile) if row.below_boundary]
        count = sum(row.line.count for row in small)
        if count < 2:
            continue
        apart = math.fsum(row.expected.seconds * row.line.count for row in small if row.expected is not None)
        whole = replace(rows[0].call, size_bytes=sum(row.line.call.size_bytes * row.line.count for row in small))
        joined = _expected(whole, profile)
        if joined is None:
            continue
        way = _way_to_join(small[0].line)
        yield Advice(
            f"{count} {collective} calls in {phase} (group {group}) are below the latency boundary: one call of "
            f"{format_size(whole.size_bytes)} takes {format_time(joined.seconds)} instead of {format_time(apart)}{way}",
            apart - joined.seconds,
            "profile",
        )


def _way_to_join(line: Line) -> str:
    if line.name.startswith("bucket"):
        return "; raise bucket_cap_mb"
    if line.phase == "optimizer" and line.call.collective == "broadcast":
        return "; ZeroRedundancyOptimizer(parameters_as_bucket_view=True) sends one per rank"
    return ""


def _buffers(lines: Sequence[Line], profile: Profile | None) -> Iterator[Advice]:
    """DistributedDataParallel sends its buffers in every forward pass."""
    rows = [
        line
        for line in lines
        if line.phase == "forward" and line.call.collective == "broadcast" and line.name == "DistributedDataParallel"
    ]
    if rows:
        seconds, basis = _time(rows, profile)
        size = format_size(sum(row.call.size_bytes * row.count for row in rows))
        yield Advice(
            f"buffers are broadcast in every step ({size}): broadcast_buffers=False, where ranks may differ in them",
            seconds,
            basis,
        )


def _used_parameters(lines: Sequence[Line], profile: Profile | None) -> Iterator[Advice]:
    """find_unused_parameters costs an all-reduce a step."""
    rows = [line for line in lines if line.name == "used parameters"]
    if rows:
        seconds, basis = _time(rows, profile)
        yield Advice(
            "find_unused_parameters=True costs an all-reduce of its own: turn it off if all are used", seconds, basis
        )


def _half_the_bytes(lines: Sequence[Line], profile: Profile | None) -> Iterator[Advice]:
    """Gradients in fp32 travel as bf16 with a hook, or with a reduce dtype."""
    if profile is None:
        return
    rows = [
        line
        for line in lines
        if line.phase == "backward"
        and line.call.collective in ("all_reduce", "reduce_scatter")
        and line.call.dtype == "float32"
    ]
    now = _sum(rows, profile)
    half = [replace(row, call=replace(row.call, size_bytes=row.call.size_bytes // 2, dtype="bfloat16")) for row in rows]
    then = _sum(half, profile)
    if rows and now is not None and then is not None:
        size = format_size(sum(row.call.size_bytes * row.count for row in rows))
        yield Advice(
            f"gradients travel in float32 ({size}): bf16_compress_hook, or reduce_dtype=torch.bfloat16 under FSDP, halves"
            " them; sums lose digits",
            now - then,
            "profile",
        )


def _gathered_again(lines: Sequence[Line], profile: Profile | None) -> Iterator[Advice]:
    """FSDP gathers in backward what it freed after forward."""
    forward = {
        (line.name, line.call) for line in lines if line.phase == "forward" and line.call.collective == "all_gather"
    }
    rows = [
        line
        for line in lines
        if line.phase == "backward" and line.call.collective == "all_gather" and (line.name, line.call) in forward
    ]
    if rows:
        seconds, basis = _time(rows, profile)
        size = sum(row.call.size_bytes * row.count for row in rows)
        yield Advice(
            f"{sum(row.count for row in rows)} parameter groups are gathered again in backward: "
            f"reshard_after_forward=False keeps them, for up to {format_size(size)} of memory",
            seconds,
            basis,
        )


def _barriers(lines: Sequence[Line], profile: Profile | None) -> Iterator[Advice]:
    rows = [line for line in lines if line.call.collective == "barrier"]
    if rows:
        seconds, basis = _time(rows, None)
        where = ", ".join(dict.fromkeys(row.notes.get("call_site", "?") for row in rows))
        yield Advice(
            f"{sum(row.count for row in rows)} barriers a step ({where}): collectives wait by themselves",
            seconds,
            basis,
        )


def _waiting(lines: Sequence[Line], profile: Profile | None) -> Iterator[Advice]:
    """Time in which this rank had arrived and others had not."""
    waits = [float(line.notes["wait_us"]) * 1e-6 * line.count for line in lines if "wait_us" in line.notes]
    if waits:
        total = math.fsum(waits)
        yield Advice(
            f"this rank waits {format_time(total)} a step for ranks that arrive later: balance their work; no link is slow"
            " for that",
            total,
            "arrivals",
        )


def _slower_than_the_machine(lines: Sequence[Line], profile: Profile | None) -> Iterator[Advice]:
    """Lines that take more than the profile's interval allows."""
    slow = [
        each
        for each in judge(lines, profile)
        if each.expected is not None and each.line.seconds is not None and each.line.seconds > 1.5 * each.expected.high
    ]
    saved = math.fsum(
        ((each.line.seconds or 0.0) - each.expected.seconds) * each.line.count
        for each in slow
        if each.expected is not None
    )
    if slow:
        worst = max(slow, key=lambda each: 1 / (each.share_of_machine or 1.0))
        line = worst.line
        yield Advice(
            f"{sum(each.line.count for each in slow)} calls take longer than alone on this machine, {line.call.collective} of "
            f"{format_size(line.call.size_bytes)} most ({100 * (worst.share_of_machine or 0):.0f} % of its rate): "
            + (
                ""
                if all("wait_us" in each.line.notes for each in slow)
                else "waiting for other ranks, which is not told apart here, "
            )
            + "computation beside them, or other traffic",
            saved,
            "times and profile",
        )


_RULES = (
    _join_small, _buffers, _used_parameters, _half_the_bytes, _gathered_again, _barriers, _waiting, _slower_than_the_machine,
)  # fmt: skip


def _expected(what: Call | Line, profile: Profile | None) -> Estimate | None:
    call = what.call if isinstance(what, Line) else what
    if profile is None or call.world_size < 2 or call.collective == UNKNOWN_COLLECTIVE:
        return None
    try:
        of_line = getattr(profile, "of_line", None)  # a machine, which knows the ranks' places
        found: Estimate = profile.estimate(call) if of_line is None or what is call else of_line(what)
        return found
    except UsageError:  # a collective that was not measured
        return None


def _sum(lines: Iterable[Line], profile: Profile) -> float | None:
    found = [(line, _expected(line, profile)) for line in lines]
    if any(estimate is None for _, estimate in found):
        return None
    return math.fsum(estimate.seconds * line.count for line, estimate in found if estimate is not None)


def _time(lines: Sequence[Line], profile: Profile | None) -> tuple[float, str]:
    """What lines take: as measured, else as the profile expects, else 0."""
    if all(line.seconds is not None for line in lines):
        return math.fsum((line.seconds or 0.0) * line.count for line in lines), "times"
    expected = None if profile is None else _sum(lines, profile)
    return (0.0, "") if expected is None else (expected, "profile")
