"""Large regular machines as arrays: names that are made when they are asked for, and columns of one value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from busbw.core.topology import BASES, DEVICE_KINDS, LINK_KINDS, Ints, Topology
from busbw.errors import UsageError


@dataclass(frozen=True, slots=True)
class NumberedNames:
    """Names by formula: `name(i)` for each index below `count`."""

    count: int
    name: Callable[[int], str]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int, /) -> str:
        place = int(index)
        if place < 0:
            place += self.count
        if not 0 <= place < self.count:
            raise IndexError(index)
        return self.name(place)

    def __iter__(self) -> Iterator[str]:
        return map(self.name, range(self.count))


@dataclass(frozen=True, slots=True)
class RepeatedDetails(Mapping[int, Mapping[str, str]]):
    """What is known of the devices of equal hosts, kept once: device `host * size + i` is as device i of `of_one`."""

    of_one: Mapping[int, Mapping[str, str]]
    size: int
    hosts: int

    def __getitem__(self, index: int, /) -> Mapping[str, str]:
        if not 0 <= index < self.size * self.hosts:
            raise KeyError(index)
        return self.of_one[index % self.size]

    def __iter__(self) -> Iterator[int]:
        return (host * self.size + i for host in range(self.hosts) for i in self.of_one)

    def __len__(self) -> int:
        return self.hosts * len(self.of_one)


def machine(
    name: str,
    *,
    names: Any,
    kinds: npt.NDArray[np.int8],
    hosts: Any,
    device_host: npt.NDArray[np.int32],
    link_a: Ints,
    link_b: Ints,
    link_kind: str | npt.NDArray[np.int8],
    rate_Bps: float | npt.NDArray[np.float64],  # noqa: N803 - the unit's own capitals
    latency_s: float | npt.NDArray[np.float64],
    ranks: Ints,
    basis: str | npt.NDArray[np.int8] = "nominal",
    duplex_Bps: npt.NDArray[np.float64] | None = None,  # noqa: N803
    backward_Bps: npt.NDArray[np.float64] | None = None,  # noqa: N803
    reduces: npt.NDArray[np.bool_] | None = None,
    **rest: Any,
) -> Topology:
    """A Topology of columns; scalars stand for a whole column."""
    links = len(link_a)
    forward = np.broadcast_to(np.asarray(rate_Bps, np.float64), (links,)).copy()
    return Topology(
        name=name,
        names=names,
        device_kind=kinds,
        device_host=device_host,
        hosts=hosts,
        device_reduces=np.zeros(len(kinds), np.bool_) if reduces is None else reduces,
        link_a=np.asarray(link_a, np.int32),
        link_b=np.asarray(link_b, np.int32),
        link_kind=np.full(links, LINK_KINDS.index(link_kind), np.int8) if isinstance(link_kind, str) else link_kind,
        forward_Bps=forward,
        backward_Bps=forward.copy() if backward_Bps is None else backward_Bps,
        duplex_Bps=np.full(links, np.inf) if duplex_Bps is None else duplex_Bps,
        latency_s=np.broadcast_to(np.asarray(latency_s, np.float64), (links,)).copy(),
        link_basis=np.full(links, BASES.index(basis), np.int8) if isinstance(basis, str) else basis,
        ranks=np.asarray(ranks, np.int32),
        **rest,
    )


def kinds_of(*runs: tuple[str, int]) -> npt.NDArray[np.int8]:
    """A column of device kinds from runs of (kind, count)."""
    return np.concatenate([np.full(count, DEVICE_KINDS.index(kind), np.int8) for kind, count in runs])


def must_be_direct(topology: Topology, path_class: str) -> None:
    """UsageError where a path policy sends traffic through CPUs or memory that the machine has not got."""
    via = topology.policy(path_class).via
    if via != "direct":
        raise UsageError(
            f"topology {topology.name}: {path_class} traffic goes via {via}, but its GPUs have no {via} beside them"
        )
