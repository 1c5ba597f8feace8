"""All-reduce takes as long as reduce-scatter and all-gather one after the other, and from which size up."""

from __future__ import annotations

import math
from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import Evidence, Family, joint
from busbw.findings._law import Law
from busbw.findings._words import share, sizes, worlds
from busbw.units import format_size

CLOSE = 0.10


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families:
        yield from _of(evidence, family)


def _of(evidence: Evidence, family: Family) -> Iterator[Finding]:
    off: list[tuple[int, int, float, float, Number]] = []  # N, size, difference, allowance, number
    for all_reduce in family.of("all_reduce"):
        n = all_reduce.world_size
        scatter, gather = family.get("reduce_scatter", n), family.get("all_gather", n)
        if scatter is None or gather is None:
            continue
        for point in all_reduce.points:
            one, two = scatter.at(point.size_bytes), gather.at(point.size_bytes)
            if one is None or two is None:
                continue
            both_s = one.time_s + two.time_s
            difference = both_s / point.time_s - 1
            allowance = joint(
                evidence.row_allowance(all_reduce, point),
                evidence.row_allowance(scatter, one) * one.time_s / both_s,
                evidence.row_allowance(gather, two) * two.time_s / both_s,
            )
            what = f"(reduce_scatter + all_gather) / all_reduce - 1, N={n}, {format_size(point.size_bytes)}"
            source = f"{point.source}, {one.source}, {two.source}"
            off.append((n, point.size_bytes, difference, allowance, Number(what, 100 * difference, "%", source)))
    if not off:
        return
    top = {n: max(size for m, size, *_ in off if m == n) for n in {n for n, *_ in off}}
    start = {}  # N -> the size from which on all are close
    for n, largest in top.items():
        rows = sorted((size, abs(diff) <= max(CLOSE, allow)) for m, size, diff, allow, _ in off if m == n)
        wide = [size for size, close in rows if not close]
        first = min((size for size, _ in rows if not wide or size > max(wide)), default=None)
        if first is not None and first <= largest:
            start[n] = first
    if not start:
        shown = [entry for entry in off if entry[1] == top[entry[0]]]
        yield Finding(
            "all_reduce_is_two_halves",
            f"{family.prefix}all-reduce does not take the time of reduce-scatter plus all-gather at any size: at the largest, "
            + "; ".join(
                f"the two take {share(abs(d))} {'more' if d > 0 else 'less'} at N={n}" for n, _, d, _, _ in shown
            ),
            "fails",
            "notice",
            numbers=tuple(number for *_, number in shown),
            causes=(
                Cause("other-algorithm", "all-reduce runs another algorithm than the ring (tree, NVLS)"),
                Cause("reducing", "reducing costs time in one of them that the other hides"),
            ),
            next="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING prints the algorithm of each call",
            needs=("algorithm",),
        )
        return
    good = [entry for entry in off if entry[0] in start and entry[1] >= start[entry[0]]]
    least = {n: min(e[1] for e in good if e[0] == n) for n in start}
    worst = {n: max(abs(e[2]) for e in good if e[0] == n) for n in start}
    below = [entry for entry in off if entry[0] in start and entry[1] < least[entry[0]]]
    text = "; ".join(f"within {share(worst[n])} at N={n} from {format_size(least[n])}" for n in sorted(start))
    statement = f"{family.prefix}all-reduce = reduce-scatter + all-gather holds for large sizes: {text}."
    if below:
        deepest = sorted(below, key=lambda entry: (entry[0], entry[1]))
        smallest = [entry for entry in deepest if entry[1] == min(e[1] for e in deepest if e[0] == entry[0])]
        statement += (
            f" Below that the two together take longer, since each call pays its launch: at {sizes([e[1] for e in smallest])} "
            + "; ".join(f"{math.copysign(100 * abs(d), d):+.0f} % at N={n}" for n, _, d, _, _ in smallest)
            + "."
        )
    missing = sorted(set(top) - set(start))
    if missing:
        statement += f" At {worlds(missing)} it does not hold at any size."
    yield Finding(
        "all_reduce_is_two_halves",
        statement,
        "holds" if not missing else "cannot_tell",
        "fact",
        numbers=tuple(number for *_, number in off),
        advice=f"Splitting an all-reduce into its halves (ZeRO, FSDP) costs no bandwidth; below "
        f"{format_size(max(least.values()))} it pays one launch more a call"
        if below
        else "Splitting an all-reduce into its halves (ZeRO, FSDP) costs no bandwidth",
    )


LAW = Law(
    "all_reduce_is_two_halves",
    "All-reduce takes the time of reduce-scatter and all-gather together",
    "At each size and N with all three: T_RS + T_AG against T_AR. Close is 10 %, or the rows' joint allowance where that is "
    "more. The law holds from the smallest size above which every row is close.",
    _find,
    "2(N-1)/N S = (N-1)/N S + (N-1)/N S: docs/numbers.md",
)
