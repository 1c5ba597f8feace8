"""Rows of results as equations: what each says of a machine's speeds and costs.

T = launch + sum over the steps of the schedule of (latency + message + S x the fullest column + reducing). Pipelines (broadcast
and reduce along a ring) are taken as of many small chunks: latency + message for each rank on the way, and S x the fullest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from busbw.algorithms.spec import Spec, parse_algorithm
from busbw.core.measurement import Measurement
from busbw.core.schedule import Schedule
from busbw.core.topology import PATH_CLASSES, Floats, Topology
from busbw.errors import UsageError
from busbw.sim.calibrating.groups import Column, most_on
from busbw.sim.patterns import Pattern, patterns
from busbw.sim.simulate import algorithm_of, default_algorithm
from busbw.sim.wires import Wires

MOST_RANKS = 64
"""Results of larger groups are left out: their schedules take long, and say little of links that smaller ones do not."""

_CLASSES = len(PATH_CLASSES)

Key = tuple[str, int]
"""Collective and N."""


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """One collective at one N: a row for each distinct step of its schedule."""

    key: Key
    times: Floats
    latency_s: Floats
    """Of links and path classes, without `message`."""
    loads: Floats
    """[steps, columns] the largest share of S on a resource of each column."""
    fixed_loads: Floats
    """[steps] seconds a byte of the fullest resource whose speed is not asked for."""
    caps: Floats
    """[steps, path classes] share of S of the largest flow of each class."""
    adding: Floats
    """[steps, path classes] the same, of flows that their target adds."""
    reduced: Floats
    """[steps] share of S that a rank adds."""
    fill: float
    """Steps in which a pipeline fills; 0 without one."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows that are fitted, and why others are not."""

    keys: tuple[Key, ...]
    size_bytes: Floats
    time_s: Floats
    weight: Floats
    measurements: tuple[Measurement, ...]
    left_out: tuple[str, ...]

    def where(self, keep: np.ndarray) -> Rows:
        """Only some of them."""
        chosen = np.flatnonzero(keep)
        return replace(
            self,
            keys=tuple(self.keys[i] for i in chosen),
            size_bytes=self.size_bytes[chosen],
            time_s=self.time_s[chosen],
            weight=self.weight[chosen],
            measurements=tuple(self.measurements[i] for i in chosen),
        )


def usable_rows(measurements: Sequence[Measurement], topology: Topology) -> Rows:
    """Rows that a schedule stands for; the median is left to the fit, which is robust."""
    kept: list[Measurement] = []
    reasons: dict[str, int] = {}
    for row in measurements:
        reason = _why_not(row, topology)
        if reason:
            reasons[reason] = reasons.get(reason, 0) + 1
        else:
            kept.append(row)
    keys = tuple((row.call.collective, row.call.world_size) for row in kept)
    return Rows(
        keys,
        np.array([row.call.size_bytes for row in kept], np.float64),
        np.array([row.time_s for row in kept], np.float64),
        np.ones(len(kept)),
        tuple(kept),
        tuple(f"{count} row{'s' if count > 1 else ''}: {reason}" for reason, count in reasons.items()),
    )


def _why_not(row: Measurement, topology: Topology) -> str:
    call = row.call
    if call.collective == "unknown" or call.world_size < 2 or call.size_bytes < 1 or not row.time_s > 0:
        return "no collective, N below 2, no bytes or no time"
    if call.world_size > topology.world_size:
        return f"N={call.world_size}, and {topology.name} has {topology.world_size} GPUs"
    if call.world_size > MOST_RANKS:
        return f"N above {MOST_RANKS}"
    if row.wrong:
        return "its data was wrong"
    if "group" in row.labels:
        return "several groups at the same time"
    try:
        reason = _spec(row, topology).why_not(call.collective, call.world_size)
    except UsageError as error:
        reason = str(error)
    return f"no schedule for {call.collective}" if reason else ""


def _spec(row: Measurement, topology: Topology) -> Spec:
    """The schedule that was run, where the row says so as we do; what NCCL does by and large otherwise."""
    named = algorithm_of(row)
    if named:
        return parse_algorithm(named)
    return parse_algorithm(default_algorithm(row.call.collective, row.call.world_size, topology))


def terms_of(row: Measurement, topology: Topology, columns: Sequence[Column], free: Sequence[bool]) -> Terms:
    """The equation of a row's collective, N and algorithm; `free` tells which columns are asked for."""
    spec = _spec(row, topology)
    call = row.call
    schedule = spec.build(call.collective, call.world_size, call.root or 0)
    machine = topology.with_ranks(call.world_size)
    wires = Wires(machine)
    capacities = wires.capacities.copy()
    for column, is_free in zip(columns, free, strict=True):
        if is_free:
            capacities[list(column.resources)] = np.inf
    fill, steps = _steps(schedule, of_library=not algorithm_of(row))
    times, latency, loads, fixed, reduced = [], [], [], [], []
    caps, adding = [], []
    for pattern, count in steps:
        if not len(pattern.source):
            continue
        found = wires.routes(pattern)
        load = wires.loads(pattern)
        times.append(count)
        latency.append(float(found.latency_s.max()) - topology.costs.message_s)
        loads.append([most_on(load, column) for column in columns])
        with np.errstate(invalid="ignore"):
            fixed.append(float((load / capacities).max()))
        caps.append([_largest(pattern.share, found.path_class == c) for c in range(_CLASSES)])
        adds = pattern.reduces & (pattern.target >= 0)
        adding.append([_largest(pattern.share, adds & (found.path_class == c)) for c in range(_CLASSES)])
        sums = np.bincount(pattern.target[adds], pattern.share[adds], minlength=1)
        reduced.append(float(sums.max()))
    return Terms(
        (call.collective, call.world_size),
        np.array(times, np.float64),
        np.array(latency),
        np.array(loads).reshape(len(times), len(columns)),
        np.array(fixed),
        np.array(caps).reshape(len(times), _CLASSES),
        np.array(adding).reshape(len(times), _CLASSES),
        np.array(reduced),
        fill,
    )


def _largest(share: Floats, chosen: np.ndarray) -> float:
    return float(share[chosen].max()) if chosen.any() else 0.0


def _steps(schedule: Schedule, *, of_library: bool) -> tuple[float, list[tuple[Pattern, float]]]:
    """(fill, [(pattern, times)]): a lone pipeline is its full step, of the whole of S.

    A library's own is of many small chunks; one that was executed has the chunks that it has.
    """
    phases = schedule.phases
    if len(phases) == 1 and phases[0].begin is not None and phases[0].end is not None:
        phase = phases[0]
        count = int(phase.repeats[0])
        if (phase.repeats == count).all() and count >= 1:
            one = replace(phase, begin=None, end=None, times=count)
            (pattern,) = patterns(replace(schedule, phases=(one,)))
            steps = count if of_library else phase.times
            return float(phase.times - count), [(replace(pattern, share=pattern.share * steps), 1.0)]
    found = patterns(schedule)
    return 0.0, [(pattern, float(pattern.times)) for pattern in found]
