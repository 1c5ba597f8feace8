"""Rung 4: every message followed by its dependencies, sharing wires max-min fairly, without a barrier anywhere."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from busbw.core.call import Call
from busbw.core.routing import Routes
from busbw.core.schedule import NETWORK, Bools, Ints, Schedule
from busbw.core.topology import PATH_CLASSES, Floats, Topology
from busbw.errors import UsageError
from busbw.sim._events import run_events
from busbw.sim.dependencies import find_messages
from busbw.sim.patterns import Pattern
from busbw.sim.prediction import Binding, Prediction
from busbw.sim.steps import FLOWS_SHOWN
from busbw.sim.wires import Wires

FEW = 3000
"""Messages that are followed sooner in Python than compiled code is loaded."""


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Every message; arrays have one entry each. Seconds from the start of the call."""

    source: Ints
    target: Ints
    size_bytes: Floats
    round: Ints
    channel: Ints
    start_s: Floats
    end_s: Floats
    """The last byte has arrived."""
    done_s: Floats
    """What it brought counts: added, where it is added."""


class Fluid:
    """A schedule on a machine, ready for any size."""

    def __init__(self, schedule: Schedule, topology: Topology, pieces: int = 1) -> None:
        self.schedule, self.topology, self.pieces = schedule, topology, pieces
        self.wires = Wires(topology)
        self.messages = find_messages(schedule, pieces)
        self._connect()

    def _connect(self) -> None:
        """Connections (channel, source, target, whether it is added there), their routes on resources without gaps, and tables by what follows."""
        found, n = self.messages, self.schedule.world_size
        adds = found.added > 0  # such messages may have a cap of their own
        key = ((found.channel * (n + 2) + found.source + 1) * (n + 2) + found.target + 1) * 2 + adds
        names, first, self.connection = np.unique(key, return_index=True, return_inverse=True)
        source, target = found.source[first], found.target[first]
        routes = self._routes(source, target, adds[first])
        used, local = np.unique(routes.resources, return_inverse=True)
        offsets, local = routes.offsets, local.astype(np.int64)
        capacity = self.wires.capacities[used]
        limited = np.flatnonzero(np.isfinite(routes.cap_Bps))
        if len(limited):  # a cap is a wire of its own
            owner = np.concatenate([np.repeat(np.arange(len(names)), np.diff(offsets)), limited])
            order = np.argsort(owner, kind="stable")
            local = np.concatenate([local, len(used) + np.arange(len(limited))])[order]
            offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(names)))]).astype(np.int64)
            capacity = np.concatenate([capacity, routes.cap_Bps[limited]])
        self.routes, self.offsets, self.local, self.capacity = routes, offsets, local, capacity
        self.ends = (source, target)

    def _routes(self, source: Ints, target: Ints, adds: Bools) -> Routes:
        mixed = (source == NETWORK) | (target == NETWORK)
        if mixed.all() or not mixed.any():
            return self.wires.capped(_flows(source, target, adds))
        raise UsageError("a schedule with a switch that reduces mixes its transfers with others")

    def predict(self, call: Call, algorithm: str) -> Prediction:
        """The prediction for one size."""
        found, costs = self.messages, self.topology.costs
        size = found.share * call.size_bytes
        reduce_s = found.added * call.size_bytes * costs.reduce_s_per_byte
        start_offsets, start_next = _inverse(found.start_after)
        end_offsets, end_next = _inverse(found.end_after)
        turns = found.turns
        waits = np.diff(found.start_after[0]) + turns.waits()
        loop = run_events.python if len(size) < FEW and "numba" not in sys.modules else run_events  # type: ignore[attr-defined]
        start, end, done, cause, remaining = loop(
            self.connection,
            turns.of_source,
            turns.of_target,
            turns.size,
            turns.then,
            *turns.members,
            size + costs.half_rate_bytes,
            reduce_s,
            np.where(found.target == NETWORK, self.schedule.world_size, found.target),
            waits,
            start_offsets,
            start_next,
            np.diff(found.end_after[0]),
            end_offsets,
            end_next,
            self.offsets,
            self.local,
            self.routes.latency_s,
            self.capacity,
            self.schedule.world_size + 1,
        )
        if remaining:
            stuck = int(np.flatnonzero(np.isnan(done))[0])
            raise UsageError(
                f"{self.schedule.algorithm}: {remaining} of {len(start)} messages wait for each other, such as the one from rank "
                f"{found.source[stuck]} to {found.target[stuck]} in round {found.round[stuck] // self.pieces}"
            )
        launch = costs.launch_s
        spent = self._path(start, end, done, cause, reduce_s) if len(start) else {}
        total = launch + (float(done.max()) if len(done) else 0.0)
        carried = self._carried(size)
        return Prediction(
            call=call,
            time_s=total,
            rung="dependencies",
            algorithm=algorithm,
            topology=self.topology,
            times_s={"launch": launch, **spent},
            binding=self._binding(size, carried),
            carried_bytes=carried,
            schedule=self.schedule,
            timeline=Timeline(
                found.source,
                found.target,
                size,
                found.round,
                found.channel,
                launch + start,
                launch + end,
                launch + done,
            ),
        )

    def _path(self, start: Floats, end: Floats, done: Floats, cause: Ints, reduce_s: Floats) -> dict[str, float]:
        """The chain of messages that ends last, back to the first: where its time went."""
        message, by_data = int(np.argmax(done)), True
        latency = wires = reducing = 0.0
        while message >= 0:
            alpha = float(self.routes.latency_s[self.connection[message]])
            wires += float(end[message] - start[message]) - alpha
            if by_data:  # where it was the turn only, what came next began when the last byte had left
                latency += alpha
                after = float(done[message] - end[message])  # added, or waiting for what is added before it
                reducing += after if reduce_s[message] > 0 else 0.0
                wires += 0.0 if reduce_s[message] > 0 else after
            why = int(cause[message])
            message, by_data = (why // 2, bool(why % 2)) if why >= 0 else (-1, True)
        return {"latency": latency, "wires": max(wires, 0.0), "reducing": reducing}

    def _carried(self, size: Floats) -> Floats:
        """[resources] bytes in the whole call."""
        per_connection = np.bincount(self.connection, size, minlength=len(self.offsets) - 1)
        weight = np.repeat(per_connection, np.diff(self.routes.offsets))
        carried = np.bincount(self.routes.resources, weight, minlength=len(self.wires.capacities))
        return carried.astype(np.float64)

    def _binding(self, size: Floats, carried: Floats) -> Binding | None:
        busy = carried / self.wires.capacities
        per_connection = np.bincount(self.connection, size, minlength=len(self.offsets) - 1)
        capped = per_connection / self.routes.cap_Bps
        source, target = self.ends
        if len(capped) and float(capped.max()) > float(busy.max(initial=0.0)):
            path_class = self.routes.path_class[int(np.argmax(capped))]
            flows = np.flatnonzero((self.routes.path_class == path_class) & np.isfinite(self.routes.cap_Bps))
            name, resource, seconds = f"the cap of a {PATH_CLASSES[path_class]} flow", None, float(capped.max())
            capacity = float(self.routes.cap_Bps[flows[0]])
        elif float(busy.max(initial=0.0)) > 0:
            resource = int(np.argmax(busy))
            entries = np.flatnonzero(self.routes.resources == resource)
            flows = np.unique(np.searchsorted(self.routes.offsets, entries, side="right") - 1)
            name, seconds = self.topology.resource_name(resource), float(busy[resource])
            capacity = float(self.wires.capacities[resource])
        else:
            return None
        shown = tuple((int(source[i]), int(target[i])) for i in flows[:FLOWS_SHOWN])
        alike = int((busy >= seconds * (1 - 1e-9)).sum()) if resource is not None else 1
        return Binding(name, resource, seconds, capacity, shown, len(flows), alike)


def _flows(source: Ints, target: Ints, reduces: Bools) -> Pattern:
    return Pattern(source, target, np.zeros(len(source)), reduces, 1, "")


def _inverse(table: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """message -> those that wait for it."""
    offsets, before = table
    count = len(offsets) - 1
    waiting = np.repeat(np.arange(count), np.diff(offsets))
    order = np.argsort(before, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(before, minlength=count))]).astype(np.int64)
    return starts, waiting[order]
