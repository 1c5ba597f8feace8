"""calibrate(): results and a machine's shape -> the few speeds and costs that reproduce them, with rivals beside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from busbw.core.measurement import Measurement, Results
from busbw.core.topology import Floats, Ints, Topology
from busbw.errors import UsageError
from busbw.sim.calibrating.calibration import Calibration, LeftOut, Parameter, RivalFit, rate_parameter
from busbw.sim.calibrating.curves import Key, Rows, Terms, terms_of, usable_rows
from busbw.sim.calibrating.equations import Equations
from busbw.sim.calibrating.groups import ANY, Column, columns_of, with_budgets, with_speeds
from busbw.sim.calibrating.least_squares import Bounds, Fitted, bounds, fit, soft_loss
from busbw.sim.calibrating.rivals import Rival, Tell, rivals_of, what_decides
from busbw.sim.simulate import algorithm_of
from busbw.units import MIB

PLATEAU_BYTES = 16 * MIB
LEAST_ROWS = 8
GOOD_MEDIAN, GOOD_LARGEST = 0.05, 0.15
"""Plateaus that are reproduced: half of them within the first, all within the second."""
TIES, REFUTES = 1.25, 2.0
"""Ratios of losses up to which two descriptions tie, and from which the worse one is refuted if it is not good either."""
STARTS, TURNS = 3, 4


def calibrate(
    topology: Topology,
    results: Results | Sequence[Results] | Sequence[Measurement],
    *,
    rivals: Sequence[str] | None = None,
    leave_out: bool = True,
    tell: Tell = lambda name: None,
) -> Calibration:
    """Fit a machine's speeds and costs to measured rows, by relative least squares.

    `topology` gives the shape: which links there are. Its speeds stay where a description does not ask for them. Each
    rival description (those of `rivals.py` that the machine allows, or the `rivals` named) has at most 5 parameters. The
    rows are taken as done by the algorithm in their label, or by what NCCL does by and large. With `leave_out` the best one
    is fitted again without each op, and without each N. Raises UsageError where too few rows can be used.
    """
    rows = usable_rows(_measurements(results), topology)
    if len(rows.keys) < LEAST_ROWS:
        why = f" ({'; '.join(rows.left_out)})" if rows.left_out else ""
        raise UsageError(f"calibrate: {len(rows.keys)} rows can be used, and {LEAST_ROWS} are needed{why}")
    columns = columns_of(topology)
    chosen = rivals_of(topology, columns)
    if rivals is not None:
        known = {rival.name: rival for rival in chosen}
        for name in rivals:
            if name not in known:
                raise UsageError(f"unknown description {name!r} of {topology.name}: choose from {', '.join(known)}")
        chosen = [known[name] for name in rivals]
    plateau = int(min(PLATEAU_BYTES, float(rows.size_bytes.max()) / 16))
    fits: list[tuple[_Task, RivalFit]] = []
    for rival in chosen:
        tell(rival.name)
        task = _Task.make(rival, topology, columns, rows)
        fits.append((task, _fitted(task, plateau)))
    least = min(each.loss for _, each in fits)
    fits.sort(key=lambda each: _rank(each[1].loss, least))
    judged = _judged([each for _, each in fits])
    best = fits[0][0]
    if leave_out:
        tell("left out by turns")
    return Calibration(
        rivals=tuple(judged),
        left_out=tuple(_left_out(best, plateau)) if leave_out else (),
        reducing=_reducing(best, plateau),
        rows=len(rows.keys),
        plateau_bytes=plateau,
        notes=(*rows.left_out, *_about(best)),
    )


def _measurements(results: Results | Sequence[Results] | Sequence[Measurement]) -> list[Measurement]:
    if isinstance(results, Results):
        return list(results.measurements)
    found: list[Measurement] = []
    for each in results:
        found += each.measurements if isinstance(each, Results) else [each]
    return found


def _rank(loss: float, least: float) -> int:
    """Descriptions that tie keep their order: the one that is more usual stands first."""
    ratio = loss / max(least, 1e-12)
    return 0 if ratio <= 1.02 else 1 + int(math.log(ratio) * 1000)


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """One rival with the equations of its rows."""

    rival: Rival
    machine: Topology
    columns: list[Column]
    free: list[int]
    terms: list[Terms]
    which: Ints
    """[rows] the terms of each."""
    rows: Rows

    @classmethod
    def make(cls, rival: Rival, topology: Topology, columns: list[Column], rows: Rows) -> _Task:
        machine = with_budgets(rival.machine(topology), [c for c in columns if (c.group, c.way) in rival.free])
        is_free = [(column.group, column.way) in rival.free for column in columns]
        found: dict[tuple[object, ...], int] = {}
        terms: list[Terms] = []
        which = []
        for row in rows.measurements:
            call = row.call
            key = (call.collective, call.world_size, call.root or 0, algorithm_of(row))
            if key not in found:
                found[key] = len(terms)
                terms.append(terms_of(row, machine, columns, is_free))
            which.append(found[key])
        free = [i for i, chosen in enumerate(is_free) if chosen]
        return cls(rival, machine, columns, free, terms, np.array(which), rows)

    def equations(self, keep: np.ndarray | None = None, more: tuple[str, ...] = ()) -> Equations:
        """Of all rows, or some; with further costs asked for."""
        rows = self.rows if keep is None else self.rows.where(keep)
        which = self.which if keep is None else self.which[keep]
        return Equations(rows, self.terms, which, self.free, (*self.rival.costs, *more))


def _solve(task: _Task, keep: np.ndarray | None, plateau: int, more: tuple[str, ...] = ()) -> _Solved:
    """Speeds from the plateaus, costs from all rows, by turns until both stay: small rows have their own causes."""
    everything = task.equations(keep, more)
    large = everything.rows.size_bytes >= plateau
    mask = np.ones(len(task.rows.keys), np.bool_) if keep is None else keep.copy()
    chosen = np.flatnonzero(mask)
    mask[chosen[~large]] = False
    plateaus = task.equations(mask, more)
    is_cost = np.array([False] * len(task.free) + [name in _TIMES for name in everything.costs])
    start = plateaus.start()
    start[is_cost] = everything.start()[is_cost]
    rng = np.random.default_rng(0)
    found: list[Fitted] = []
    for number in range(STARTS):
        at = start if number == 0 else start + rng.uniform(-0.1, 0.4, len(start))
        for _ in range(TURNS):
            at = fit(plateaus.errors, at, held=is_cost).parameters
            before, at = at, fit(everything.errors, at, held=~is_cost).parameters
            if np.abs(at - before).max(initial=0.0) < 1e-6:
                break
        found.append(fit(plateaus.errors, at, held=is_cost))
    best = min(found, key=lambda each: each.loss)
    return _Solved(everything, plateaus, is_cost, best.parameters)


@dataclass(frozen=True, slots=True, eq=False)
class _Solved:
    """The parameters, with the equations that speeds and costs were taken from."""

    everything: Equations
    plateaus: Equations
    is_cost: np.ndarray
    parameters: Floats

    def limits(self) -> list[Bounds]:
        """Intervals: of speeds from the plateaus, with costs held; of costs from all rows, with speeds held."""
        out: list[Bounds] = []
        sides = []
        for equations, held in ((self.plateaus, self.is_cost), (self.everything, ~self.is_cost)):
            errors = equations.errors(self.parameters[None])
            fitted = Fitted(self.parameters, float(soft_loss(errors)[0]), errors[0])
            names = {key: i for i, key in enumerate(dict.fromkeys(equations.rows.keys))}
            groups = np.array([names[key] for key in equations.rows.keys])
            sides.append(bounds(equations.errors, fitted, groups, held))
        for k, cost in enumerate(self.is_cost.tolist()):
            limit = sides[1 if cost else 0][k]
            assert limit is not None
            out.append(limit)
        return out


def _fitted(task: _Task, plateau: int) -> RivalFit:
    found = _solve(task, None, plateau)
    limits = found.limits()
    errors = _plateaus(task.rows, found.everything.errors(found.parameters[None])[0], plateau)
    logs = np.log1p(np.array(list(errors.values())))
    return RivalFit(
        rival=task.rival,
        parameters=tuple(_parameters(task, found, limits)),
        plateau_errors=errors,
        loss=float(soft_loss(logs[None])[0]),
        verdict="worse",
        machine=_machine(task, found, limits),
    )


def _plateaus(rows: Rows, errors: Floats, plateau: int) -> dict[Key, float]:
    """Predicted / measured rate - 1 of each (collective, N): the median over its large rows."""
    found: dict[Key, list[float]] = {}
    for key, size, error in zip(rows.keys, rows.size_bytes, errors, strict=True):
        if size >= plateau:
            found.setdefault(key, []).append(math.exp(-error) - 1)
    return {key: median(values) for key, values in found.items()}


def _parameters(task: _Task, found: _Solved, limits: Sequence[Bounds]) -> list[Parameter]:
    out = []
    names = [task.columns[i].name for i in task.free] + list(task.rival.costs)
    for name, value, limit in zip(names, found.parameters.tolist(), limits, strict=True):
        low = None if math.isinf(limit.low) else math.exp(limit.low)
        high = None if math.isinf(limit.high) else math.exp(limit.high)
        out.append(_parameter(name, math.exp(value), low, high))
    return out


def _parameter(name: str, value: float, low: float | None, high: float | None) -> Parameter:
    if ":" in name:
        kind, _, path_class = name.partition(":")
        told = "that is added, " if kind == "adding" else ""
        return rate_parameter(f"one {path_class} flow {told}at most", value, low, high)
    if name in _TIMES:
        text, unit, factor = _TIMES[name]
        ends = [None if end is None else end * factor for end in (low, high)]
        return Parameter(text, unit, value * factor, *ends)
    return rate_parameter(name, value, low, high)


_TIMES = {
    "launch": ("launch, a call", "us", 1e6),
    "message": ("a message", "us", 1e6),
    "latency": ("a message, and a call", "us", 1e6),
    "reducing": ("adding", "ps/B", 1e12),
}


def _machine(task: _Task, found: _Solved, limits: Sequence[Bounds]) -> Topology:
    """The machine with what was found. What no row bounds from above stays as it was described."""
    idle = _idle(found, limits)
    values = np.exp(found.parameters)
    speeds = {
        task.columns[i]: math.inf if idle[k] else float(values[k])
        for k, i in enumerate(task.free)
        if not idle[k] or task.columns[i].way == "both"
    }
    machine = with_speeds(task.machine, speeds)
    cost = dict(zip(task.rival.costs, values[len(task.free) :].tolist(), strict=True))
    policies = dict(machine.policies)
    for name, value in cost.items():
        kind, _, path_class = name.partition(":")
        if path_class and not idle[len(task.free) + task.rival.costs.index(name)]:
            field = "adding_cap_Bps" if kind == "adding" else "cap_Bps"
            policies[path_class] = replace(machine.policy(path_class), **{field: value}, basis="measured")
    machine = machine.changed(policies=policies)
    both = cost.get("latency", 0.0)
    costs = replace(
        machine.costs,
        launch_s=cost.get("launch", both),
        message_s=cost.get("message", both),
        reduce_s_per_byte=cost.get("reducing", machine.costs.reduce_s_per_byte),
        basis="measured",
    )
    notes = [f"calibrated on {len(task.rows.keys)} rows as {task.rival.name}: {task.rival.text}"]
    return machine.changed(costs=costs, notes=tuple(notes), name=f"{machine.name}, calibrated")


def _idle(found: _Solved, limits: Sequence[Bounds]) -> list[bool]:
    """Speeds that can be without limit, all of them at once, and no row is the worse for it."""
    at = found.parameters.copy()
    allowed = 1.02 * float(soft_loss(found.plateaus.errors(at[None]))[0]) + 1e-12
    idle = []
    for k, (limit, is_cost) in enumerate(zip(limits, found.is_cost.tolist(), strict=True)):
        trial = at.copy()
        trial[k] = math.log(ANY)
        can = not is_cost and math.isinf(limit.high)
        can = can and float(soft_loss(found.plateaus.errors(trial[None]))[0]) <= allowed
        at = trial if can else at
        idle.append(can)
    return idle


def _judged(fits: list[RivalFit]) -> list[RivalFit]:
    """Verdicts: who ties with the best, and who is refuted by which plateau."""
    best = fits[0]
    out = []
    for each in fits:
        key = max(each.plateau_errors, key=lambda key: abs(each.plateau_errors[key]))
        worst = f"{key[0]} N={key[1]} is predicted {each.plateau_errors[key]:+.0%} off"
        ratio = each.loss / max(best.loss, 1e-12)
        if each is best:
            verdict, reason = "best", worst
        elif ratio <= TIES:
            verdict = "ties"
            reason = f"to decide between it and {best.rival.name}: {what_decides(each.rival.name, best.rival.name)}"
        elif ratio >= REFUTES and (each.median_error > GOOD_MEDIAN or each.largest_error > GOOD_LARGEST):
            verdict, reason = "refuted", worst
        else:
            verdict, reason = "worse", worst
        out.append(replace(each, verdict=verdict, reason=reason))
    return out


def _left_out(task: _Task, plateau: int) -> list[LeftOut]:
    """Fit without each op, and without each N, and predict their plateaus."""
    out = []
    for kind, part in (("op", 0), ("N", 1)):
        values = list(dict.fromkeys(key[part] for key in task.rows.keys))
        if len(values) < 2:
            continue
        for value in values:
            gone = np.array([key[part] == value for key in task.rows.keys])
            found = _solve(task, ~gone, plateau)
            rest = task.equations(gone)
            errors = rest.errors(found.parameters[None])[0]
            predicted = _plateaus(rest.rows, errors, plateau)
            if predicted:
                out.append(LeftOut(kind, str(value), predicted))
    return out


def _reducing(task: _Task, plateau: int) -> Parameter | None:
    """What adding a byte costs, beside all other parameters."""
    if "reducing" in task.rival.costs or not any(terms.reduced.any() for terms in task.terms):
        return None
    found = _solve(task, None, plateau, ("reducing",))
    limit = found.limits()[-1]
    low = None if math.isinf(limit.low) else math.exp(limit.low)
    high = None if math.isinf(limit.high) else math.exp(limit.high)
    return _parameter("reducing", math.exp(float(found.parameters[-1])), low, high)


def _about(task: _Task) -> list[str]:
    """What the reader has to know of the algorithms that were taken."""
    if all(algorithm_of(row) for row in task.rows.measurements):
        return []
    return [
        "rows of no executed schedule were taken as rings, scatter and gather as straight from and to the root: NCCL by and large"
    ]
