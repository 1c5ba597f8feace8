"""All-to-all over hosts: only the share that crosses the network is bounded by the NICs."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import Evidence
from busbw.findings._judged import Reached, reached
from busbw.findings._law import Law
from busbw.findings._symptoms import says
from busbw.findings._words import rate, share
from busbw.findings.machines import NIC_SHARE, machine_of, nics_rate

CAUSE = Cause(
    "all-to-all-network-share",
    "of each rank's traffic only the part to other hosts uses its NIC; the rest stays on faster links",
)


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    items = [item for item in reached(evidence, facts) if item.collective in ("all_to_all", "all_to_all_v")]
    about = facts.text("op") in ("all_to_all", "all_to_all_v") or (
        says(facts, "about-all-to-all") and not says(facts, "p2p-made-it-slower")
    )
    hosts = facts.number("hosts")
    if (not items and not about) or hosts == 1:
        return
    item = items[0] if items else None
    n, per_host = _ranks(item, facts)
    formula = (
        "all-to-all on k hosts with fast links inside: busbw is at most k/(k-1) times the network rate of one GPU "
        "(2 at k=2, 1.5 at 3, 1.33 at 4, 1.14 at 8), and that rate itself with one GPU a host"
    )
    total = nics_rate(facts)
    if hosts is None or total is None or not 0 < per_host < n:
        if item is None or hosts is not None:
            needs = facts.unknown("hosts", "nic_rate", "nics", "gpus_per_host")
            yield Finding(
                "all_to_all_share",
                f"What to expect of {formula}",
                "cannot_tell",
                "fact",
                causes=(CAUSE,),
                needs=needs,
                next="say --hosts, --nic and --nics (and -N) for the number",
            )
        return
    factor = (n - 1) / (n - per_host)
    low, high = (part * total.value / per_host for part in NIC_SHARE)
    text = (
        f"all-to-all cannot add NICs up for one pair: with {total.name} and {per_host:.0f} GPUs a GPU has {rate(low)} to {rate(high)} GB/s of network. "
        f"{n - per_host:.0f} of its {n - 1:.0f} peers are on other hosts, so busbw can read up to {factor:.2f} times that ({rate(low * factor)} to "
        f"{rate(high * factor)} GB/s; k/(k-1) = {hosts / (hosts - 1):.2f} for many GPUs a host)"
    )
    numbers = [Number("network of one GPU", low, "B/s", total.source), Number("times it", factor, "x", "")]
    if item is None:
        yield Finding("all_to_all_share", text, "holds", "fact", tuple(numbers), (CAUSE,))
        return
    part = item.busbw / low
    numbers.insert(0, item.number)
    good = part >= 0.85 - item.allowance
    yield Finding(
        "all_to_all_share",
        f"{item.text} reaches {rate(item.busbw)} GB/s, {share(part)} of one GPU's network share. {text}",
        "holds" if good else "fails",
        "fact" if good else "problem",
        tuple(numbers),
        (CAUSE,)
        if good
        else (Cause("congestion", "flows of many pairs collide in the fabric, or a NIC is slow or far"),),
        next="" if good else "send_recv between the hosts, one pair of NICs at a time",
        weight=max(0.0, 1 - part),
    )


def _ranks(item: Reached | None, facts: Facts) -> tuple[float, float]:
    """N, and the ranks of one host; 0 where unknown."""
    hosts = facts.number("hosts") or 0.0
    machine = machine_of(facts)
    per_host = facts.number("gpus_per_host") or 0.0
    n = float(item.world_size) if item is not None and item.world_size else facts.number("world_size") or 0.0
    if not per_host and n and hosts:
        per_host = n / hosts
    if not per_host and machine is not None:
        per_host = machine.gpus
    return n or per_host * hosts, per_host


LAW = Law(
    "all_to_all_share",
    "All-to-all over hosts is bounded by each GPU's share of the network, times (N-1)/(N - GPUs a host)",
    "NICs' rate (92-98 %) over the GPUs of a host, times (N-1)/(N - GPUs a host), which tends to k/(k-1) on k hosts. Good from 85 % of one GPU's share.",
    _find,
    "NVIDIA/nccl-tests#130, #267",
)
