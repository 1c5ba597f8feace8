"""nccl-tests' own "Avg bus bandwidth" is a mean over sizes: it says which sizes were asked for."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.core.measurement import Measurement
from busbw.findings._evidence import Evidence
from busbw.findings._law import Law
from busbw.findings._symptoms import says
from busbw.findings._words import rate, share

CLOSE = 0.05
CAUSE = Cause("average-over-sizes", "it is the plain mean of every row, small sizes and both placements included")


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    average, busbw = facts.number("avg_busbw"), facts.number("busbw")
    if average is not None and busbw is not None:
        numbers = (
            Number("average", average, "B/s", facts.source("avg_busbw")),
            Number("largest", busbw, "B/s", facts.source("busbw")),
        )
        yield _finding(average, busbw, numbers)
    elif average is not None and not evidence.usable:
        number = Number("average", average, "B/s", facts.source("avg_busbw"))
        yield Finding(
            "average_hides_peak",
            f"{rate(average)} GB/s is an average over sizes, which depends on the sizes that were asked for: look at the largest ones",
            "cannot_tell",
            "notice",
            (number,),
            (CAUSE,),
            next="the rows themselves",
        )
    wanted = says(facts, "about-average")
    for part in evidence.runs:
        printed = part.run.average
        if (printed is None or printed.reported_GBps is None) and not wanted:
            continue
        rows = [row for row in part.measurements if row.busbw_GBps is not None]
        if len(rows) < 3 or len({row.call.collective for row in rows}) > 1:
            continue
        yield from _of_rows(evidence, rows)


def _of_rows(evidence: Evidence, rows: list[Measurement]) -> Iterator[Finding]:
    call = rows[0].call
    curves = (
        curve for curve in evidence.curves if (curve.collective, curve.world_size) == (call.collective, call.world_size)
    )
    level = next((level for curve in curves if (level := evidence.plateau(curve)) is not None), None)
    average = mean(1e9 * (row.busbw_GBps or 0.0) for row in rows)
    if level is None or level.value <= 0:
        return
    source = f"mean of {len(rows)} rows"
    yield _finding(
        average,
        level.value,
        (Number("average of all rows", average, "B/s", source), level.number),
        level.name.removeprefix("plateau of "),
    )


def _finding(average: float, top: float, numbers: tuple[Number, ...], name: str = "") -> Finding:
    hides = average < (1 - CLOSE) * top
    what = f"{name}: " if name else ""
    if hides:
        text = f"{what}the average over all sizes, {rate(average)} GB/s, is {share(1 - average / top)} below what the large sizes reach ({rate(top)}): it is not the number to look at"
    else:
        text = f"{what}the average over all sizes, {rate(average)} GB/s, is what the large sizes reach ({rate(top)})"
    return Finding(
        "average_hides_peak",
        text,
        "fails" if hides else "holds",
        "fact",
        numbers,
        (CAUSE,) if hides else (),
        weight=0.05,
    )


LAW = Law(
    "average_hides_peak",
    "The average over sizes is what the large sizes reach",
    "The mean of all rows of a run that prints one (or the facts avg_busbw and busbw) against the plateau: 5 %.",
    _find,
    "nccl-tests doc/PERFORMANCE.md; NVIDIA/nccl-tests#119",
)
