"""How busy each direction of each link is: counted from a schedule's flows, from a simulation, or at a measured rate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from busbw.core.collective import COLLECTIVES
from busbw.core.routing import ROUTER, Routes
from busbw.core.schedule import NETWORK, Bools, Ints, Phase, Schedule
from busbw.core.topology import PATH_CLASSES, Floats, Topology
from busbw.errors import UsageError
from busbw.units import format_rate

if TYPE_CHECKING:
    from busbw.sim.prediction import Prediction

FULL = 0.999
"""Resources as busy as this share of the busiest are its equals."""
MOST_PAIRS = 512
POSSIBLE = 1.02
"""A wire that carries more than this share of its capacity does not: rates are rounded to some percent."""


@dataclass(frozen=True, slots=True, eq=False)
class Usage:
    """How busy the resources of a topology are (numbered as in `Topology.capacities`) while a collective runs."""

    busy: Floats
    """[resources] share of the time in which it is full; a link that is idle has 0."""
    words: str
    """What runs, where the numbers are from, and what the bottleneck is: one or two sentences."""

    @property
    def fullest(self) -> Bools:
        """[resources] whether it is (one of) the busiest."""
        top = float(self.busy.max(initial=0.0))
        return self.busy >= FULL * top if top > 0 else np.zeros(len(self.busy), np.bool_)


def count_flows(schedule: Schedule, topology: Topology) -> Usage:
    """The schedule's flows on the machine's wires, each at most as fast as the fullest resource on its way allows.

    A phase takes the bytes of its fullest resource over its capacity (or of a flow over its cap); latencies, launches and
    reducing are left out, so this is what large messages tend to. Channels are taken to overlap wholly.
    """
    load, time, capped = _load(schedule, topology)
    usage = Usage(load / topology.capacities() / time if time > 0 else load, "")
    return replace(usage, words=_counted(schedule, topology, usage, time, capped))


def at_rate(schedule: Schedule, topology: Topology, busbw_Bps: float) -> Usage:  # noqa: N803 - the unit's own capitals
    """The schedule's flows at a measured busbw: the share of its capacity that each resource then carries."""
    load, _, _ = _load(schedule, topology)
    factor = COLLECTIVES.get(schedule.collective).bus_factor(schedule.world_size)
    usage = Usage(load * (busbw_Bps / factor) / topology.capacities(), "")
    words = (
        f"{_name(schedule)}, measured at {format_rate(busbw_Bps)} busbw. The numbers are what each wire carries, as a share "
        "of what it could."
    )
    top = float(usage.busy.max(initial=0.0))
    if top > POSSIBLE:
        words += f" {top:.0%} cannot be: these wires are faster than said here, or another algorithm ran."
    return replace(usage, words=f"{words} {_fullest_words(topology, usage)}")


def _load(schedule: Schedule, topology: Topology) -> tuple[Floats, float, str]:
    """Bytes on each resource and seconds, for each byte of S; and the path class whose cap binds, if one does."""
    if topology.world_size < schedule.world_size:
        raise UsageError(
            f"{topology.name} has {topology.world_size} GPUs; {schedule.world_size} ranks do not fit on it"
        )
    capacities = topology.capacities()
    total = np.zeros(len(capacities))
    time, capped = 0.0, ""
    for phases in _together(schedule):
        load = np.zeros(len(capacities))
        slowest, slow_class = 0.0, ""
        for share, phase in phases:
            source, target, slots = _flows(phase, schedule)
            found = _routes(topology, source, target)
            bytes_of_s = share * slots
            load += np.bincount(found.resources, np.repeat(bytes_of_s, np.diff(found.offsets)), len(capacities))
            own = bytes_of_s / found.cap_Bps
            if len(own) and float(own.max()) > slowest:
                slowest, slow_class = float(own.max()), PATH_CLASSES[int(found.path_class[int(own.argmax())])]
        wires = float((load / capacities).max(initial=0.0))
        time += max(wires, slowest)
        total += load
        capped = slow_class if slowest > wires else capped
    return total, time, capped


