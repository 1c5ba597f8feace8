"""A step played on clocks: what computation hides of communication, and what is left exposed.

The host launches events in their order. Computation runs on one stream, and the calls of each group on another, one after the
other. A call with a tag runs beside what follows until it is waited for; a blocking one, and what a wait has to sit
out, is exposed. Computation takes its FLOPs at a given rate, or a given time for the whole step, shared out by FLOPs (by
elements where none are known); backward takes twice forward. A pipeline's other stages are not played: their bubble is
added, (p - 1) / v times a micro-batch's forward and backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from busbw.errors import UsageError
from busbw.pricing.profile import Profile, price_of
from busbw.pricing.stream import Compute, Event, Issue


@dataclass(frozen=True, slots=True)
class Work:
    """How long computation takes: FLOPs a second of one rank, or seconds for all of a step."""

    flops_per_s: float | None = None
    step_s: float | None = None
    contention: float = 0.0
    """Seconds of computation that each hidden second of communication costs: they share SMs, cores and memory."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """One step in seconds. step = compute + contention + exposed + bubble."""

    step_s: float
    compute_s: float
    communication_s: float
    """All calls, one after the other."""
    exposed_s: float
    bubble_s: float
    contention_s: float
    """What hidden communication takes from computation."""
    exposed_by: tuple[tuple[str, float], ...]
    """Exposed seconds by group and phase, the largest first."""

    @property
    def lost(self) -> float:
        """The share of the step in which nothing is computed."""
        return 0.0 if self.step_s <= 0 else 1 - self.compute_s / self.step_s

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {
            "step_s": self.step_s,
            "compute_s": self.compute_s,
            "communication_s": self.communication_s,
            "exposed_s": self.exposed_s,
            "bubble_s": self.bubble_s,
            "contention_s": self.contention_s,
            "lost": self.lost,
            "exposed_by": dict(self.exposed_by),
        }


EACH_MICRO_BATCH = ("pp", "tp", "cp", "ep")
"""Groups whose calls come with every micro-batch, so that a pipeline's bubble grows with what they expose."""


def play(events: Sequence[Event], profile: Profile, work: Work, bubble: float = 0.0) -> Timeline:
    """Play one step. `bubble` is the pipeline's idle time over its busy time, (p - 1) / (v M)."""
    total = sum(event.flops for event in events if isinstance(event, Compute))
    per_flop = _per_flop(events, work, total)
    now = compute = communication = exposed = last_start = 0.0
    free: dict[str, float] = {}
    pending: dict[str, tuple[float, str]] = {}
    by: dict[str, float] = {}
    for event in events:
        if isinstance(event, Compute):
            last_start = now
            now += event.flops * per_flop
            compute += event.flops * per_flop
        elif isinstance(event, Issue):
            line = event.line
            seconds = price_of(profile, line).seconds * line.count
            communication += seconds
            ready = last_start if event.ahead else now
            if event.follows in pending:
                ready = max(ready, pending[event.follows][0])
            end = max(ready, free.get(line.group, 0.0)) + seconds
            free[line.group] = end
            where = f"{line.group} {line.phase}"
            if event.tag is None:
                exposed += end - now
                by[where] = by.get(where, 0.0) + end - now
                now = end
            else:
                pending[event.tag] = max(pending.get(event.tag, (0.0, where)), (end, where))
        elif event.tag in pending:
            end, where = pending.pop(event.tag)
            if end > now:
                exposed += end - now
                by[where] = by.get(where, 0.0) + end - now
                now = end
    for end, where in pending.values():  # nobody waits for these but the end of the step
        if end > now:
            exposed += end - now
            by[where] = by.get(where, 0.0) + end - now
            now = end
    contended = work.contention * max(communication - exposed, 0.0)
    now += contended
    # A stage idles for other stages' micro-batches, not for what is done once a step: gradients, the optimizer.
    once = sum(seconds for where, seconds in by.items() if where.partition(" ")[0] not in EACH_MICRO_BATCH)
    idle = bubble * (compute + contended + exposed - once)
    largest = tuple(sorted(by.items(), key=lambda pair: -pair[1]))
    return Timeline(now + idle, compute, communication, exposed, idle, contended, largest)


def _per_flop(events: Sequence[Event], work: Work, total: float) -> float:
    if work.step_s is not None:
        if total <= 0:
            if any(isinstance(event, Compute) for event in events):
                raise UsageError("this model's FLOPs are not known, so --compute-ms cannot be shared out; use a module")
            return 0.0
        return work.step_s / total
    if work.flops_per_s is None or work.flops_per_s <= 0:
        raise UsageError("computation needs a rate above 0, or the time of a step")
    return 1 / work.flops_per_s
