"""Busbw does not depend on N: the curves of different N collapse onto one."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.core.finding import Facts, Finding
from busbw.findings._evidence import RING_OPS, Curve, Evidence, Family, joint
from busbw.findings._law import Law
from busbw.findings._words import both, rates, share, worlds

COLLAPSED = 0.25


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    for family in evidence.families:
        ops, parts, numbers, verdicts = [], [], [], []
        for op in ("all_reduce", "all_gather", "reduce_scatter"):
            curves = [curve for curve in family.of(op) if curve.large]
            if len(curves) < 2:
                continue
            tops = [_top(curve) for curve in curves]
            levels = [level for curve in curves if (level := evidence.plateau(curve)) is not None]
            spread = max(tops) / min(tops) - 1
            felt = [top / curve.factor for top, curve in zip(tops, curves, strict=True)]
            allowance = joint(*(level.allowance for level in levels))
            ops.append(op)
            parts.append(
                f"{op} busbw {rates(tops)} at {worlds(c.world_size for c in curves)} (spread {share(spread)}; "
                f"algbw {share(max(felt) / min(felt) - 1)})"
            )
            numbers += [level.number for level in levels]
            verdicts.append(
                "holds"
                if spread <= COLLAPSED
                else "fails"
                if spread > max(COLLAPSED, 1.5 * allowance)
                else "cannot_tell"
            )
        if not parts:
            continue
        failed = set(verdicts) == {"fails"}
        lead = "busbw depends on N" if failed else "busbw nearly collapses onto one curve over N"
        exceptions = [op for op, verdict in zip(ops, verdicts, strict=True) if verdict == "fails"]
        if exceptions and not failed:
            lead += f", but for {both(exceptions)}"
        yield Finding(
            "busbw_collapses_over_n",
            f"{family.prefix}{lead}: {'; '.join(parts)}",
            "fails"
            if failed
            else "cannot_tell"
            if len(exceptions) * 2 > len(ops) or "holds" not in verdicts
            else "holds",
            "notice" if failed else "fact",
            numbers=tuple(numbers),
            advice=""
            if failed
            else "Compare machines and world sizes in busbw; algbw falls with N by its formula alone",
        )


def _top(curve: Curve) -> float:
    return curve.points[-1].busbw_Bps or 0.0


def ring_curve(family: Family, world_size: int) -> Curve | None:
    """The curve that stands for the ring at this N: all-gather (it reduces nothing) before the others."""
    curves = (family.get(op, world_size) for op in RING_OPS)
    return next((curve for curve in curves if curve is not None and curve.large), None)


LAW = Law(
    "busbw_collapses_over_n",
    "Busbw of a ring collective is the same at every N",
    "Busbw at the largest size, over N: the spread of all_reduce, all_gather and reduce_scatter is at most 25 %; one of them may be named as an exception.",
    _find,
    "nccl-tests doc/PERFORMANCE.md: what the bus factor is for",
)
