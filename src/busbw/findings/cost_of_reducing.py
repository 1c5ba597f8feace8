"""Does the sum itself cost time? Reduce-scatter against all-gather, which moves the same bytes and reduces nothing."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding, Number, Verdict
from busbw.findings._evidence import Evidence, joint
from busbw.findings._law import Law
from busbw.findings._words import share
from busbw.units import format_size, format_time

SMALL = 0.05


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families:
        costs = []  # N, size, seconds, share of all-gather's time, allowance, number
        for scatter in family.of("reduce_scatter"):
            n = scatter.world_size
            gather = family.get("all_gather", n)
            if gather is None or not scatter.large or not gather.large:
                continue
            one = scatter.points[-1]
            two = gather.at(one.size_bytes)
            if two is None:
                continue
            cost_s = one.time_s - two.time_s
            allowance = joint(evidence.row_allowance(scatter, one), evidence.row_allowance(gather, two))
            what = f"reduce_scatter - all_gather, N={n}, {format_size(one.size_bytes)}"
            costs.append(
                (
                    n,
                    one.size_bytes,
                    cost_s,
                    cost_s / two.time_s,
                    allowance,
                    Number(what, cost_s, "s", f"{one.source}, {two.source}"),
                )
            )
        if not costs:
            continue
        dear = [item for item in costs if item[3] > max(SMALL, 1.5 * item[4])]
        cheap = [item for item in costs if item[3] <= max(SMALL, item[4])]
        listed = ", ".join(f"{'-' if s < 0 else '+'}{format_time(abs(s))} at N={n}" for n, _, s, *_ in costs)
        text = f"{family.prefix}reduce-scatter minus all-gather (same bytes, one reduces) at {format_size(costs[-1][1])}: {listed}"
        numbers = tuple(item[-1] for item in costs)
        if not dear:
            known = all(item[4] <= 0.1 for item in costs)
            verdict: Verdict = "fails" if known else "cannot_tell"
            ending = (
                "reducing costs nothing that shows"
                if known
                else "rows scatter too much to say whether reducing costs time"
            )
            yield Finding("cost_of_reducing", f"{text}: {ending}", verdict, "fact", numbers)
            continue
        worst = dear[-1]
        if cheap:
            ending = (
                f"a cost at N={', '.join(str(item[0]) for item in dear)} ({share(worst[3])}) and none at "
                f"N={', '.join(str(item[0]) for item in cheap)}, so not a cost per reduced byte"
            )
        else:
            ending = f"reducing costs {share(worst[3])} at N={worst[0]}"
        causes = [
            Cause(
                "other-route", "its traffic takes another route, protocol or order of ranks than all-gather's at that N"
            ),
            Cause("reducing-contends", "its extra reads and writes of GPU memory contend with the traffic there"),
        ]
        if not cheap:
            causes.insert(0, Cause("reduction-bound", "the reduction kernel is slower than the wire: a cost per byte"))
        yield Finding(
            "cost_of_reducing",
            f"{text}: {ending}",
            "holds" if not cheap else "fails",
            "notice",
            numbers,
            tuple(causes),
            next="the same pair of operations with another dtype and with NCCL_MAX_NCHANNELS doubled; TUNING lines of both",
            weight=worst[3] / 4,
        )


LAW = Law(
    "cost_of_reducing",
    "Reducing costs time, in proportion to the bytes",
    "T_RS - T_AG at the largest common size over N: a cost is more than 5 % and 1.5 times the two rows' allowance. With a cost at one N and none at "
    "another it is not one per byte.",
    _find,
    "both send (N-1)/N S; reduce-scatter also adds: docs/numbers.md",
)
