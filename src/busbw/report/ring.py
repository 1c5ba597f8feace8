"""The ring on the page: a schedule to be animated, at an N of the rows, with what each step moves there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from busbw.core.measurement import Measurement
from busbw.core.schedule import ALGORITHMS, Schedule
from busbw.units import format_size

_OPS = ("all_reduce", "reduce_scatter", "all_gather")
_MOST = 8
"""Ranks of an animation that can be followed with the eyes; with at most 6 also on a phone."""


@dataclass(frozen=True, slots=True)
class RingPage:
    """A ring's schedule, and what it means for the largest size that was measured."""

    schedule: Schedule
    about: str


def ring_page(rows: Sequence[Measurement]) -> RingPage | None:
    """The ring of all_reduce, or of one of its halves; None where no such op was measured."""
    for op in _OPS:
        worlds = sorted({row.call.world_size for row in rows if row.call.collective == op and row.call.world_size > 1})
        if not worlds:
            continue
        small = [world for world in worlds if 3 <= world <= 6]
        n = max(small or [world for world in worlds if world <= _MOST], default=_MOST)
        size = max(row.call.size_bytes for row in rows if row.call.collective == op)
        steps = 2 * (n - 1) if op == "all_reduce" else n - 1
        larger = "" if n in worlds else f" (the rows are at N = {', '.join(map(str, worlds))}; the pattern is the same)"
        about = (
            f"{op} as a ring does it, on {n} ranks{larger}: {steps} steps, in each of which every rank sends one shard of S/N to "
            f"the next. At S = {format_size(size)} a shard is {format_size(round(size / n))}, and each rank sends "
            f"{format_size(round(steps * size / n))} in all. Each step pays alpha once, and S/(N B) for its bytes."
        )
        return RingPage(ALGORITHMS.get("ring").builders[op](n), about)
    return None
