"""Which training step each call belongs to: segments between optimizer steps, joined where a step has several of them.

A program with one optimizer has one segment a step. One with several (a GAN; Muon beside AdamW with a forward pass in
between) has several: a step ends before an optimizer comes for the second time. The last step may lack its optimizers. Steps that the program marked itself
(`Capture.step()`) go first; calls before the first forward pass are of the constructor.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from busbw.core.trace import Mark, RecordedCall, Trace

CONSTRUCTOR = -1


def step_of_segment(marks: Sequence[Mark]) -> dict[int, int]:
    """Segment -> step, both from 0."""
    optimizers: dict[int, set[int]] = {}
    for mark in marks:
        here = optimizers.setdefault(mark.segment, set())
        if mark.what == "optimizer" and mark.optimizer is not None:
            here.add(mark.optimizer)
    steps: dict[int, int] = {}
    step, seen = 0, set[int]()
    known = set[int]().union(*optimizers.values())
    for segment in sorted(optimizers):
        unfinished = not optimizers[segment] and bool(seen) and seen == known
        if seen & optimizers[segment] or unfinished:
            step, seen = step + 1, set()
        seen |= optimizers[segment]
        steps[segment] = step
    return steps


def steps_of(trace: Trace) -> list[tuple[int, RecordedCall]]:
    """(step, call) in order; CONSTRUCTOR for what lies before the first step."""
    own = [mark.sequence for mark in trace.marks if mark.what == "step"]
    if own:
        return [(bisect_right(own, call.sequence) - 1, call) for call in trace.calls]
    first = int(trace.facts.get("first_step", 0))  # a profiler's window begins in the middle of a job
    steps = {segment: first + step for segment, step in step_of_segment(trace.marks).items()}
    return [
        (CONSTRUCTOR if call.kind.phase == "constructor" else steps.get(call.segment, call.segment), call)
        for call in trace.calls
    ]
