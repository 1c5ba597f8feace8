"""No all-reduce without reduction in the network beats 2(N-1)/N S: how far is this one from it?"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.core.finding import Facts, Finding, Number
from busbw.findings._evidence import Evidence, Family
from busbw.findings._law import Law
from busbw.findings._words import rate
from busbw.findings.machines import wire_rate
from busbw.units import format_size, format_time


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families[:1]:
        curves = [curve for curve in family.of("all_reduce") if curve.large]
        if not curves:
            continue
        curve = curves[-1]
        point = curve.points[-1]
        wire = wire_rate(facts, curve.world_size) or _best(evidence, family)
        if wire is None or point.busbw_Bps is None:
            continue
        sent = curve.factor * point.size_bytes
        least_s = sent / wire.value
        ratio = point.time_s / least_s
        text = (
            f"{family.prefix}an all-reduce of {format_size(point.size_bytes)} over {curve.world_size} ranks makes each send at least "
            f"{curve.factor:.3g} S; at {rate(wire.value)} GB/s ({wire.name}) that takes {format_time(least_s)}. Measured: "
            f"{format_time(point.time_s)}, {ratio:.2f} times"
        )
        if ratio < 0.97:
            text += ". Less than the bound: the reduction happens inside the network (NVLS, SHARP), where S a rank is the floor, or the tree's"
        else:
            text += ". (Sending and receiving about S each is the floor only where the network itself reduces)"
        yield Finding(
            "lower_bound",
            text,
            "fails" if ratio < 0.97 else "holds",
            "fact",
            numbers=(
                Number(f"time of {curve.name}", point.time_s, "s", point.source),
                wire,
                Number("times the bound", ratio, "x", ""),
            ),
        )


def _best(evidence: Evidence, family: Family) -> Number | None:
    """The fastest that any operation moves bytes out of one rank here."""
    levels = [level for curve in family.curves.values() if (level := evidence.plateau(curve)) is not None]
    best = max(levels, key=lambda level: level.value, default=None)
    if best is None or best.name.split()[2] == "all_reduce":
        return None
    return Number(f"the best rate seen: {best.name}", best.value, "B/s", best.number.source)


LAW = Law(
    "lower_bound",
    "Without reduction in the network no rank sends less than 2(N-1)/N S",
    "The time of the largest all-reduce against 2(N-1)/N S over the wire's rate (--peak, the machine's, else the best plateau of these rows).",
    _find,
    "Patarasu & Yuan 2009; with reduction inside the network the bound is about S sent and S received",
)
