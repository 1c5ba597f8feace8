"""Whether the largest size is on the plateau, or the rate still rises there."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.core.finding import Facts, Finding, Number
from busbw.findings._evidence import Evidence, joint
from busbw.findings._law import Law
from busbw.findings._words import signed, sizes

RISES = 0.02


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families:
        rising, numbers, count, unsure = [], [], 0, False
        lasts = []
        for curve in sorted(family.curves.values(), key=lambda c: (c.world_size, c.collective)):
            if len(curve.points) < 3 or curve.points[-1].busbw_Bps is None or curve.points[-2].busbw_Bps is None:
                continue
            one, two = curve.points[-2:]
            if not one.busbw_Bps or not two.busbw_Bps:
                continue
            count += 1
            lasts.append(two.size_bytes)
            rise = two.busbw_Bps / one.busbw_Bps - 1
            allowance = joint(evidence.row_allowance(curve, one), evidence.row_allowance(curve, two))
            if rise <= RISES:
                continue
            unsure = unsure or rise <= allowance
            rising.append(f"{curve.name} {signed(rise)}")
            numbers.append(Number(f"{curve.name}, last step", 100 * rise, "%", f"{one.source}, {two.source}"))
        if not count:
            continue
        if not rising:
            yield Finding(
                "plateau_is_reached",
                f"{family.prefix}the largest sizes ({sizes(lasts)}) are on the plateau",
                "holds",
                "fact",
            )
            continue
        shown = "; ".join(rising[:6]) + (f" and {len(rising) - 6} more" if len(rising) > 6 else "")
        yield Finding(
            "plateau_is_reached",
            f"{family.prefix}{len(rising)} of {count} curves still rise at their largest size: {shown}"
            + (". Part of that is within the noise" if unsure else ""),
            "cannot_tell" if unsure else "fails",
            "fact",
            tuple(numbers),
            next="one or two larger sizes",
        )


LAW = Law(
    "plateau_is_reached",
    "The rate does not rise any more at the largest size",
    "The last step of each curve: a rise of more than 2 %, against the allowance of the two rows.",
    _find,
)
