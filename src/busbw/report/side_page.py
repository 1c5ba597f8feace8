"""What the page says of one run: its verdict, findings and key numbers, and its rates at a glance."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.core.finding import FACT_KINDS, Facts, Finding
from busbw.core.measurement import Measurement
from busbw.costs.report import FitReport
from busbw.findings import complete_facts, explain, fact_text, verdict
from busbw.plots.lines import collective_order, has_bandwidth
from busbw.report.fit_page import FitPage, fit_page, rate_interval, size_interval, time_interval
from busbw.report.machine_page import MachinePage, machine_page
from busbw.report.sides import Side
from busbw.units import GB, format_rate, format_size, format_time

_SECTIONS = (
    ("wrong", "Broken"),
    ("problem", "What costs time"),
    ("notice", "Read the numbers with this in mind"),
    ("fact", "Laws, checked"),
)


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings of one severity, under one heading."""

    severity: str
    heading: str
    findings: tuple[Finding, ...]

    @property
    def count(self) -> str:
        """How many hold, do not, and cannot be told."""
        words = (("holds", "hold"), ("fails", "do not hold"), ("cannot_tell", "cannot be told"))
        counts = ((sum(finding.verdict == verdict for finding in self.findings), text) for verdict, text in words)
        return ", ".join(f"{text}: {count}" for count, text in counts if count)


@dataclass(frozen=True, slots=True)
class KeyNumber:
    """A number that stands for the run: what it is, its value, the interval or origin, and what it means."""

    name: str
    value: str
    range: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Cell:
    """busbw of one op at one N at the largest size: in GB/s, as text, its share of the fastest, and where it came from."""

    rate: str
    share: float
    about: str
    marked: bool


@dataclass(frozen=True, slots=True)
class Overview:
    """busbw at the largest sizes: one row an op, one column an N. None where nothing was measured."""

    world_sizes: tuple[int, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class KnownFact:
    """A fact that the findings used."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class MissingFact:
    """A fact that would decide something, and how to get it."""

    name: str
    how: str


@dataclass(frozen=True, slots=True)
class SidePage:
    """One run on the page."""

    letter: str
    name: str
    files: tuple[str, ...]
    verdict: tuple[str, ...]
    key_of: str
    """The call that the key numbers are of: `all_reduce at N = 8`."""
    keys: tuple[KeyNumber, ...]
    groups: tuple[FindingGroup, ...]
    known: tuple[KnownFact, ...]
    missing: tuple[MissingFact, ...]
    overview: Overview | None
    fit: FitPage
    machine: MachinePage


def side_page(side: Side, fit: FitReport | None, why_no_fit: str, facts: Facts) -> SidePage:
    """Explain one run, and put what it says in order."""
    found = explain(side.files, facts)
    known = complete_facts(side.files, facts)
    key_of, keys = _keys(side.rows, fit)
    return SidePage(
        side.letter,
        side.name,
        side.file_names,
        tuple(verdict(found)),
        key_of,
        keys,
        tuple(
            FindingGroup(severity, heading, chosen)
            for severity, heading in _SECTIONS
            if (chosen := tuple(finding for finding in found if finding.severity == severity))
        ),
        tuple(KnownFact(name, fact_text(name, fact), fact.source) for name, fact in known.known.items()),
        tuple(
            MissingFact(name, FACT_KINDS[name].how or FACT_KINDS[name].meaning)
            for name in dict.fromkeys(name for finding in found for name in finding.needs)
        ),
        _overview(side.rows),
        fit_page(fit, why_no_fit),
        machine_page(side.files),
    )


def _keys(rows: Sequence[Measurement], fit: FitReport | None) -> tuple[str, tuple[KeyNumber, ...]]:
    """The numbers of all_reduce (or of the first op there is) at the largest N."""
    moving = [row for row in rows if has_bandwidth(row)]
    if not moving:
        return "", ()
    names = {row.call.collective for row in moving}
    op = "all_reduce" if "all_reduce" in names else min(names, key=collective_order)
    n = max(row.call.world_size for row in moving if row.call.collective == op)
    mine = [row for row in moving if (row.call.collective, row.call.world_size) == (op, n)]
    return f"{op} at N = {n}", tuple(_key_numbers(op, n, mine, fit))


def _key_numbers(op: str, n: int, rows: Sequence[Measurement], fit: FitReport | None) -> Iterator[KeyNumber]:
    size = max(row.call.size_bytes for row in rows)
    time_s = statistics.median(row.time_s for row in rows if row.call.size_bytes == size)
    curve = next((c for c in (fit.curves if fit else ()) if (c.curve.collective, c.curve.world_size) == (op, n)), None)
    if curve is not None and curve.bandwidth_Bps is not None:
        rate, span = rate_interval(curve.bandwidth_Bps)
        yield KeyNumber("busbw of large sizes", rate, span, "what one rank's wires carry as S grows (B of the fit)")
    else:
        best = max(rows, key=lambda row: row.busbw_GBps or 0.0)
        rate = format_rate((best.busbw_GBps or 0.0) * GB)
        yield KeyNumber("largest busbw", rate, f"measured at {format_size(best.call.size_bytes)}", "")
    if curve is not None and curve.launch_s is not None:
        floor, span = time_interval(curve.launch_s)
        yield KeyNumber("latency of small sizes", floor, span, "what a call takes as S goes to 0, all steps included")
    if curve is not None and curve.half_peak_bytes is not None:
        half, span = size_interval(curve.half_peak_bytes)
        yield KeyNumber("half of that rate at", half, span, "smaller calls waste most of the wire")
    yield KeyNumber(f"{format_size(size)} takes", format_time(time_s), "measured", "")


def _overview(rows: Sequence[Measurement]) -> Overview | None:
    cells: dict[tuple[str, int], list[Measurement]] = defaultdict(list)
    for row in rows:
        if has_bandwidth(row):
            cells[row.call.collective, row.call.world_size].append(row)
    if not cells:
        return None
    largest: dict[tuple[str, int], tuple[float, int, bool]] = {}
    for key, members in cells.items():
        size = max(row.call.size_bytes for row in members)
        there = [row for row in members if row.call.size_bytes == size]
        rate = statistics.median(row.busbw_GBps or 0.0 for row in there)
        largest[key] = (rate, size, any(row.marks or row.wrong for row in there))
    most = max(rate for rate, _, _ in largest.values())
    world_sizes = tuple(sorted({n for _, n in largest}))
    ops = sorted({op for op, _ in largest}, key=collective_order)

    def cell(op: str, n: int) -> Cell | None:
        if (op, n) not in largest:
            return None
        rate, size, marked = largest[op, n]
        return Cell(format_rate(rate * GB).split()[0], rate / most, f"at {format_size(size)}", marked)

    return Overview(world_sizes, tuple((op, tuple(cell(op, n) for n in world_sizes)) for op in ops))
