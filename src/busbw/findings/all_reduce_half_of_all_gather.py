"""The algbw of all-reduce is about half of all-gather's: it moves the bytes twice."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import Evidence, joint
from busbw.findings._law import Law
from busbw.units import format_size

SLACK = 0.15


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families:
        found = []  # N, ratio, ratio that RS and AG predict, close, number
        for reduce in family.of("all_reduce"):
            n = reduce.world_size
            gather, scatter = family.get("all_gather", n), family.get("reduce_scatter", n)
            if gather is None or not reduce.large or not gather.large:
                continue
            one = reduce.points[-1]
            two = gather.at(one.size_bytes)
            if two is None:
                continue
            ratio = two.time_s / one.time_s
            three = None if scatter is None else scatter.at(one.size_bytes)
            predicted = None if three is None else two.time_s / (two.time_s + three.time_s)
            allowance = joint(evidence.row_allowance(reduce, one), evidence.row_allowance(gather, two))
            what = f"algbw(all_reduce) / algbw(all_gather), N={n}, {format_size(one.size_bytes)}"
            number = Number(what, ratio, "x", f"{one.source}, {two.source}")
            found.append((n, ratio, predicted, abs(ratio / 0.5 - 1) <= max(SLACK, allowance), number))
        if not found:
            continue
        listed = ", ".join(f"{ratio:.2f} at N={n}" for n, ratio, *_ in found)
        statement = f"{family.prefix}algbw(all-reduce) / algbw(all-gather) at the largest size is {listed}"
        for n, ratio, predicted, _, _ in found:
            if predicted is not None and ratio < 0.485 and abs(predicted - ratio) < 0.03:
                statement += f"; at N={n} less than half because reduce-scatter is slower than all-gather there"
        ok = all(close for *_, close, _ in found)
        high = any(ratio > 0.5 * (1 + SLACK) for _, ratio, *_ in found)
        causes: tuple[Cause, ...] = ()
        if not ok:
            causes = (
                (
                    Cause(
                        "other-algorithm",
                        "all-reduce moves fewer bytes than the ring does: NVLS, or a tree on few hosts",
                    ),
                )
                if high
                else (
                    Cause("reducing", "reducing costs time"),
                    Cause("other-algorithm", "the two run different algorithms"),
                )
            )
        yield Finding(
            "all_reduce_half_of_all_gather",
            statement,
            "holds" if ok else "fails",
            "fact" if ok else "notice",
            numbers=tuple(number for *_, number in found),
            causes=causes,
            needs=("algorithm",) if causes else (),
            next="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING prints the algorithm of each call" if causes else "",
        )


LAW = Law(
    "all_reduce_half_of_all_gather",
    "The algbw of all-reduce is half of all-gather's",
    "T_AG / T_AR at the largest common size; half to 15 %, or the joint allowance of the two rows.",
    _find,
    "a rank sends 2(N-1)/N S against (N-1)/N S: docs/numbers.md",
)
