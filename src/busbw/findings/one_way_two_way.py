"""One pair of ranks: does traffic in both directions at once cost either direction anything?"""

from __future__ import annotations

import math
from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import ONE_WAY_AT_TWO, TWO_WAY_AT_TWO, Evidence, Family, Level, joint
from busbw.findings._law import Law
from busbw.findings._words import both, rate, span

FREE, SHARED = 1.15, 1.35
"""One-way over two-way rate: up to FREE the directions are independent, from SHARED on they are not."""


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families:
        one_way = _levels(evidence, family, ONE_WAY_AT_TWO)
        two_way = _levels(evidence, family, TWO_WAY_AT_TWO)
        if not one_way or not two_way:
            continue
        # the slowest one-way against the fastest two-way op: what all of them agree on
        slow, fast = min(one_way, key=lambda x: x.value), max(two_way, key=lambda x: x.value)
        ratio, allowance = slow.over(fast), joint(slow.allowance, fast.allowance)
        numbers = tuple(level.number for level in (*one_way, *two_way))
        said = (
            f"{family.prefix}on one pair (N=2) one-way traffic ({_ops(one_way)}) runs at {span([x.value for x in one_way])}, "
            f"two-way traffic ({_ops(two_way)}) at {span([x.value for x in two_way])} each way"
        )
        if ratio <= FREE and math.log(ratio) + allowance <= math.log(SHARED):
            yield Finding(
                "one_way_two_way", f"{said}: the directions do not compete (full duplex)", "holds", "fact", numbers
            )
        elif ratio >= SHARED and math.log(ratio) - allowance >= math.log(FREE):
            yield _shared(evidence, family, facts, said, slow, fast, numbers)
        else:
            yield Finding(
                "one_way_two_way",
                f"{said}: whether the directions compete these rows cannot tell (ratio {ratio:.2f})",
                "cannot_tell",
                "fact",
                numbers,
                next="one pair, measured one way (send_recv_one_way) and both ways (send_recv) at 1 GiB, with intervals",
            )


def _shared(
    evidence: Evidence, family: Family, facts: Facts, said: str, slow: Level, fast: Level, numbers: tuple[Number, ...]
) -> Finding:
    pair = slow.value
    port = port_load(evidence, family)
    causes, ruled_out = [], []
    p2p, acs = facts.flag("p2p"), facts.flag("acs")
    if acs is False or p2p is False:
        why = "ACS is off" if acs is False else "the transport is shared memory, not P2P"
        ruled_out.append(Cause("acs-redirect", f"{why} ({facts.source('acs' if acs is False else 'p2p')})"))
    else:
        causes.append(
            Cause(
                "acs-redirect",
                "peer traffic climbs to the root port and comes back down the pair's shared uplink (ACS or IOMMU redirect)",
            )
        )
    if p2p is True:
        ruled_out.append(Cause("host-memory", f"the transport is P2P ({facts.source('p2p')})"))
    else:
        causes.append(
            Cause("host-memory", "the pair talks through host memory (SHM transport), both ways over one uplink")
        )
    if port is not None and port.value > pair * 1.06:
        ruled_out.append(
            Cause(
                "half-duplex-wires",
                f"a port here moves {rate(port.value)} GB/s, in and out together ({port.name}), more than the "
                f"{rate(pair)} that half-duplex wires of this pair would allow",
            )
        )
    else:
        causes.append(Cause("half-duplex-wires", "the wires carry one direction at a time"))
    if port is not None and port.value <= pair * 1.06 and len(causes) == 1:
        causes.append(Cause("duplex-budget", "a port has one budget for both directions"))
    undecided = len(causes) > 1
    return Finding(
        "one_way_two_way",
        f"{said}: send and receive do compete ({slow.over(fast):.2f} times the rate one way), although links are full-duplex on paper"
        + (f". Rows alone cannot choose between {both([_short(cause) for cause in causes])}" if undecided else ""),
        "fails",
        "problem",
        numbers + (() if port is None else (port,)),
        tuple(causes),
        tuple(ruled_out),
        next="sudo lspci -vvv | grep -i ACSCtl on the bridges above the GPUs, and NCCL_DEBUG=INFO for 'via P2P' or 'via SHM'; "
        "or one pair under one switch, one-way and both ways, with ACS off",
        needs=facts.unknown("acs", "p2p"),
        advice="Ring collectives pay for this at every N. If it is ACS: switch it off on bare metal (BIOS, or setpci), which on a "
        "public machine of this class took a pair from 50 to 103 GB/s both ways together",
        weight=1 - 1 / slow.over(fast),
        headline=f"send and receive compete on one pair: {rate(slow.value)} GB/s one way, {rate(fast.value)} each way when both; "
        f"{_short(causes[0])}{' or ' + _short(causes[1]) if undecided else ''}",
    )


def _short(cause: Cause) -> str:
    return {"acs-redirect": "ACS redirect", "host-memory": "host memory"}.get(cause.code, cause.code.replace("-", " "))


def _levels(evidence: Evidence, family: Family, ops: tuple[str, ...]) -> list[Level]:
    levels = (evidence.plateau(family.get(op, 2)) for op in ops)
    return [level for level in levels if level is not None]


def _ops(levels: list[Level]) -> str:
    return ", ".join(level.name.split()[2] for level in levels)


def port_load(evidence: Evidence, family: Family) -> Number | None:
    """The most that one GPU's port carries in any operation at N > 2, both directions together, in B/s.

    A star's root sends (or receives) at busbw; an inner rank of a broadcast or reduce chain relays, in and out at busbw.
    """
    found = []
    for curve in family.curves.values():
        level = evidence.plateau(curve)
        if level is None or curve.world_size < 3:
            continue
        if curve.collective in ("scatter", "gather"):
            found.append(Number(f"root's port in {curve.name}", level.value, "B/s", level.number.source))
        elif curve.collective in ("broadcast", "reduce"):
            found.append(Number(f"relaying port in {curve.name}", 2 * level.value, "B/s", level.number.source))
    return max(found, key=lambda number: number.value, default=None)


LAW = Law(
    "one_way_two_way",
    "Traffic both ways on one pair runs as fast, each way, as traffic one way",
    "Plateaus at N=2: the slowest one-way operation over the fastest two-way one. Up to 1.15 the directions are independent, from 1.35 "
    "they are not, beyond the allowance of both. Half-duplex wires are refuted where a port carries more, in and out together, at "
    "another N than the pair does one way.",
    _find,
    "NCCL transports: P2P up to PXB, else SHM; PCIe ACS: lspci(8), NVIDIA's NCCL troubleshooting",
)
