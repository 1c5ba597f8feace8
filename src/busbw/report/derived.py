"""How every number on the page is derived: factors, one row worked, and what the marks in the rows mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.core.collective import COLLECTIVES
from busbw.core.measurement import Measurement
from busbw.plots.lines import collective_order, has_bandwidth
from busbw.report.data import FACTORS
from busbw.units import GB, format_size, format_time


@dataclass(frozen=True, slots=True)
class FactorLine:
    """What an op does, and its bus factor: as a formula, and at each N on the page."""

    collective: str
    summary: str
    role: str
    formula: str
    at: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MarkLine:
    """A mark: its code, how many rows carry it, and the reason that one of them gives."""

    code: str
    rows: int
    reason: str


@dataclass(frozen=True, slots=True)
class Derived:
    """The page's last section."""

    world_sizes: tuple[int, ...]
    factors: tuple[FactorLine, ...]
    example: tuple[str, ...]
    """One row worked, a line a step; empty when no row moves data."""
    marks: tuple[MarkLine, ...]


def derive(rows: Sequence[Measurement]) -> Derived:
    """The derivations that these rows need."""
    moving = [row for row in rows if has_bandwidth(row)]
    world_sizes = tuple(sorted({row.call.world_size for row in moving}))
    names = sorted({row.call.collective for row in rows} & set(COLLECTIVES.names()), key=collective_order)
    codes = Counter(mark.code for row in rows for mark in row.marks)
    reasons = {mark.code: mark.reason for row in reversed(rows) for mark in row.marks}
    return Derived(
        world_sizes,
        tuple(_factor(name, world_sizes) for name in names),
        _example(moving),
        tuple(MarkLine(code, count, reasons[code]) for code, count in sorted(codes.items())),
    )


def _factor(name: str, world_sizes: Sequence[int]) -> FactorLine:
    kind = COLLECTIVES.get(name)
    if not kind.moves_data:
        return FactorLine(name, kind.summary, kind.role, "no rate", tuple("" for _ in world_sizes))
    values = tuple(f"{kind.bus_factor(n):.4g}" if n > 1 else "" for n in world_sizes)
    return FactorLine(name, kind.summary, kind.role, FACTORS.get(kind.bus_factor, ""), values)


def _example(rows: Sequence[Measurement]) -> tuple[str, ...]:
    """The largest size of the op and N that the page begins with."""
    if not rows:
        return ()
    row = max(rows, key=lambda r: (r.call.collective == "all_reduce", r.call.world_size, r.call.size_bytes))
    call, algbw, busbw = row.call, row.algbw_GBps or 0.0, row.busbw_GBps or 0.0
    factor = call.kind.bus_factor(call.world_size)
    formula = FACTORS.get(call.kind.bus_factor, "")
    written = f"{formula.replace('N', str(call.world_size))} = " if "N" in formula else ""
    where = f" ({row.source.file}:{row.source.line})" if row.source else ""
    return (
        f"{call.collective}, N = {call.world_size}, S = {format_size(call.size_bytes)}, t = {format_time(row.time_s)}{where}",
        f"algbw = S / t = {call.size_bytes} B / {row.time_s:.6g} s = {call.size_bytes / row.time_s / GB:.4g} GB/s",
        f"busbw = algbw x bus factor = {algbw:.4g} GB/s x {written}{algbw:.4g} GB/s x {factor:.4g} = {busbw:.4g} GB/s"
        if written
        else f"busbw = algbw x bus factor = {algbw:.4g} GB/s x {factor:.4g} = {busbw:.4g} GB/s",
    )