def simulated(prediction: Prediction, name: str) -> Usage:
    """What a simulation found each resource to carry in the call's time."""
    busy = prediction.carried_bytes / (prediction.topology.capacities() * prediction.time_s)
    usage = Usage(busy, "")
    words = f"{name}, simulated ({prediction.rung}): the numbers are the share of its time that each wire is busy."
    return replace(usage, words=f"{words} {_fullest_words(prediction.topology, usage)}")


def _together(schedule: Schedule) -> list[list[tuple[float, Phase]]]:
    """Phases that happen at the same time, with the share of S of one slot: channels in step, or else all at once."""
    lanes = _lanes(schedule, 1.0)
    phases = [[(share / lane.chunks, phase) for phase in lane.phases] for share, lane in lanes]
    if len({len(of_lane) for of_lane in phases}) == 1:
        return [list(step) for step in zip(*phases, strict=True)]
    return [[pair for of_lane in phases for pair in of_lane]]


def _lanes(schedule: Schedule, share: float) -> list[tuple[float, Schedule]]:
    if not schedule.parts:
        return [(share, schedule)]
    return [lane for part_share, part in schedule.parts for lane in _lanes(part, share * part_share)]


def _flows(phase: Phase, schedule: Schedule) -> tuple[Ints, Ints, Ints]:
    """Source, target and slots of all that a phase moves."""
    if not phase.all_pairs:
        return phase.source, phase.target, np.asarray(phase.length * phase.repeats)
    n = schedule.world_size
    if n > MOST_PAIRS:
        raise UsageError(
            f"{_name(schedule)}: its {n * (n - 1)} flows are too many to count; use -N {MOST_PAIRS} or less"
        )
    source, target = (ends.reshape(-1) for ends in np.indices((n, n)))
    away = source != target
    return source[away], target[away], np.full(n * (n - 1), int(phase.length[0]))


def _routes(topology: Topology, source: Ints, target: Ints) -> Routes:
    if not ((source == NETWORK) | (target == NETWORK)).any():
        return topology.routes(source, target)
    switch = _switch(topology)
    ranks = topology.ranks.astype(np.int64)

    def devices(ends: Ints) -> Ints:
        return np.where(ends == NETWORK, switch, ranks[np.maximum(ends, 0)])

    return (topology.router or ROUTER).routes(topology, devices(source), devices(target))


def _switch(topology: Topology) -> int:
    found = np.flatnonzero(topology.device_reduces)
    if len(found) != 1:
        how_many = (
            f"{len(found)} switches that reduce; flows can be counted with one"
            if len(found)
            else "no switch that reduces"
        )
        raise UsageError(f"{topology.name} has {how_many}: choose another --algorithm, such as ring")
    return int(found[0])


def _counted(schedule: Schedule, topology: Topology, usage: Usage, time: float, capped: str) -> str:
    if time == 0:
        return f"{_name(schedule)} moves nothing over these wires."
    factor = COLLECTIVES.get(schedule.collective).bus_factor(schedule.world_size)
    algbw = 1 / time
    words = (
        f"{_name(schedule)}: with large messages the wires allow {format_rate(algbw * factor)} busbw ({format_rate(algbw)} "
        "algbw). The numbers are the share of the time that each wire is busy."
    )
    if capped:
        return f"{words} The cap of one flow of the path class {capped} binds, not a wire."
    return f"{words} {_fullest_words(topology, usage)}"


def _fullest_words(topology: Topology, usage: Usage) -> str:
    chosen = np.flatnonzero(usage.fullest)
    if not len(chosen):
        return ""
    more = f" and {len(chosen) - 1} like it" if len(chosen) > 1 else ""
    name = topology.resource_name(int(chosen[0])).replace(" -> ", " → ").replace(" <-> ", " ↔ ")
    return f"Busiest, in red: {name}{more}."


def _name(schedule: Schedule) -> str:
    return f"{schedule.algorithm} {schedule.collective} on {schedule.world_size} ranks"
