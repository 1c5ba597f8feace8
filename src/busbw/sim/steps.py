"""Rungs 1 to 3: a schedule as patterns in lockstep, each step beginning when the one before has ended everywhere."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from busbw.core.call import Call
from busbw.core.schedule import Schedule
from busbw.core.topology import Floats, Topology
from busbw.sim.cuts import all_pairs_step
from busbw.sim.patterns import Pattern, patterns
from busbw.sim.prediction import Binding, Prediction, Span
from busbw.sim.wires import NO_WIRE, SAME, Step, Wires, binding_name

FLOWS_SHOWN = 16


class Steps:
    """A schedule on a machine: its patterns, each distinct one of which is solved once a size."""

    def __init__(self, schedule: Schedule, topology: Topology, wires: Wires | None = None) -> None:
        self.schedule, self.topology = schedule, topology
        self.wires = wires or Wires(topology)
        self.patterns = patterns(schedule)
        has_caps = any(policy.adding_cap_Bps < np.inf for policy in topology.policies.values())
        self._adding_matters = has_caps or topology.costs.reduce_s_per_byte > 0
        self.keys = [self._key(pattern) for pattern in self.patterns]

    def predict(self, calls: Sequence[Call], algorithm: str) -> list[Prediction]:
        """A prediction for each call, which may differ in size only."""
        sizes = [float(call.size_bytes) for call in calls]
        solved: dict[bytes, list[Step]] = {}
        carried = np.zeros(len(self.wires.capacities))
        times: dict[bytes, int] = defaultdict(int)
        for key, pattern in zip(self.keys, self.patterns, strict=True):
            times[key] += pattern.times
        for key, pattern in zip(self.keys, self.patterns, strict=True):
            if key in solved:
                continue
            if pattern.all_pairs:
                solved[key] = [all_pairs_step(self.wires, pattern, size) for size in sizes]
                continue
            solved[key] = [self.wires.step(pattern, size) for size in sizes]
            if len(pattern.source):
                carried += times[key] * self.wires.loads(pattern)
        return [
            self._prediction(call, algorithm, [solved[key][i] for key in self.keys], call.size_bytes * carried)
            for i, call in enumerate(calls)
        ]

    def _prediction(self, call: Call, algorithm: str, steps: Sequence[Step], carried: Floats) -> Prediction:
        launch = self.topology.costs.launch_s
        spent = {"launch": launch, "latency": 0.0, "wires": 0.0, "reducing": 0.0}
        waited: dict[int, float] = defaultdict(float)
        longest: dict[int, tuple[float, Pattern]] = {}
        spans: list[Span] = []
        notes: list[str] = []
        now, rung = launch, 0
        for pattern, step in zip(self.patterns, steps, strict=True):
            rung = max(rung, 0 if pattern.all_pairs or pattern.note else 1 if step.lockstep else 2)
            notes += [note for note in (pattern.note, step.note) if note and note not in notes]
            wires_s = step.time_s - step.latency_s - step.reduce_s
            spent["latency"] += pattern.waits * step.latency_s
            spent["wires"] += pattern.times * wires_s
            spent["reducing"] += pattern.times * step.reduce_s
            if step.binding != NO_WIRE:
                here = pattern.times * wires_s
                waited[step.binding] += here
                if here > longest.get(step.binding, (-1.0, pattern))[0]:
                    longest[step.binding] = (here, pattern)
            ends = now + pattern.times * (step.time_s - step.latency_s) + pattern.waits * step.latency_s
            spans.append(Span(pattern.label, now, ends, pattern.times, binding_name(self.topology, step.binding)))
            now = ends
        binding = None
        if waited:
            worst = max(waited, key=lambda each: waited[each])
            binding = self._binding(worst, waited[worst], longest[worst][1])
        return Prediction(
            call=call,
            time_s=now,
            rung=("closed form", "pattern", "max-min")[rung],
            algorithm=algorithm,
            topology=self.topology,
            times_s=spent,
            spans=tuple(_merged(spans)),
            binding=binding,
            carried_bytes=carried,
            schedule=self.schedule,
            notes=tuple(notes),
        )

    def _key(self, pattern: Pattern) -> bytes:
        """What tells one pattern from another: its flows and their bytes, and whether they are added where that matters."""
        digest = hashlib.blake2b(digest_size=16)
        columns: list[npt.NDArray[Any]] = [pattern.source, pattern.target, pattern.share]
        if self._adding_matters:
            columns.append(pattern.reduces)
        for column in columns:
            digest.update(np.ascontiguousarray(column).data)
            digest.update(b"|")
        digest.update(b"pairs" if pattern.all_pairs else b"flows")
        return digest.digest()

    def _binding(self, worst: int, seconds: float, pattern: Pattern) -> Binding:
        name = binding_name(self.topology, worst)
        resource = worst if worst >= 0 else None
        if pattern.all_pairs:
            return Binding(name, resource, seconds, float(self.wires.capacities[worst]), (), 0)
        found = self.wires.capped(pattern)
        if worst >= 0:
            entries = np.flatnonzero(found.resources == worst)
            flows = np.unique(np.searchsorted(found.offsets, entries, side="right") - 1)
            capacity = float(self.wires.capacities[worst])
            slowness = self.wires.loads(pattern) / self.wires.capacities
            alike = int((slowness >= slowness[worst] * (1 - SAME)).sum())
        else:
            flows = np.flatnonzero((found.path_class == -1 - worst) & np.isfinite(found.cap_Bps))
            capacity, alike = float(found.cap_Bps[flows[0]]), 1
        shown = tuple((int(pattern.source[i]), int(pattern.target[i])) for i in flows[:FLOWS_SHOWN])
        return Binding(name, resource, seconds, capacity, shown, len(flows), alike)


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Neighbours of one label and one binding as one."""
    out: list[Span] = []
    for span in spans:
        if out and (out[-1].label, out[-1].binding) == (span.label, span.binding):
            last = out.pop()
            span = Span(span.label, last.begin_s, span.end_s, last.times + span.times, span.binding)
        out.append(span)
    return out
