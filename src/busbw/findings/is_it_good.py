"""Is the number good? The plateau against what such a machine's wires carry and its collectives have been seen to reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from busbw.core.finding import Facts, Finding, Number
from busbw.findings._evidence import Evidence
from busbw.findings._judged import Reached, all_reduce_like, reached
from busbw.findings._law import Law
from busbw.findings._symptoms import says
from busbw.findings._words import rate, share
from busbw.findings.machines import NIC_SHARE, RULES, WIRE_SHARE, machine_of, nics_rate
from busbw.units import GB, GIB, format_size

GOOD, LOW = 0.85, 0.75


@dataclass(frozen=True, slots=True)
class Expected:
    """What a collective should reach, B/s, and why."""

    low: float
    high: float
    text: str
    source: str


def expected(facts: Facts, world_size: int, algorithm: str = "", collective: str = "all_reduce") -> Expected | None:
    """What a ring collective, or an all-reduce, should reach on this machine; None when too little is known."""
    hosts, machine = facts.number("hosts"), machine_of(facts)
    if hosts is not None and hosts > 1:
        if collective in ("all_to_all", "all_to_all_v"):
            return None
        nics = nics_rate(facts)
        if nics is None:
            return None
        low, high = (share * nics.value for share in NIC_SHARE)
        return Expected(low, high, f"{nics.name} carry {rate(low)} to {rate(high)} GB/s", f"{nics.source}; {RULES}")
    peak = facts.number("peak")
    if peak is not None:
        return Expected(
            WIRE_SHARE * peak, peak, f"80 % of the peak of {rate(peak)} GB/s, or more", facts.source("peak")
        )
    if machine is None or hosts is None:
        return None
    ring = (machine.ring or WIRE_SHARE * machine.wire) * GB
    if collective == "all_reduce" and world_size in machine.by_world:
        value = machine.by_world[world_size] * GB
        return Expected(value, value, f"{machine.name} at N={world_size}: {rate(value)} GB/s", machine.source)
    nvls = machine.nvls.get(world_size or machine.gpus, 0.0) * GB
    if collective == "all_reduce" and nvls and facts.flag("nvls") is not False and algorithm.lower() in ("", "nvls"):
        text = f"{machine.name}: {rate(ring)} GB/s with Ring, up to {rate(nvls)} with in-switch reduction (NVLS)"
        return Expected(ring, nvls, text, machine.source)
    return Expected(
        ring, ring, f"{machine.name}: about {rate(ring)} GB/s with Ring on a wire of {machine.wire:.0f}", machine.source
    )


def judged_share(item: Reached, facts: Facts) -> tuple[float, Expected] | None:
    """Busbw over the low end of what is expected; None when it is not known."""
    want = expected(facts, item.world_size, item.algorithm, item.collective)
    return None if want is None else (item.busbw / want.low, want)


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    items = [item for item in reached(evidence, facts) if all_reduce_like(item.collective)]
    if not items:
        if says(facts, "is-it-good") and facts.number("hosts") != 1 and nics_rate(facts) is not None:
            yield from _only_expected(facts)
        return
    best = max(items, key=lambda item: (item.collective == "all_reduce", not item.is_average, item.busbw))
    judged = judged_share(best, facts)
    if judged is None:
        yield _unknown(best, evidence, facts)
        return
    part, want = judged
    numbers = (
        best.number,
        Number("expected from", want.low, "B/s", want.source),
        Number("of that", 100 * part, "%", ""),
    )
    said = f"{best.text} reaches {rate(best.busbw)} GB/s busbw; {want.text}"
    slack = best.allowance
    if part >= GOOD - slack and part >= GOOD - 0.05:
        text = f"Good: {said}"
        if want.high > 1.02 * best.busbw and want.high > 1.05 * want.low and 0 < best.largest_bytes < 2 * GIB:
            text += f". {format_size(best.largest_bytes)} is too small to reach the peak: test larger sizes"
        yield Finding("is_it_good", text, "holds", "fact", numbers, weight=1.0, advice=_two_hosts(facts))
    elif part < LOW - slack and _by_host_memory(best, facts):
        yield Finding(
            "is_it_good",
            f"{said}, so this is {share(part)} of it. Between PCIe GPUs without peer access (through host memory) that is usual, with it low",
            "cannot_tell",
            "notice",
            numbers,
            next="NCCL_DEBUG=INFO: 'via P2P' or 'via SHM'; --peak for what this machine's path carries",
            needs=facts.unknown("p2p"),
            weight=1 - part,
        )
    elif part < LOW - slack and not (best.is_average and part > 0.5):
        yield Finding(
            "is_it_good", f"Low: {said}, so this is {share(part)} of it", "fails", "problem", numbers, weight=1 - part
        )
    elif best.is_average:
        yield Finding(
            "is_it_good",
            f"{said}. An average over sizes says little: it is {share(part)} of it, the largest sizes may well reach it",
            "cannot_tell",
            "notice",
            numbers,
            next="the busbw of the largest size",
        )
    else:
        yield Finding(
            "is_it_good", f"Middling: {said}, so this is {share(part)} of it", "cannot_tell", "notice", numbers
        )


def _by_host_memory(best: Reached, facts: Facts) -> bool:
    """Whether the path may lead through host memory, for which the table has no rate."""
    machine = machine_of(facts)
    inside = (facts.number("hosts") or 1) <= 1 and facts.number("peak") is None
    return inside and machine is not None and machine.link == "pcie" and facts.flag("p2p") is not True


def _two_hosts(facts: Facts) -> str:
    machine = machine_of(facts)
    if machine is None or not machine.nics or facts.number("hosts") != 1:
        return ""
    low, high = (share * machine.nic_Gbps * GB / 8 for share in NIC_SHARE)
    return (
        f"Over several hosts expect {rate(low)} to {rate(high)} GB/s a NIC of {machine.nic_Gbps:.0f} Gb/s with Ring, "
        f"{rate(machine.nics * low)} to {rate(machine.nics * high)} with {machine.nics}"
    )


def _only_expected(facts: Facts) -> Iterator[Finding]:
    want = expected(
        facts, int(facts.number("world_size") or 0), facts.text("algorithm"), facts.text("op") or "all_reduce"
    )
    if want is not None:
        number = Number("expected from", want.low, "B/s", want.source)
        yield Finding(
            "is_it_good", f"Expect: {want.text}", "cannot_tell", "fact", (number,), next="busbw at 1 GiB and above"
        )


def _unknown(best: Reached, evidence: Evidence, facts: Facts) -> Finding:
    hosts = facts.number("hosts")
    needs: tuple[str, ...]
    if hosts is None:
        needs = facts.unknown("hosts", "machine", "peak")
    elif hosts > 1:
        needs = facts.unknown("nic_rate", "nics")
    else:
        needs = facts.unknown("machine", "peak")
    return Finding(
        "is_it_good",
        f"{best.text} reaches {rate(best.busbw)} GB/s busbw; whether that is good cannot be said without the wire's rate"
        + _beside(best, evidence),
        "cannot_tell",
        "notice",
        (best.number,),
        needs=needs,
        next="say what the wire carries: --peak 50GB/s, or --machine, or --hosts, --nic and --nics",
    )


def _beside(best: Reached, evidence: Evidence) -> str:
    """The best one-way rate in the same rows, which the wire carries at least."""
    if best.family is None:
        return ""
    levels = [level for curve in best.family.curves.values() if (level := evidence.plateau(curve)) is not None]
    top = max(levels, key=lambda level: level.value)
    if top.value < 1.2 * best.busbw:
        return ""
    return f". It carries {rate(top.value)} at least ({top.name.removeprefix('plateau of ')}), of which this is {share(best.busbw / top.value)}"


LAW = Law(
    "is_it_good",
    "The plateau is what such a machine reaches",
    "Plateau of all_reduce (else the best ring operation) at the largest N against the table of machines, 80 % of --peak, or 92-98 % of the NICs' "
    "line rate over several hosts. From 85 % it is good, below 75 % low, beyond the plateau's allowance.",
    _find,
    RULES,
)
