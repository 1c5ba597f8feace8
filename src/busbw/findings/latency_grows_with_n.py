"""How the latency floor grows with N: linearly as a ring's steps, as a tree's levels, by a jump, or not at all."""

from __future__ import annotations

import math
from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding, Verdict
from busbw.findings._evidence import Evidence, Family, Level, joint
from busbw.findings._law import Law
from busbw.findings._symptoms import says
from busbw.findings._words import both, times, worlds
from busbw.units import format_time

NEAR = 0.12
"""A prediction is met to this, or to the allowance of the floors it comes from."""
JUMP = 1.6
"""A floor this many times what a straight line through the smaller N says is a jump."""


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families:
        yield from _of(evidence, family, facts)
    other = facts.text("algorithm").lower() not in ("", "ring")
    if not evidence.usable and says(facts, "middle-sizes-fall") and not other:
        yield _middle_sizes(facts)


def _of(evidence: Evidence, family: Family, facts: Facts) -> Iterator[Finding]:
    op = next(
        (op for op in ("all_reduce", "all_gather", "reduce_scatter") if len(_floors(evidence, family, op)) > 1), None
    )
    if op is None:
        return
    floors = _floors(evidence, family, op)
    shape, why = growth(floors)
    listed = f"{times(level.value for level in floors.values())} at {worlds(floors)}"
    others = []
    for other in ("gather", "broadcast", "scatter"):
        levels = _floors(evidence, family, other)
        if len(levels) > 1:
            others.append(f"{other} {times(level.value for level in levels.values())}")
    text = f"{family.prefix}the floor of {op} is {listed}: {why}"
    if others:
        text += f". Beside it: {'; '.join(others)}"
    causes: tuple[Cause, ...] = ()
    following = ""
    if shape == "jump":
        causes = (
            Cause(
                "farther-pairs", "the larger group reaches pairs that are farther apart (another socket, another host)"
            ),
            Cause("other-algorithm", "the library switches algorithm, protocol or transport there"),
            Cause("more-channels", "it opens more channels or threads, which all have to start"),
        )
        following = f"N = {', '.join(_between(list(floors)))} and another choice of ranks (CUDA_VISIBLE_DEVICES), with TUNING lines"
    elif shape == "constant":
        causes = (Cause("launch", "the floor is what a call's launch costs; the steps hide under it"),)
    elif shape == "linear":
        text += _terms(op, floors)
        causes = (Cause("latency-linear-in-ranks", "a ring takes 2(N-1) steps, each of which costs alpha"),)
    verdict: Verdict = "holds" if shape == "linear" else "cannot_tell" if shape == "unclear" else "fails"
    yield Finding(
        "latency_grows_with_n",
        text,
        verdict,
        "notice" if shape == "jump" else "fact",
        numbers=tuple(level.number for level in floors.values()),
        causes=causes,
        next=following,
        needs=("algorithm",) if shape == "jump" and not facts.text("algorithm") else (),
    )


def _terms(op: str, floors: dict[int, Level]) -> str:
    """Launch and alpha of the line, where the operation is a ring's: t0 + passes (N-1) alpha."""
    passes = 2 if op == "all_reduce" else 1
    ns, values = list(floors), [level.value for level in floors.values()]
    alpha_s = (values[-1] - values[0]) / (passes * (ns[-1] - ns[0]))
    launch_s = values[0] - passes * (ns[0] - 1) * alpha_s
    if launch_s < floors[ns[0]].allowance * values[0]:
        return f"; alpha is {format_time(alpha_s)} a step, and no launch shows beside it"
    return f"; that is a launch of {format_time(launch_s)} and {format_time(alpha_s)} a step"


def _floors(evidence: Evidence, family: Family, op: str) -> dict[int, Level]:
    levels = {curve.world_size: evidence.floor(curve) for curve in family.of(op)}
    return {n: level for n, level in levels.items() if level is not None}


def growth(floors: dict[int, Level]) -> tuple[str, str]:
    """The shape of the floor over N (linear, logarithmic, constant, jump, slower, unclear), and the words for it."""
    ns = list(floors)
    first, last = floors[ns[0]], floors[ns[-1]]
    if not last.differs(first):
        if joint(first.allowance, last.allowance) < 0.25:
            return "constant", "it does not grow with N"
        return "unclear", "rows scatter too much to say whether it grows"
    if len(ns) < 3:
        return "unclear", "two N cannot tell a line from a jump"
    middle = floors[ns[-2]]
    step = (middle.value - first.value) / (ns[-2] - ns[0])
    linear_s = first.value + step * (ns[-1] - ns[0])
    level_s = (middle.value - first.value) / math.log2(ns[-2] / ns[0])
    tree_s = first.value + level_s * math.log2(ns[-1] / ns[0])
    # what the prediction may be off by, in seconds, since it extrapolates the difference of two floors
    reach = (ns[-1] - ns[-2]) / (ns[-2] - ns[0])
    slack_s = joint(
        (1 + reach) * middle.allowance * middle.value,
        reach * first.allowance * first.value,
        last.allowance * last.value,
    )
    linear = abs(last.value - linear_s) <= max(slack_s, NEAR * linear_s)
    tree = abs(last.value - tree_s) <= max(slack_s, NEAR * tree_s)
    if (
        linear and tree and abs(linear_s - tree_s) > 2 * NEAR * linear_s > slack_s
    ):  # far enough apart to choose the nearer
        linear = abs(last.value - linear_s) < abs(last.value - tree_s)
        tree = not linear
    said = f"a line through the smaller N says {times([linear_s])}"
    if last.value > JUMP * linear_s and last.value - linear_s > 1.5 * slack_s:
        return "jump", f"not linear but a jump at N={ns[-1]} ({said}); its cause these rows cannot tell"
    if linear and not tree:
        return "linear", f"it grows linearly with N ({said})"
    if tree and not linear:
        return "logarithmic", f"it grows as the logarithm of N, as a tree's ({said})"
    if linear and tree:
        return "unclear", f"a line and a logarithm fit both ({said})"
    word = "faster" if last.value > linear_s else "slower"
    return "slower" if word == "slower" else "unclear", f"it grows {word} than linearly ({said})"


def _between(ns: list[int]) -> list[str]:
    return [str(n) for n in range(ns[-2] + 1, ns[-1])][:3]


def _middle_sizes(facts: Facts) -> Finding:
    ring = facts.text("algorithm").lower() == "ring"
    return Finding(
        "latency_grows_with_n",
        "The largest sizes are alike at any N and the middle sizes fall with N: that is the ring's latency, 2(N-1) alpha, "
        "which grows linearly with the ranks and moves the boundary between latency and bandwidth up",
        "holds" if ring else "cannot_tell",
        "fact",
        causes=(Cause("latency-linear-in-ranks", "a ring takes 2(N-1) steps, each of which costs alpha"),),
        advice="Expected. A tree's latency grows with the logarithm: let NCCL choose, or try NCCL_ALGO=Tree for these sizes",
        needs=() if ring else ("algorithm",),
        next=""
        if ring
        else f"the algorithm of each size ({both(['NCCL_DEBUG=INFO', 'NCCL_DEBUG_SUBSYS=TUNING'])}): is it Ring?",
    )


LAW = Law(
    "latency_grows_with_n",
    "The latency floor grows linearly with N",
    "Floors of one operation over at least three N: a line through the smallest and the second largest N predicts the largest; it holds "
    "within 12 % or the allowance of the three floors. 1.6 times the line, and 1.5 times the allowance beyond it, is a jump.",
    _find,
    "2(N-1) alpha of the ring: docs/numbers.md; NVIDIA/nccl#1712",
)
