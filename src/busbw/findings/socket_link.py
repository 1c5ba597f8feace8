"""Is the link between the sockets the wall? Bytes that cross it in one operation against another."""

from __future__ import annotations

import math
from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import RING_OPS, STAR_OPS, Evidence, Family, joint
from busbw.findings._law import Law
from busbw.findings._words import rate, share, worlds

DROP = 0.15
"""The ring's loss when ranks of a second socket join that is worth a name."""
SAME = 0.12
"""Two operations that cross the link at the same rate, to this, both sit at it."""


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    if (facts.number("hosts") or 1) > 1 or facts.number("sockets") == 1 or facts.text("link") in ("nvlink", "xgmi"):
        return
    for family in evidence.families:
        finding = _of(evidence, family)
        if finding is not None:
            yield finding


def _of(evidence: Evidence, family: Family) -> Finding | None:
    ring = {}
    op = next((op for op in RING_OPS if len([c for c in family.of(op) if evidence.plateau(c)]) > 1), None)
    if op is None:
        return None
    for curve in family.of(op):
        level = evidence.plateau(curve)
        if level is not None:
            ring[curve.world_size] = level
    n = max(ring)
    inside = [size for size in ring if size <= n // 2]
    if n < 4 or not inside:
        return None
    near, far = ring[max(inside)], ring[n]
    drop = 1 - far.value / near.value
    allowance = joint(near.allowance, far.allowance)
    crossing = []  # what other operations move across, one way
    for star in STAR_OPS:
        level = evidence.plateau(family.get(star, n))
        if level is not None:
            value = level.value * (n / 2) / (n - 1)
            crossing.append(
                (Number(f"{star} N={n} across the sockets", value, "B/s", level.number.source), level.allowance)
            )
    most = max(crossing, key=lambda item: item[0].value, default=None)
    numbers = (near.number, far.number) + (() if most is None else (most[0],))
    if most is not None and math.log(most[0].value / far.value) > max(SAME, 1.5 * joint(most[1], far.allowance)):
        before = ""
        if len(ring) > 2 or max(inside) > 2:
            listed = ", ".join(rate(level.value) for level in ring.values())
            before = f"; {op} {listed} GB/s at {worlds(ring)}{_lost_before(evidence, family, n)}"
        return Finding(
            "socket_link",
            f"{family.prefix}the link between the sockets is not the ring's wall: {most[0].name.split()[0]} moves {rate(most[0].value)} GB/s across it one way "
            f"at N={n}, the ring only {rate(far.value)}{before}",
            "fails",
            "fact",
            numbers,
            ruled_out=(Cause("socket-link", "another operation moves more across the sockets than the ring does"),),
            weight=0.2,
        )
    if drop < DROP or drop < 1.5 * allowance:
        small = allowance < 0.1
        return Finding(
            "socket_link",
            f"{family.prefix}{op} loses {share(max(drop, 0.0))} from N={max(inside)} to N={n}: "
            + (
                "the link between the sockets is no wall for the ring"
                if small
                else "rows scatter too much to say whether a second socket costs the ring anything"
            ),
            "fails" if small else "cannot_tell",
            "fact",
            numbers,
        )
    known = [
        item
        for item in crossing
        if abs(math.log(item[0].value / far.value)) <= max(SAME, item[1] + far.allowance)
        and _star_falls(evidence, family, item[0].name.split()[0], max(inside), n)
    ]
    cause = Cause("socket-link", f"the link between the sockets carries {rate(far.value)} GB/s each way")
    text = f"{family.prefix}{op} falls from {rate(near.value)} GB/s at N={max(inside)} to {rate(far.value)} at N={n}"
    if known:
        return Finding(
            "socket_link",
            f"{text}, and {known[0][0].name.split()[0]} moves as much across the sockets ({rate(known[0][0].value)} GB/s): both sit at the link between the "
            "sockets (if the second half of the ranks is on the second socket)",
            "holds",
            "problem",
            (*numbers, known[0][0]),
            (cause,),
            next="the same N with all ranks on one socket (CUDA_VISIBLE_DEVICES); nvidia-smi topo -m: SYS between them",
            advice="Order ranks so that the ring crosses the sockets once each way; keep tensor-parallel groups on one socket",
            weight=drop,
        )
    return Finding(
        "socket_link",
        f"{text}; whether that is the link between the sockets these rows cannot tell",
        "cannot_tell",
        "notice",
        numbers,
        (
            cause,
            Cause("slow-member", "one of the added GPUs or its link is slower"),
            Cause("shared-uplink", "the added ranks share an uplink"),
        ),
        next="the same N with all ranks on one socket (CUDA_VISIBLE_DEVICES), and scatter at this N",
        weight=drop,
    )


def _star_falls(evidence: Evidence, family: Family, star: str, near: int, far: int) -> bool:
    """Whether the star, too, loses when the second half joins; a slow link of one rank would not touch it."""
    one, two = evidence.plateau(family.get(star, near)), evidence.plateau(family.get(star, far))
    return one is None or two is None or one.value / two.value > 1.05 + joint(one.allowance, two.allowance) / 2


def _lost_before(evidence: Evidence, family: Family, n: int) -> str:
    """How much of all-reduce's loss over N is there before the second half of the ranks joins."""
    curves = {curve.world_size: curve.points[-1].busbw_Bps or 0.0 for curve in family.of("all_reduce") if curve.large}
    if not {2, n // 2, n} <= set(curves) or n // 2 == 2 or not curves[2] > curves[n // 2] > curves[n]:
        return ""
    return f"; all_reduce falls from {rate(curves[2])} to {rate(curves[n // 2])} at N={n // 2} already, before a second socket joins"


LAW = Law(
    "socket_link",
    "The link between the sockets is the ring's wall",
    "Refuted where scatter or gather moves more across than the ring does (half of the ranks, (N/2)/(N-1) of a root's bytes), by more than 12 % and 1.5 times the allowance, "
    "or where the ring loses less than 15 % when the second half of the ranks joins. It holds where the ring loses more, a star moves as much across, to 12 %, and loses as well.",
    _find,
    "cut of the ring and of a star between two halves of the ranks",
)
