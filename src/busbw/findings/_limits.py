"""Small models of one host: who shares which wire. Each predicts the plateau of every operation from two to four rates.

An operation is a set of flows between ranks at known shares of its busbw: a ring sends 1 from each rank to the next; a
broadcast relays 1 down a chain; a scatter's root sends 1/(N-1) to each other rank; all-to-all sends that between all.
A model says which resources a flow loads; the busbw is the least capacity over load. Capacities are fitted to plateaus
by least squares of logarithms.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

Flow = tuple[int, int, float]
Loads = Mapping[str, float]


def flows(collective: str, n: int) -> list[Flow] | None:
    """(source, destination, share of busbw) of each flow; None where the operation has no such fixed form."""
    if collective in ("ring", "send_recv"):
        return [(rank, (rank + 1) % n, 1.0) for rank in range(n)]
    if collective == "broadcast":
        return [(rank, rank + 1, 1.0) for rank in range(n - 1)]
    if collective == "reduce":
        return [(rank + 1, rank, 1.0) for rank in range(n - 1)]
    if collective == "scatter":
        return [(0, rank, 1 / (n - 1)) for rank in range(1, n)]
    if collective == "gather":
        return [(rank, 0, 1 / (n - 1)) for rank in range(1, n)]
    if collective == "all_to_all":
        return [(a, b, 1 / (n - 1)) for a in range(n) for b in range(n) if a != b]
    return None


def _ports(flows: Sequence[Flow], group: int, prefix: str) -> dict[str, float]:
    """Largest load out of, into, and both ways together over ports of `group` ranks each."""
    out: dict[int, float] = defaultdict(float)
    into: dict[int, float] = defaultdict(float)
    for source, destination, weight in flows:
        out[source // group] += weight
        into[destination // group] += weight
    both = {port: out.get(port, 0.0) + into.get(port, 0.0) for port in {*out, *into}}
    loads = {"out": out, "in": into, "both": both}
    return {f"{prefix} {name}": max(values.values(), default=0.0) for name, values in loads.items()}


def _across(flows: Sequence[Flow], ranks_per_socket: int) -> float:
    """The larger of the loads between the sockets, one way."""
    there = sum(w for a, b, w in flows if a // ranks_per_socket < b // ranks_per_socket)
    back = sum(w for a, b, w in flows if a // ranks_per_socket > b // ranks_per_socket)
    return max(there, back)


@dataclass(frozen=True, slots=True)
class LimitModel:
    """A way for wires to be shared."""

    name: str
    text: str
    loads: Callable[[Sequence[Flow], int], Loads]
    """Flows and ranks per socket -> load of each resource, as a multiple of busbw."""


def _full_duplex(flows: Sequence[Flow], per_socket: int) -> Loads:
    ports = _ports(flows, 1, "port")
    return {name: ports[name] for name in ("port out", "port in")}


def _half_duplex(flows: Sequence[Flow], per_socket: int) -> Loads:
    return {"port both": _ports(flows, 1, "port")["port both"]}


def _socket(flows: Sequence[Flow], per_socket: int) -> Loads:
    return {**_full_duplex(flows, per_socket), "socket link": _across(flows, per_socket)}


def _shared_uplinks(flows: Sequence[Flow], per_socket: int) -> Loads:
    return _ports(flows, 2, "uplink")


def _uplinks_and_socket(flows: Sequence[Flow], per_socket: int) -> Loads:
    return {**_shared_uplinks(flows, per_socket), "socket link": _across(flows, per_socket)}


MODELS: tuple[LimitModel, ...] = (
    LimitModel("full-duplex-ports", "each GPU has its own full-duplex port and nothing else is shared", _full_duplex),
    LimitModel("half-duplex-ports", "each GPU's port carries one budget, in and out together", _half_duplex),
    LimitModel("socket-link", "full-duplex ports, and one link between two sockets", _socket),
    LimitModel(
        "shared-uplinks",
        "every flow, also one inside a pair, climbs its pair's uplink and comes down one: opposite and passing flows share it",
        _shared_uplinks,
    ),
    LimitModel("shared-uplinks-and-socket", "shared uplinks, and one link between two sockets", _uplinks_and_socket),
)


@dataclass(frozen=True, slots=True)
class Fit:
    """A model with its capacities (in the unit of the plateaus), and the relative error of each plateau."""

    model: LimitModel
    capacity: Mapping[str, float]
    errors: Mapping[tuple[str, int], float]

    @property
    def median_error(self) -> float:
        """Median of the absolute relative errors."""
        return median(abs(error) for error in self.errors.values())

    @property
    def largest_error(self) -> float:
        """The largest absolute relative error."""
        return max(abs(error) for error in self.errors.values())


_SHIFTS = (1.0, 0.98, 1.02, 0.96, 1.04, 0.93, 1.07)
"""A capacity is looked for where it meets a plateau, and a little beside."""


def fit(model: LimitModel, plateaus: Mapping[tuple[str, int], float], ranks_per_socket: int) -> Fit | None:
    """The model's capacities for these plateaus, keyed by (operation, N); None without any that it can predict."""
    loads: dict[tuple[str, int], Loads] = {}
    for key in plateaus:
        found = flows(*key)
        if found is not None:
            loads[key] = model.loads(found, ranks_per_socket)
    if not loads:
        return None
    names = list(next(iter(loads.values())))
    capacity = {name: max(max(plateaus[key] * load[name] for key, load in loads.items()), 1e-9) for name in names}

    def predicted(capacity: Mapping[str, float], load: Loads) -> float:
        return min((capacity[name] / load[name] for name in names if load[name] > 0), default=math.inf)

    def misfit(capacity: Mapping[str, float]) -> float:
        return sum(math.log(predicted(capacity, load) / plateaus[key]) ** 2 for key, load in loads.items())

    best = misfit(capacity)
    for _ in range(12):
        before = best
        for name in names:
            for key, load in loads.items():
                for shift in _SHIFTS:
                    trial = {**capacity, name: max(plateaus[key] * load[name] * shift, 1e-9)}
                    value = misfit(trial)
                    if value < best - 1e-12:
                        best, capacity = value, trial
        if before - best < 1e-9:
            break
    errors = {key: predicted(capacity, load) / plateaus[key] - 1 for key, load in loads.items()}
    return Fit(model, capacity, errors)
