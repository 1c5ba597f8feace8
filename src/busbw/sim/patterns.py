"""A schedule as patterns: sets of flows that happen together, each so many times over.

A ring of N ranks is one pattern 2(N-1) times, and not 2 N (N-1) transfers. A pipeline is a pattern for each stretch of
its steps in which the same transfers are at work: while it fills, when it is full, while it drains. Channels side by
side are joined step by step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from busbw.core.schedule import Bools, Ints, Phase, Schedule
from busbw.core.topology import Floats

MOST_ENTRIES = 30_000_000
"""Transfers over all stretches of a pipeline, above which it is taken as full in every step."""
MOST_PAIRS = 1 << 18
"""Transfers of all pairs that are enumerated; above it their bytes are summed over cuts."""


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Flows that begin together; arrays have one entry a flow. `source` or `target` may be NETWORK."""

    source: Ints
    target: Ints
    share: Floats
    """Of S."""
    reduces: Bools
    times: int
    label: str
    all_pairs: bool = False
    """Not enumerated: in its `times` steps every rank sends share[0] to every other once."""
    note: str = ""
    latencies: int | None = None
    """How often its latency is paid, where steps of a pipeline follow each other; None: each time."""

    @property
    def waits(self) -> int:
        """How often its latency is paid."""
        return self.times if self.latencies is None else self.latencies


def patterns(schedule: Schedule) -> list[Pattern]:
    """The patterns of a schedule in the order of time."""
    if not schedule.parts:
        return [pattern for phase in schedule.phases for pattern in _of_phase(phase, schedule)]
    parts = []
    for share, part in schedule.parts:
        parts.append([replace(pattern, share=pattern.share * share) for pattern in patterns(part)])
    return list(_side_by_side(parts))


def _of_phase(phase: Phase, schedule: Schedule) -> Iterator[Pattern]:
    share = phase.length / schedule.chunks
    reduces = np.broadcast_to(np.asarray(phase.reduces, np.bool_), phase.source.shape)
    if phase.all_pairs:
        yield from _pairs(phase, schedule.world_size, float(share[0]), bool(reduces[0]))
        return
    whole = Pattern(phase.source, phase.target, share, reduces, phase.times, phase.label)
    if phase.begin is None and phase.end is None:
        yield _moving(whole)
        return
    begin = np.zeros(len(share), np.int64) if phase.begin is None else phase.begin
    end = np.full(len(share), phase.times) if phase.end is None else phase.end
    waits = phase.times - int(phase.repeats.max(initial=0)) + 1  # to fill, and at the end
    edges = np.unique(np.concatenate([begin, end, [0, phase.times]]))
    if len(edges) * len(share) > MOST_ENTRIES:
        note = f"{phase.label}: the pipeline is taken as full in each of its steps"
        yield replace(_moving(whole), note=note, latencies=waits)
        return
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        at_work = (begin <= first) & (first < end)
        part = Pattern(
            phase.source[at_work],
            phase.target[at_work],
            share[at_work],
            reduces[at_work],
            last - first,
            phase.label,
            latencies=min(last - first, waits),
        )
        waits -= part.waits
        yield _moving(part)


def _moving(pattern: Pattern) -> Pattern:
    """Without what a rank copies to itself, which costs nothing here; several runs of slots of one pair as one flow."""
    away = pattern.source != pattern.target
    if not away.all():
        pattern = replace(
            pattern,
            source=pattern.source[away],
            target=pattern.target[away],
            share=pattern.share[away],
            reduces=pattern.reduces[away],
        )
    most = int(max(pattern.source.max(initial=0), pattern.target.max(initial=0))) + 2
    pairs, first, which = np.unique(
        (pattern.source + 1) * most + pattern.target + 1, return_index=True, return_inverse=True
    )
    if len(pairs) == len(pattern.source):
        return pattern
    return replace(
        pattern,
        source=pattern.source[first],
        target=pattern.target[first],
        share=np.bincount(which, pattern.share).astype(np.float64),
        reduces=np.bincount(which, pattern.reduces) > 0,
    )


def _pairs(phase: Phase, world_size: int, share: float, reduces: bool) -> Iterator[Pattern]:
    ranks = np.arange(world_size)
    each = (np.full(world_size, share), np.full(world_size, reduces))
    if world_size * world_size > MOST_PAIRS:
        yield Pattern(ranks, (ranks + 1) % world_size, *each, phase.times, phase.label, all_pairs=True)
        return
    for shift in range(1, world_size):
        yield Pattern(ranks, (ranks + shift) % world_size, *each, 1, phase.label)


def _side_by_side(parts: Sequence[list[Pattern]]) -> Iterator[Pattern]:
    """Channels in step: each begins its next step when all have ended theirs."""
    at = [0] * len(parts)
    left = [part[0].times if part else 0 for part in parts]
    while any(left):
        running = [part[at[i]] for i, part in enumerate(parts) if left[i]]
        times = min(count for count in left if count)
        yield _joined(running, times)
        for i, part in enumerate(parts):
            if not left[i]:
                continue
            left[i] -= times
            if not left[i] and at[i] + 1 < len(part):
                at[i] += 1
                left[i] = part[at[i]].times


def _joined(running: Sequence[Pattern], times: int) -> Pattern:
    return Pattern(
        np.concatenate([pattern.source for pattern in running]),
        np.concatenate([pattern.target for pattern in running]),
        np.concatenate([pattern.share for pattern in running]),
        np.concatenate([pattern.reduces for pattern in running]),
        times,
        running[0].label,
        latencies=max(min(pattern.waits, times) for pattern in running),
        all_pairs=any(pattern.all_pairs for pattern in running),
        note="; ".join(dict.fromkeys(pattern.note for pattern in running if pattern.note)),
    )
