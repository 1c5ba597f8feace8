"""What hidden communication takes from computation, as `busbw bench --with-compute` measured it.

A call that takes t alone takes c t beside computation, and in that time computation gets done what it would have done in
c t / g, where c and g are the two slowdowns of the row. So each hidden second of a call costs c (1 - 1/g) seconds of
computation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from busbw.core.measurement import Measurement
from busbw.units import MIB


@dataclass(frozen=True, slots=True)
class Contention:
    """Seconds of computation that each hidden second of communication costs, and what that rests on."""

    share: float
    words: str


def measured_contention(rows: Iterable[Measurement]) -> Contention | None:
    """The median over rows that were taken beside computation, of 1 MiB and more where there are such; None without any."""
    found = [
        (row.call.size_bytes, row.beside.calls.ratio, row.beside.products.ratio)
        for row in rows
        if row.beside is not None and row.beside.calls is not None and row.beside.products is not None
    ]
    if not found:
        return None
    large = [each for each in found if each[0] >= MIB] or found
    share = median(calls * max(1 - 1 / products, 0.0) for _, calls, products in large)
    calls, products = median(each[1] for each in large), median(each[2] for each in large)
    return Contention(
        share,
        f"each hidden second of a call costs {share:.2f} s of computation: beside each other, calls took {calls:.2f} and "
        f"products {products:.2f} times as long ({len(large)} rows of bench --with-compute)",
    )
