"""The plateau of ring collectives against that of operations with one root."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from busbw.core.finding import Cause, Facts, Finding
from busbw.findings._evidence import RING_OPS, STAR_OPS, Evidence, joint
from busbw.findings._law import Law
from busbw.findings._words import span, worlds

ALIKE = 1.25


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families:
        n = max(
            (n for n in family.world_sizes if n > 2 and any(evidence.plateau(family.get(op, n)) for op in STAR_OPS)),
            default=0,
        )
        ring = [level for op in RING_OPS if (level := evidence.plateau(family.get(op, n))) is not None]
        star = [level for op in STAR_OPS if (level := evidence.plateau(family.get(op, n))) is not None]
        if not ring or not star:
            continue
        middle = median(level.value for level in star) / median(level.value for level in ring)
        allowance = joint(ring[0].allowance, star[0].allowance)
        far = max(middle, 1 / middle) > max(ALIKE, 1 + 1.5 * allowance)
        text = (
            f"{family.prefix}at N={n} the ring collectives reach {span([x.value for x in ring])}, scatter and gather "
            f"{span([x.value for x in star])}"
        )
        over = []
        for op in STAR_OPS:
            levels = [level for curve in family.of(op) if (level := evidence.plateau(curve)) is not None]
            if len(levels) > 1 and levels[-1].value > levels[0].value and levels[-1].differs(levels[0]):
                over.append(
                    f"{op} rises over {worlds(c.world_size for c in family.of(op))} ({span([x.value for x in levels])})"
                    ": the share that stays with the root's switch-mate shrinks"
                )
        out, into = (evidence.plateau(family.get(op, n)) for op in STAR_OPS)
        if out is not None and into is not None and out.differs(into):
            more, less = (out, into) if out.value > into.value else (into, out)
            over.append(
                f"{'out of' if more is out else 'into'} a root is faster ({span([more.value])}) than the other way ({span([less.value])})"
            )
        yield Finding(
            "ring_against_rooted",
            text + (f", {middle:.1f} times as much" if far else ": alike") + (f". {'; '.join(over)}" if over else ""),
            "fails" if far else "holds",
            "notice" if far else "fact",
            numbers=tuple(level.number for level in (*ring, *star)),
            causes=(
                Cause(
                    "one-way-roots",
                    "a root's port works one way only, while a ring loads every port and uplink both ways",
                ),
                Cause("shared-uplink", "ring flows of neighbours share an uplink that a root's traffic has to itself"),
            )
            if far and middle > 1
            else (Cause("root-bound", "one root's port is all that scatter and gather have"),)
            if far
            else (),
            next="one pair under one switch and one pair across two, each one-way and both ways" if far else "",
        )


LAW = Law(
    "ring_against_rooted",
    "Ring collectives and rooted ones reach the same busbw",
    "Median plateaus at the largest N that has scatter or gather; alike is a factor of 1.25, or 1.5 times the allowance.",
    _find,
    "each rank of a ring sends and receives at once, a root only one of the two",
)
