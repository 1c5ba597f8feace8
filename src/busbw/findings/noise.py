"""How far the rows can be trusted: differences below this cannot be told."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import Evidence
from busbw.findings._law import Law
from busbw.findings._words import share

NOISY = 0.15


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    rows = evidence.usable
    if len(rows) < 2:
        return
    with_interval = sum(1 for row in rows if row.summary is not None and row.summary.half_width is not None)
    parts, numbers, worst = [], [], 0.0
    for n in sorted({row.call.world_size for row in rows}):
        bits = []
        for regime in ("small", "large"):
            if not evidence.spread_is_known(regime):
                continue
            difference = 2.77 * evidence.spread(n, regime)  # 1.96 x sqrt(2): 95 % of differences of two rows
            bits.append(f"{share(difference)} among {regime} sizes")
            numbers.append(
                Number(
                    f"difference of two {regime} rows by chance, N={n}",
                    100 * difference,
                    "%",
                    "scatter of neighbouring rows",
                )
            )
            worst = max(worst, difference)
        if bits:
            parts.append(f"{', '.join(bits)} at N={n}")
    if not parts:
        yield Finding(
            "noise",
            "These rows are too few to say how noisy they are, and have no intervals: small differences cannot be told",
            "cannot_tell",
            "notice",
            next="repeat them, or measure with busbw bench, which gives each an interval",
        )
        return
    how = f"{with_interval} of {len(rows)} rows have an interval" if with_interval else "one number a row and no spread"
    noisy = worst > 2 * NOISY
    yield Finding(
        "noise",
        f"{how}: two rows differ by chance by up to {'; '.join(parts)}. Smaller differences cannot be told",
        "fails" if noisy else "holds",
        "notice" if noisy or not with_interval else "fact",
        tuple(numbers),
        (Cause("noise", "other work on the machine, clocks, too few iterations"),) if noisy else (),
        next="" if with_interval else "busbw bench measures each row until its interval is narrow",
        weight=0.02,
    )


LAW = Law(
    "noise",
    "Rows repeat to within a few per cent",
    "Standard deviation of a row from samples' intervals, else robustly from neighbouring rows on the floor and on the plateau, at least what falls among them say; two rows differ by "
    "chance by 2.77 times it (95 %). Noisy from 30 %.",
    _find,
)
