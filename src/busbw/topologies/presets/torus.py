"""ring, mesh and torus of any number of dimensions: GPUs with wires to their neighbours, which pass traffic on.

Routes go dimension by dimension, in each the shorter way round (forward where both are equally long).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from busbw.core.routing import Routes, make_routes
from busbw.core.topology import PATH_CLASSES, Ints, Topology
from busbw.errors import UsageError
from busbw.topologies.preset import Parameter, Preset
from busbw.topologies.regular import NumberedNames, kinds_of, machine, must_be_direct

MOST_HOPS = 10**8


@dataclass(frozen=True, slots=True)
class Grid:
    """Positions and link numbers of a grid. The links of dimension d follow those of the dimensions before it.

    Link i of a dimension leads from the i-th position that has a neighbour ahead to that neighbour.
    """

    shape: tuple[int, ...]
    wraps: bool

    def ahead(self, dimension: int) -> int:
        """How many coordinates of a dimension have a neighbour ahead. Of 2 only one: their two wires are one link."""
        size = self.shape[dimension]
        return size if self.wraps and size > 2 else size - 1

    def links_of(self, dimension: int) -> int:
        """Links along a dimension."""
        return math.prod(self.shape) // self.shape[dimension] * self.ahead(dimension)

    def first_link(self, dimension: int) -> int:
        """The number of its first link."""
        return sum(map(self.links_of, range(dimension)))

    def link_from(self, places: tuple[Ints, ...], dimension: int) -> Ints:
        """The link that leads ahead from these coordinates (one array a dimension)."""
        shape = list(self.shape)
        shape[dimension] = self.ahead(dimension)
        return self.first_link(dimension) + np.ravel_multi_index(places, shape).astype(np.int64)

    def ends(self) -> tuple[Ints, Ints]:
        """Both ends of every link."""
        from_, to = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for dimension in range(len(self.shape)):
            shape = list(self.shape)
            shape[dimension] = self.ahead(dimension)
            places = list(np.indices(shape).reshape(len(shape), -1))
            from_.append(np.ravel_multi_index(tuple(places), self.shape))
            places[dimension] = (places[dimension] + 1) % self.shape[dimension]
            to.append(np.ravel_multi_index(tuple(places), self.shape))
        return np.concatenate(from_), np.concatenate(to)


@dataclass(frozen=True, slots=True)
class DimensionOrderRouter:
    """Corrects one coordinate after the other."""

    grid: Grid
    path_class: int

    def routes(self, topology: Topology, source: Ints, target: Ints) -> Routes:
        """As `Router.routes`; UsageError for more hops in all than fit into memory."""
        must_be_direct(topology, PATH_CLASSES[self.path_class])
        source, target = np.asarray(source, np.int64), np.asarray(target, np.int64)
        here = list(np.unravel_index(source, self.grid.shape))
        there = np.unravel_index(target, self.grid.shape)
        steps = [self._steps(here[d], there[d], d) for d in range(len(here))]
        total = int(sum(np.abs(step).sum() for step in steps))
        if total > MOST_HOPS:
            raise UsageError(
                f"topology {topology.name}: {len(source)} flows make {total} hops in all, which is more than {MOST_HOPS}: "
                "ask for fewer ranks, or for an algorithm that talks to neighbours"
            )
        flows, directions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for dimension, step in enumerate(steps):
            count = np.abs(step)
            flow = np.repeat(np.arange(len(source)), count)
            nth = np.arange(len(flow)) - np.repeat(np.cumsum(count) - count, count)
            sign = np.sign(step)[flow]
            size = self.grid.shape[dimension]
            place = (here[dimension][flow] + sign * nth) % size
            back = (sign < 0) | (place >= self.grid.ahead(dimension))  # of two, the second goes back over their link
            places = [coordinate[flow] for coordinate in here]
            places[dimension] = np.where(back, (place - 1) % size, place)
            flows.append(flow)
            directions.append(2 * self.grid.link_from(tuple(places), dimension) + back)
            here[dimension] = there[dimension]
        path_class = np.where(source == target, PATH_CLASSES.index("local"), self.path_class).astype(np.int8)
        return make_routes(topology, np.concatenate(flows), np.concatenate(directions), path_class)

    def _steps(self, here: Ints, there: Ints, dimension: int) -> Ints:
        """How far to go along a dimension, ahead or back."""
        size = self.grid.shape[dimension]
        if not (self.grid.wraps and size > 2):
            return np.asarray(there - here, np.int64)
        ahead = (there - here) % size
        return np.where(ahead <= size - ahead, ahead, ahead - size).astype(np.int64)


def build(*, name: str, shape: tuple[int, ...], bandwidth: float, latency: float, kind: str, wraps: bool) -> Topology:
    """GPUs in row-major order; every one is a host of its own on a network, or all are one host."""
    grid = Grid(shape, wraps)
    gpus = math.prod(shape)
    from_, to = grid.ends()
    alone = kind == "network"
    doubled = [d for d, size in enumerate(shape) if wraps and size == 2]
    rate = np.concatenate(
        [np.full(grid.links_of(d), bandwidth * (2 if d in doubled else 1)) for d in range(len(shape))]
    )
    notes = ["GPUs pass on what goes to others, dimension by dimension, the shorter way round"]
    if doubled and gpus > 1:
        notes.append("where a side of a torus has 2 GPUs, both of their wires are one link of twice the bandwidth")
    return machine(
        name,
        names=NumberedNames(gpus, lambda i: "gpu" + "_".join(str(c) for c in np.unravel_index(i, shape))),
        kinds=kinds_of(("gpu", gpus)),
        hosts=NumberedNames(gpus if alone else 1, lambda i: f"host{i}"),
        device_host=(np.arange(gpus) if alone else np.zeros(gpus)).astype(np.int32),
        link_a=from_,
        link_b=to,
        link_kind=kind,
        rate_Bps=rate,
        latency_s=latency,
        ranks=np.arange(gpus),
        gpus_forward=True,
        router=DimensionOrderRouter(grid, PATH_CLASSES.index("network" if alone else "nvlink")),
        notes=tuple(notes),
        source="preset: speeds as given",
    )


def _ring(*, name: str, gpus: int, bandwidth: float, latency: float, kind: str) -> Topology:
    return build(name=name, shape=(gpus,), bandwidth=bandwidth, latency=latency, kind=kind, wraps=True)


def _mesh(**values: object) -> Topology:
    return build(wraps=False, **values)  # type: ignore[arg-type]


def _torus(**values: object) -> Topology:
    return build(wraps=True, **values)  # type: ignore[arg-type]


_WIRE = (
    Parameter("bandwidth", "rate", "50GB/s", "of each wire, one way"),
    Parameter("latency", "time", "0s", "of each wire"),
    Parameter("kind", "choice", "network", "what the wires are", ("network", "nvlink", "xgmi")),
)
_SHAPE = Parameter("shape", "shape", "4x4", "GPUs along each dimension")

PRESETS = (
    Preset(
        "ring", "GPUs in a ring, each wired to two others", "", (Parameter("gpus", "count", "8", "GPUs"), *_WIRE), _ring
    ),
    Preset(
        "mesh",
        "a grid of GPUs without wires around its edges, of any number of dimensions",
        "",
        (_SHAPE, *_WIRE),
        _mesh,
    ),
    Preset("torus", "a grid of GPUs whose edges are joined, of any number of dimensions", "", (_SHAPE, *_WIRE), _torus),
)
