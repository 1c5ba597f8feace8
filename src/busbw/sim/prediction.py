"""What a simulation says of one call: the time, where it goes, and the wires that it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from busbw.core.call import Call
from busbw.core.measurement import Mark, Measurement
from busbw.core.topology import Floats, Topology

if TYPE_CHECKING:
    from busbw.core.schedule import Schedule
    from busbw.sim.fluid import Timeline

RUNGS = ("closed form", "pattern", "max-min", "dependencies")
"""How a prediction was made, from the coarsest to the finest.

closed form: bytes over cuts, or a pipeline that is full; pattern: equal flows, each distinct step solved once; max-min:
every distinct step followed from event to event; dependencies: each message waits for the data that it needs alone.
"""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the timeline: `times` equal steps of one phase."""

    label: str
    begin_s: float
    end_s: float
    times: int
    binding: str


@dataclass(frozen=True, slots=True)
class Binding:
    """What a call waits for longest: a direction of a link, a budget of both, or the cap of a path class."""

    name: str
    resource: int | None
    """As in `Topology.capacities`; None for a cap."""
    time_s: float
    """How long of the call's time."""
    capacity_Bps: float  # noqa: N815 - the unit's own capitals
    flows: tuple[tuple[int, int], ...]
    """Ranks (source, target) of the flows on it, the first few of them; -1 is a switch that reduces."""
    flow_count: int
    alike: int = 1
    """How many resources are as full as this one, itself included."""


@dataclass(frozen=True, slots=True)
class LinkUse:
    """How busy one resource is over the whole call."""

    name: str
    bytes: float
    share: float
    """Of what it could carry in that time."""


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """One call, simulated. `measurement` is the same as a row that `bench` takes, of origin "simulated"."""

    call: Call
    time_s: float
    rung: str
    """One of RUNGS."""
    algorithm: str
    topology: Topology
    times_s: Mapping[str, float]
    """Where the time goes: launch, latency, wires, reducing. Their sum is `time_s`."""
    spans: tuple[Span, ...] = ()
    binding: Binding | None = None
    carried_bytes: Floats = field(default_factory=lambda: np.zeros(0))
    """[resources] in the order of `Topology.capacities`."""
    schedule: Schedule | None = None
    timeline: Timeline | None = None
    """Every message with its start and end; of the finest rung only."""
    notes: tuple[str, ...] = ()

    @property
    def measurement(self) -> Measurement:
        """The row."""
        labels = {"algorithm": self.algorithm, "topology": self.topology.name, "rung": self.rung}
        if self.binding is not None:
            labels["binding"] = self.binding.name
        marks = tuple(Mark("approximate", note) for note in self.notes)
        return Measurement(self.call, self.time_s, labels=labels, marks=marks, origin="simulated")

    def utilisation(self, most: int = 16) -> tuple[LinkUse, ...]:
        """The busiest resources, the fullest first."""
        capacities = self.topology.capacities()
        if len(self.carried_bytes) != len(capacities) or not self.time_s > 0:
            return ()
        share = self.carried_bytes / capacities / self.time_s
        order = np.argsort(-share, kind="stable")[:most]
        return tuple(
            LinkUse(self.topology.resource_name(int(i)), float(self.carried_bytes[i]), float(share[i]))
            for i in order
            if share[i] > 0
        )
