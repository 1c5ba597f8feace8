"""A rank's trace -> its bills: what each step communicates, line by line, in the type that pricing has.

Steps are named as pricing names them: `constructor`, `first`, `second`, and `steady`, the most frequent of all later
steps, whose times are over all that are like it. A step that differs from it stands under its own number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from busbw.core.bill import STEADY, Bill, Bills, Line, fold
from busbw.core.cost_model import Estimate
from busbw.core.trace import RecordedCall, Trace
from busbw.traces.steps import CONSTRUCTOR, steps_of
from busbw.traces.waiting import Timing, own_timing

_NAMES = {CONSTRUCTOR: "constructor", 0: "first", 1: "second"}
_MOST_UNLIKE = 20  # steps that differ from the steady one and are still listed


def bills_of(
    trace: Trace, timings: Mapping[int, Timing] | None = None, steps: range | None = None, notes: Sequence[str] = ()
) -> Bills:
    """The bills of one rank. `timings` has what all ranks' traces tell (`waiting.compare_ranks`), by sequence number.

    `steps` keeps only those steps, counted from 0.
    """
    if timings is None:
        timings = own_timing(trace)
    by_step: dict[int, list[Line]] = {}
    for step, call in steps_of(trace):
        if steps is None or step in steps:
            by_step.setdefault(step, []).append(_line(call, timings.get(call.sequence)))
    found: dict[str, Bill] = {}
    more: list[str] = [*trace.notes, *notes]
    for step in sorted(step for step in by_step if step < 2):
        name = _NAMES[step]
        found[name] = Bill(name, trace.rank, fold(by_step[step]))
    later = {step: lines for step, lines in by_step.items() if step >= 2}
    if later:
        shapes = {step: tuple(line.same_call for line in lines) for step, lines in later.items()}
        last = max(later)
        counts = Counter(shape for step, shape in shapes.items())
        usual = max(counts, key=lambda shape: (counts[shape], shape != shapes[last]))
        alike = [step for step in sorted(later) if shapes[step] == usual]
        unlike = [step for step in sorted(later) if shapes[step] != usual]
        for step in unlike[:_MOST_UNLIKE]:
            found[str(step)] = Bill(str(step), trace.rank, fold(later[step]))
        if unlike:
            numbers = ", ".join(map(str, unlike[:_MOST_UNLIKE])) + (", ..." if len(unlike) > _MOST_UNLIKE else "")
            more.append(f"{len(unlike)} of {len(later)} later steps differ from the steady one: {numbers}")
        found[STEADY] = Bill(STEADY, trace.rank, fold(_over_steps([later[step] for step in alike])))
    if not any(mark.what in ("optimizer", "step") for mark in trace.marks) and len(trace.calls):
        more.append(
            "no optimizer step was seen, so all calls count as one step; mark steps with Capture.step() if there are more"
        )
    if trace.lost:
        more.append(f"rank {trace.rank}: {trace.lost} calls could not be recorded")
    if not found:
        found["first"] = Bill("first", trace.rank, ())
    facts = {**trace.facts, "steps": len([step for step in by_step if step >= 0]), "steady_steps": len(later)}
    return Bills(trace.world_size, trace.rank, found, "captured", facts, tuple(dict.fromkeys(more)))


def _line(call: RecordedCall, timing: Timing | None) -> Line:
    kind = call.kind
    notes = dict(kind.notes)
    if kind.call_site:
        notes["call_site"] = kind.call_site
    notes["op"] = kind.op
    estimate = None
    if timing is not None:
        if timing.wait_s is not None:
            notes["wait_us"] = f"{timing.wait_s * 1e6:.1f}"
        if timing.seconds is not None:
            estimate = Estimate(timing.seconds, timing.seconds, timing.seconds, 0.0, timing.seconds)
    return Line(
        call=kind.call,
        group=kind.group.name,
        count=1,
        phase=kind.phase,
        name=kind.module,
        sent_bytes_per_rank=kind.sent_bytes,
        overlappable=kind.asynchronous,
        estimate=estimate,
        group_ranks=kind.group.ranks,
        notes=notes,
    )


def _over_steps(steps: Sequence[Sequence[Line]]) -> list[Line]:
    """The lines of steps that are alike, with the mean of their times, and the middle 95 % of them."""
    return [_over(lines) for lines in zip(*steps, strict=True)]


def _over(lines: Sequence[Line]) -> Line:
    first = lines[0]
    notes = dict(first.notes)
    waits = [float(line.notes["wait_us"]) for line in lines if "wait_us" in line.notes]
    if waits:
        notes["wait_us"] = f"{math.fsum(waits) / len(waits):.1f}"
    times = sorted(line.seconds for line in lines if line.seconds is not None)
    if not times:
        return replace(first, notes=notes, estimate=None)
    mean = math.fsum(times) / len(times)
    cut = len(times) // 40
    low, high = times[cut], times[len(times) - 1 - cut]
    return replace(first, notes=notes, estimate=Estimate(mean, min(low, mean), max(high, mean), 0.0, mean))
