"""A description of the machine (calibrated, or a preset) against the plateaus: at which limit each is, and whether it is below."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.findings._evidence import Curve, Evidence, Level, where
from busbw.findings._law import Law
from busbw.findings._words import both, rate, share

if TYPE_CHECKING:
    from busbw.sim.limits import RowLimit

BELOW = 0.1
"""How far below the machine's own rate a plateau has to be, at least."""
ABOVE = 0.15
"""How far above it the description must be wrong."""


def _find(evidence: Evidence, facts: Facts) -> Iterator[Finding]:
    if evidence.machine is None:
        return
    from busbw.sim.limits import limits

    plateaus = [(curve, level) for curve in evidence.curves if (level := evidence.plateau(curve)) is not None]
    judged: list[tuple[Curve, Level, RowLimit]] = []
    missing: list[str] = []
    for curve, level in plateaus:
        middle = level.points[len(level.points) // 2].rows[0]
        found, why = limits(evidence.machine, [middle])
        missing += why
        judged += [(curve, level, each) for each in found]
    if not judged:
        if missing:
            yield _silent(evidence, missing)
        return
    below = [each for each in judged if each[2].share < 1 - max(BELOW, each[1].allowance)]
    above = [each for each in judged if each[2].share > 1 + max(ABOVE, each[1].allowance)]
    numbers = tuple(_number(*each) for each in judged)
    name = evidence.machine.name
    if below:
        below.sort(key=lambda each: each[2].share)
        curve, level, limit = below[0]
        lost = 1 - limit.share
        yield Finding(
            "machine_limit",
            f"{both([each[0].name for each in below])} {'is' if len(below) == 1 else 'are'} below what {name} can do: {curve.name} "
            f"reaches {rate(level.value)} GB/s where its limit, {limit.limit}, allows {share(1 / limit.share - 1)} more. {_at(judged)}",
            "fails",
            "problem",
            numbers,
            (
                Cause(
                    "not-the-machine",
                    "something else than the wires that the description has: launch, protocol, a slow member",
                ),
                Cause("description", "the description is wrong for this operation"),
            ),
            next=f"busbw calibrate with these rows: does any description reproduce {curve.name} together with the others?",
            weight=lost,
            headline=f"{curve.name} is {share(lost)} below what the machine can do",
        )
        return
    text = f"No plateau is below what {name} can do. {_at(judged)}"
    if above:
        curve, level, limit = max(above, key=lambda each: each[2].share)
        yield Finding(
            "machine_limit",
            f"{text} But {curve.name} is {share(limit.share - 1)} above it, so the description asks too little of it",
            "cannot_tell",
            "notice",
            numbers,
            next="busbw calibrate with these rows",
        )
        return
    yield Finding("machine_limit", text, "holds", "fact", numbers)


def _at(judged: list[tuple[Curve, Level, RowLimit]]) -> str:
    """Which limit each plateau is at."""
    places: dict[str, list[str]] = defaultdict(list)
    for curve, _, limit in judged:
        places[limit.limit].append(curve.name)
    return "At " + "; at ".join(f"{place}: {', '.join(names)}" for place, names in places.items())


def _number(curve: Curve, level: Level, limit: RowLimit) -> Number:
    row, value = limit.row, 100 * (limit.share - 1)
    return Number(f"{curve.name} against the machine", value, "%", where(row))


def _silent(evidence: Evidence, missing: list[str]) -> Finding:
    machine = evidence.machine
    assert machine is not None
    return Finding("machine_limit", f"{machine.name} says nothing of these rows: {missing[0]}", "cannot_tell", "notice")


LAW = Law(
    "machine_limit",
    "Every plateau reaches what this description of the machine can do",
    "With --machine-file: each plateau's middle row against the simulated one. Below by more than 10 % and the allowance it fails; above by 15 % the "
    "description is in doubt; the limit of each is the wire, cap or cost that its prediction waits for longest.",
    _find,
    "busbw simulate on a calibrated machine",
)
