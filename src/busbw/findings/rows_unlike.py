"""Rows that look alike and are not: measured in different ways, or the same call with different times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from busbw.core.call import Call
from busbw.core.finding import Facts, Finding, Number
from busbw.core.measurement import Measurement
from busbw.findings._evidence import Evidence, where
from busbw.findings._law import Law
from busbw.findings._words import both, share
from busbw.units import format_size

APART = 0.3


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    rows = evidence.usable
    differences = []
    for what, values in (
        ("dtype", {row.call.dtype for row in rows if row.call.dtype}),
        ("origin", {row.origin == "simulated" for row in rows}),
        ("the rank whose time counts", {row.labels["rank_time"] for row in rows if "rank_time" in row.labels}),
        ("timing mode", {row.labels["mode"] for row in rows if "mode" in row.labels}),
        ("tool", {part.run.tool for part in evidence.runs if part.measurements}),
    ):
        if len(values) > 1:
            differences.append(what)
    variants = [family.variant for family in evidence.families if family.variant]
    if differences or len(variants) > 1:
        text = "These rows were not all measured alike"
        if differences:
            text += f": they differ in {both(differences)}"
        if len(variants) > 1:
            text += f"; kept apart: {'; '.join(variants[:6])}" + (
                f" and {len(variants) - 6} more" if len(variants) > 6 else ""
            )
        yield Finding("rows_unlike", text, "fails", "notice", next="compare only rows of one kind", weight=0.05)
    yield from _repeats(rows)


def _repeats(rows: list[Measurement]) -> Iterator[Finding]:
    same: dict[tuple[Call, tuple[tuple[str, str], ...]], list[Measurement]] = defaultdict(list)
    for row in rows:
        same[row.call, tuple(sorted(row.labels.items()))].append(row)
    apart = []
    for (call, _), group in same.items():
        times = [row.time_s for row in group]
        if len(group) > 1 and max(times) > (1 + APART) * min(times):
            by = max(times) / min(times) - 1
            apart.append(
                (
                    by,
                    Number(
                        f"{call.collective} N={call.world_size} {format_size(call.size_bytes)}",
                        100 * by,
                        "%",
                        ", ".join(where(row) for row in group[:4]),
                    ),
                )
            )
    if apart:
        apart.sort(key=lambda item: -item[0])
        yield Finding(
            "rows_unlike",
            f"{len(apart)} calls were measured more than once with times that lie up to {share(apart[0][0])} apart",
            "fails",
            "notice",
            tuple(number for _, number in apart[:8]),
            next="more repeats (busbw bench --repeats): is it a level of the whole launch, or chance?",
            weight=0.1,
        )


LAW = Law(
    "rows_unlike",
    "All rows were measured alike",
    "Differences in dtype, tool, timing mode, rank whose time counts, and labels that were set; repeats of one call more than 30 % apart.",
    _find,
)
