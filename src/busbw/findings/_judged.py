"""The bandwidths that diagnoses judge: plateaus of rows, or what was reported without rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from busbw.core.finding import Facts, Number
from busbw.findings._evidence import Evidence, Family


@dataclass(frozen=True, slots=True)
class Reached:
    """A busbw that was reached: by which operation, over how many ranks (0: unknown), at which sizes."""

    collective: str
    world_size: int
    busbw: float
    allowance: float
    number: Number
    largest_bytes: int = 0
    family: Family | None = None
    is_average: bool = False
    algorithm: str = ""

    @property
    def text(self) -> str:
        """`all_reduce at N=8`."""
        at = f" at N={self.world_size}" if self.world_size else ""
        return f"{self.collective or 'the test'}{at}"


def reached(evidence: Evidence, facts: Facts) -> Iterator[Reached]:
    """Every curve's plateau at its family's largest N, and the numbers among the facts."""
    for family in evidence.families:
        for curve in family.curves.values():
            level = evidence.plateau(curve)
            if level is None or curve.world_size != family.world_sizes[-1]:
                continue
            rows = [row for point in curve.large for row in point.rows]
            chosen = {row.labels.get("algorithm") or row.labels.get("NCCL_ALGO") or "" for row in rows}
            algorithm = chosen.pop() if len(chosen) == 1 else ""
            yield Reached(
                curve.collective,
                curve.world_size,
                level.value,
                level.allowance,
                level.number,
                curve.points[-1].size_bytes,
                family,
                algorithm=algorithm or facts.text("algorithm"),
            )
    n = int(facts.number("world_size") or 0)
    for name in ("busbw", "avg_busbw"):
        value = facts.number(name)
        if value is not None and value > 0:
            number = Number(name.replace("_", " "), value, "B/s", facts.source(name))
            yield Reached(
                facts.text("op") or "all_reduce",
                n,
                value,
                0.05,
                number,
                int(facts.number("size") or 0),
                is_average=name == "avg_busbw",
                algorithm=facts.text("algorithm"),
            )


def all_reduce_like(collective: str) -> bool:
    """Operations whose busbw over several hosts is bounded by the NICs of one host together."""
    return collective in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "")
