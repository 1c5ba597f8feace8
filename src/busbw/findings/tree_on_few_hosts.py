"""Busbw above the network's rate: a tree on two hosts sends less than the formula counts."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import Evidence
from busbw.findings._judged import reached
from busbw.findings._law import Law
from busbw.findings._symptoms import says
from busbw.findings._words import rate, share
from busbw.findings.machines import nics_rate

MOVES_LESS = Cause(
    "tree-two-hosts",
    "a tree sends S each way between two hosts, where a ring sends 2(N-1)/N S: busbw, which counts the ring's bytes, reads up to twice the wire",
)


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    if (facts.number("hosts") or 0) < 2:
        return
    total = nics_rate(facts)
    if total is None and facts.number("nic_rate") is not None:
        total = Number("one NIC", facts.number("nic_rate") or 0.0, "B/s", facts.source("nic_rate"))
    for item in reached(evidence, facts):
        if item.collective != "all_reduce" or total is None or item.busbw < (1.02 + item.allowance / 2) * total.value:
            continue
        above = f"{rate(item.busbw)} GB/s busbw is more than {total.name} can carry ({rate(total.value)} GB/s)"
        numbers = (item.number, total)
        if item.algorithm.lower() == "ring":
            yield Finding(
                "tree_on_few_hosts",
                f"{above}, although the algorithm is Ring: more NICs are in use, or faster ones, than was said",
                "cannot_tell",
                "notice",
                numbers,
                next="the line 'NET/IB : Using ...' names the NICs; ibstat their rates",
                needs=("nics",),
            )
        else:
            yield Finding(
                "tree_on_few_hosts",
                f"{above}, so fewer bytes crossed the network than busbw counts: Tree (or a reduction in the network) was used. With Ring "
                f"busbw stays below {rate(total.value)}",
                "holds",
                "notice",
                numbers,
                (MOVES_LESS,),
                next="the same with NCCL_ALGO=Ring; TUNING lines say 'Algo TREE'",
                needs=facts.unknown("algorithm"),
                advice="Normal: use Ring to judge the network, and what is fastest to train",
                weight=0.5,
            )
        return
    if says(facts, "tree-against-ring"):
        text = "That Tree beats Ring on two hosts is expected: a tree sends S each way between them, a ring 2(N-1)/N S"
        ring = [item for item in reached(evidence, facts) if item.collective == "all_reduce"]
        if ring and total is not None:
            text += f". Ring at {rate(ring[0].busbw)} GB/s is {share(ring[0].busbw / total.value)} of the wire of {rate(total.value)}"
        yield Finding("tree_on_few_hosts", text, "holds", "fact", causes=(MOVES_LESS,))


LAW = Law(
    "tree_on_few_hosts",
    "Busbw above the network's rate means that fewer bytes crossed it",
    "Over several hosts, all_reduce, busbw above the NICs' line rate by more than 2 % and half its allowance, unless the algorithm is known to be Ring.",
    _find,
    "NVIDIA/nccl-tests#22, NVIDIA/nccl#812",
)
