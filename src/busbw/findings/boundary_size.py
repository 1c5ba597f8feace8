"""The size at which latency and bandwidth cost the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from busbw.core.finding import Facts, Finding, Number
from busbw.findings._evidence import Evidence
from busbw.findings._law import Law
from busbw.units import MIB


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families:
        found: dict[str, list[Number]] = defaultdict(list)
        for curve in sorted(family.curves.values(), key=lambda curve: (curve.collective, curve.world_size)):
            floor, plateau = evidence.floor(curve), evidence.plateau(curve)
            if floor is None or plateau is None:
                continue
            size = floor.value * plateau.value / curve.factor
            source = f"{floor.number.source}; {plateau.number.source}"
            found[curve.collective].append(Number(f"boundary of {curve.name}", size, "B", source))
        if not found:
            continue
        parts = []
        for op, numbers in found.items():
            low, high = min(n.value for n in numbers) / MIB, max(n.value for n in numbers) / MIB
            parts.append(
                f"{op} {low:.2g} MiB" if f"{low:.2g}" == f"{high:.2g}" else f"{op} {low:.2g} to {high:.2g} MiB"
            )
        most = max(n.value for numbers in found.values() for n in numbers)
        yield Finding(
            "boundary_size",
            f"{family.prefix}latency and bandwidth cost the same at {'; '.join(parts)}",
            "holds",
            "fact",
            numbers=tuple(number for numbers in found.values() for number in numbers),
            advice=f"Messages of ten times the boundary ({10 * most / MIB:.0f} MiB here) lose a tenth to latency: "
            "make buckets at least that large",
        )


LAW = Law(
    "boundary_size",
    "There is one size at which latency and bandwidth cost the same",
    "floor x plateau algbw, for each curve that has both.",
    _find,
    "the two terms of T = t0 + S f(N)/B set equal: docs/numbers.md",
)
