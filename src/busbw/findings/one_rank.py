"""N = 1: nothing moves."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.core.finding import Facts, Finding, Number
from busbw.findings._evidence import Evidence, where
from busbw.findings._law import Law


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    alone = [row for row in evidence.rows if row.call.world_size == 1]
    if not alone and facts.number("world_size") != 1:
        return
    number = (Number("rows with N=1", float(len(alone)), "", where(alone[0])),) if alone else ()
    yield Finding(
        "one_rank",
        (f"{len(alone)} rows are of one rank" if alone else "One rank")
        + ": nothing moves over any wire, so there is no busbw; their algbw is the speed of a local copy, if anything",
        "holds",
        "notice",
        number,
        advice="Start one process a GPU (-g 8, or mpirun -np 8): N is then the number of ranks",
        weight=0.3,
    )


LAW = Law(
    "one_rank", "More than one rank took part", "Rows with N = 1 (here the claim fails; the finding says so).", _find
)
