"""A group that loses bandwidth when certain ranks join, while operations that hardly load them do not."""

from __future__ import annotations

import math
from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding
from busbw.findings._evidence import RING_OPS, STAR_OPS, Evidence, Family, joint
from busbw.findings._law import Law
from busbw.findings._words import rate, share

DROP = 0.2
STEADY = 0.1


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    if (facts.number("hosts") or 1) > 1:
        return
    for family in evidence.families:
        yield from _of(evidence, family)


def _of(evidence: Evidence, family: Family) -> Iterator[Finding]:
    op = next((op for op in RING_OPS if len([c for c in family.of(op) if evidence.plateau(c)]) > 1), None)
    if op is None:
        return
    ring = {curve.world_size: level for curve in family.of(op) if (level := evidence.plateau(curve)) is not None}
    n = max(ring)
    before = max(size for size in ring if size < n)
    near, far = ring[before], ring[n]
    drop = 1 - far.value / near.value
    if before < 2 or drop < DROP or -math.log1p(-drop) < 1.5 * joint(near.allowance, far.allowance):
        return
    others = [level for other in RING_OPS if (level := evidence.plateau(family.get(other, n))) is not None]
    if any(level.value > 1.15 * far.value for level in others):
        return  # not a wire: one of the operations alone is slow
    for star in STAR_OPS:
        one, two = evidence.plateau(family.get(star, before)), evidence.plateau(family.get(star, n))
        if one is None or two is None or two.value < (1 - STEADY) * one.value or two.value < 1.3 * far.value:
            continue
        crossing = two.value * (n / 2) / (n - 1)
        if crossing <= 1.12 * far.value:
            continue  # the link between two halves explains it as well: socket_link speaks
        yield Finding(
            "slow_member",
            f"{family.prefix}{op} loses {share(drop)} when ranks {before} to {n - 1} join ({rate(near.value)} to {rate(far.value)} GB/s), while {star}, "
            f"which sends each of them only 1/{n - 1}, loses nothing: a ring runs at the pace of its slowest link",
            "cannot_tell",
            "problem",
            (near.number, far.number, one.number, two.number),
            (
                Cause(
                    "slow-member",
                    f"one of the ranks {before} to {n - 1}, or its link, is slow (lower width or rate, clocks)",
                ),
                Cause("shared-uplink", "the ranks that join share a wire that the others do not"),
            ),
            next=f"the same test on groups of {before} of the ranks {before} to {n - 1}; lspci LnkSta against LnkCap of each GPU",
            weight=drop,
            headline=f"a ring loses {share(drop)} when ranks {before} to {n - 1} join: one of them, or its link, is slow",
        )
        return


LAW = Law(
    "slow_member",
    "A ring loses nothing when more ranks of the host join",
    "The ring's plateau falls by 20 % and 1.5 times the allowance to the largest N, in all ring operations alike, while scatter's or gather's falls by less than 10 % and moves more across "
    "any cut than the ring does.",
    _find,
    "a ring's rate is that of its slowest link; a star loads each leaf with 1/(N-1)",
)
