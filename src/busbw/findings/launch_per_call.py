"""Every call pays a launch, beside its 2(N-1) steps: a term that the ring's textbook formula does not have."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from busbw.core.finding import Facts, Finding, Number, Verdict
from busbw.findings._evidence import Evidence, Family, joint
from busbw.findings._law import Law
from busbw.findings._words import signed
from busbw.units import format_size, format_time

HIDDEN = 0.2
"""Steps that make up less of the floor than this hide under the launch."""


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families:
        found = [item for n in family.world_sizes if (item := launch(evidence, family, n)) is not None]
        if not found:
            continue
        parts, numbers, verdicts = [], [], []
        for n, sizes, launch_s, whole_s, slack_s, source in found:
            alpha_s = (whole_s - launch_s) / (2 * (n - 1))
            sure = launch_s > max(1.4 * slack_s, 0.2 * whole_s)
            none = launch_s < 0.2 * whole_s and slack_s < 0.2 * whole_s
            verdicts.append("holds" if sure else "fails" if none else "cannot_tell")
            tail = (
                f"alpha {format_time(alpha_s)}"
                if whole_s - launch_s > max(slack_s, HIDDEN * whole_s)
                else "alpha is not identifiable under it"
            )
            if none:
                text = f"none at N={n} (alpha {format_time(alpha_s)} a step explains the floor)"
            else:
                apart = (whole_s + launch_s) / whole_s - 1
                text = f"{format_time(launch_s)} at N={n} (RS + AG {signed(apart)} against AR; {tail})"
            parts.append(text if sure or none else f"{text}, within the rows' noise of {format_time(slack_s)}")
            numbers.append(Number(f"launch a call, N={n}, {sizes}", launch_s, "s", source))
        verdict: Verdict = "holds" if "holds" in verdicts else "fails" if set(verdicts) == {"fails"} else "cannot_tell"
        lead = {
            "holds": "each call pays a launch that the ring formula 2(N-1)(S/(N B) + alpha) does not have",
            "fails": "no launch beside the steps' alpha is seen",
            "cannot_tell": "whether each call pays a launch beside its steps these rows cannot tell",
        }[verdict]
        dear = verdict == "holds"
        yield Finding(
            "launch_per_call",
            f"{family.prefix}{lead}: {'; '.join(parts)}",
            verdict,
            "notice" if dear else "fact",
            numbers=tuple(numbers),
            advice=f"Fewer, larger calls: 100 small tensors, reduced one by one, cost 100 floors ({format_time(100 * found[-1][3])} "
            f"at N={found[-1][0]}); one flat bucket costs one, and CUDA graphs hide launches"
            if dear
            else "",
            next="" if dear else "all three operations at 8 B with an interval for each (busbw bench -b 8 -e 4K)",
            weight=0.1,
        )


def launch(evidence: Evidence, family: Family, n: int) -> tuple[int, str, float, float, float, str] | None:
    """N, the small sizes in words, median of T_RS + T_AG - T_AR over them, T_AR there, the allowance of the first (s), places."""
    whole, scatter, gather = (family.get(op, n) for op in ("all_reduce", "reduce_scatter", "all_gather"))
    if whole is None or scatter is None or gather is None:
        return None
    sizes, found, slacks, sources = [], [], [], []
    for point in whole.small:
        one, two = scatter.at(point.size_bytes), gather.at(point.size_bytes)
        if one is None or two is None:
            continue
        sizes.append(point.size_bytes)
        rows = ((whole, point), (scatter, one), (gather, two))
        found.append(one.time_s + two.time_s - point.time_s)
        slacks.append(joint(*(evidence.row_allowance(curve, row) * row.time_s for curve, row in rows)))
        sources.append(", ".join(row.source for _, row in rows))
    if not found:
        return None
    widening = 1.0 if len(found) < 2 else 1.25 / math.sqrt(len(found))  # of a median against a mean
    return (
        n,
        format_size(sizes[0]) if len(sizes) == 1 else f"median of {format_size(sizes[0])} to {format_size(sizes[-1])}",
        median(found),
        median(p.time_s for p in whole.small),
        median(slacks) * widening,
        "; ".join(sources),
    )


LAW = Law(
    "launch_per_call",
    "Every call pays a launch beside its steps",
    "Over the small sizes with all three, the median of t0 = T_RS + T_AG - T_AR. By the formula without launch it is 0, with launch it is t0. It holds where "
    "t0 exceeds 1.4 times the rows' allowance and a fifth of T_AR at any N; alpha = (T_AR - t0) / 2(N-1) is identifiable where the steps are more than the allowance and a fifth of T_AR.",
    _find,
    "T = t0 + 2(N-1)(S/(N B) + alpha): docs/numbers.md",
)
