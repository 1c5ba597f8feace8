"""A machine as devices and links: what moves data, how fast, each way and both ways together, and by which routes.

Devices and links are columns (one array a field), so that 131072 GPUs fit in a few MiB; `device(i)` and `link(i)` show
one of them as an object. Rates are bytes a second, times seconds.

A link is up to three *resources* to whatever shares it: 2 l is its direction a -> b, 2 l + 1 is b -> a, and 2 L + l is
the budget of both directions together (infinite for full duplex). `capacities` has them in this order.

Nominal (a data sheet), assumed (what NCCL takes it for, or a default of ours) and measured (calibrated) speeds are kept
apart by `basis`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from busbw.errors import UsageError
from busbw.units import format_rate

if TYPE_CHECKING:
    from busbw.core.routing import Routes

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

DEVICE_KINDS = ("gpu", "pcie_switch", "nvswitch", "cpu", "memory", "nic", "network_switch", "process")
"""A cpu is a socket with its root complex; a memory hangs at its cpu, for traffic that is staged in it; a process is a
rank that computes on its CPU."""
RANK_KINDS = ("gpu", "process")
"""What a rank may be."""
LINK_KINDS = ("nvlink", "xgmi", "c2c", "pcie", "local", "memory", "socket", "network")
BASES = ("nominal", "assumed", "measured")
PATH_CLASSES = ("local", "nvlink", "pcie", "host_bridge", "socket", "network")
"""What a route between two ranks crosses at worst.

local: nothing; nvlink: NVLink, xGMI or C2C only; pcie: switches, no CPU (PIX, PXB); host_bridge: a CPU (PHB, NODE);
socket: the link between CPUs (SYS); network: other hosts (NET).
"""
VIAS = ("direct", "cpu", "memory")


@dataclass(frozen=True, slots=True)
class Device:
    """One vertex: a GPU, a switch, a CPU with its root complex, a NIC. `host` is "" for what lies between hosts."""

    name: str
    kind: str
    host: str = ""
    reduces: bool = False
    """A switch that reduces and multicasts (NVLink SHARP, SHARP)."""
    details: Mapping[str, str] = field(default_factory=dict)
    """What else is known: model, busid, numa, ..."""


@dataclass(frozen=True, slots=True)
class Link:
    """One wire (or several in parallel) between two devices.

    `forward_Bps` is a -> b, `backward_Bps` b -> a; `duplex_Bps` bounds both together (None: full duplex).
    """

    a: str
    b: str
    kind: str
    forward_Bps: float  # noqa: N815 - the unit's own capitals
    backward_Bps: float  # noqa: N815
    duplex_Bps: float | None = None  # noqa: N815
    latency_s: float = 0.0
    basis: str = "nominal"


@dataclass(frozen=True, slots=True)
class PathPolicy:
    """How traffic of one path class travels: the detour that it takes, a cap on each flow, and what a message costs."""

    via: str = "direct"
    """direct: the shortest way; cpu: up to the root complex and down again (ACS or IOMMU redirect); memory: staged."""
    cap_Bps: float = math.inf  # noqa: N815
    latency_s: float = 0.0
    basis: str = "assumed"
    adding_cap_Bps: float = math.inf  # noqa: N815
    """A cap on each flow that the target adds into its own: where receiving and adding are one loop, its rate."""

    def __post_init__(self) -> None:
        if self.via not in VIAS:
            raise UsageError(f"via {self.via!r}: choose from {', '.join(VIAS)}")
        for cap in (self.cap_Bps, self.adding_cap_Bps):
            if not cap > 0:
                raise UsageError(f"the cap of a flow must be above 0, not {cap}")
        if not 0 <= self.latency_s < math.inf:
            raise UsageError(f"a latency must be 0 or more seconds, not {self.latency_s}")


@dataclass(frozen=True, slots=True)
class Costs:
    """What a collective pays beside its wires."""

    launch_s: float = 0.0
    """Once a call."""
    message_s: float = 0.0
    """Once a message, beside the latency of links and of its path class."""
    reduce_s_per_byte: float = 0.0
    """For each byte that a rank adds into its own (gamma)."""
    half_rate_bytes: float = 0.0
    """The size of a message at which a wire reaches half of its rate: it takes (bytes + this) / rate."""
    basis: str = "assumed"

    def __post_init__(self) -> None:
        for name in ("launch_s", "message_s", "reduce_s_per_byte", "half_rate_bytes"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"costs: {name} must be a number of 0 or more, not {getattr(self, name)}")


class Names(Protocol):
    """Names by index: a list, or an object that makes them when they are asked for."""

    def __getitem__(self, index: int, /) -> str: ...

    def __len__(self) -> int: ...


class Router(Protocol):
    """Finds the routes of many flows at once; `busbw.core.routing` has the general one."""

    def routes(self, topology: Topology, source: Ints, target: Ints) -> Routes:
        """Routes from devices `source` to devices `target`, both of shape [flows]."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """Devices, links, and the device of each rank. Made by `TopologyBuilder`, or by arrays for large regular machines."""

    name: str
    names: Names
    device_kind: npt.NDArray[np.int8]
    """[devices] index into DEVICE_KINDS."""
    device_host: npt.NDArray[np.int32]
    """[devices] index into `hosts`; -1 for what lies between hosts."""
    hosts: Names
    device_reduces: npt.NDArray[np.bool_]
    """[devices] reduces and multicasts."""
    link_a: npt.NDArray[np.int32]
    link_b: npt.NDArray[np.int32]
    link_kind: npt.NDArray[np.int8]
    """[links] index into LINK_KINDS."""
    forward_Bps: Floats  # noqa: N815
    backward_Bps: Floats  # noqa: N815
    duplex_Bps: Floats  # noqa: N815
    """[links] both directions together; inf where there is no such limit."""
    latency_s: Floats
    link_basis: npt.NDArray[np.int8]
    """[links] index into BASES."""
    ranks: npt.NDArray[np.int32]
    """[N] the device of each rank."""
    policies: Mapping[str, PathPolicy] = field(default_factory=dict)
    """Path class -> how its traffic travels; a class that is not here goes the direct way without a cap."""
    costs: Costs = field(default_factory=Costs)
    gpus_forward: bool = False
    """GPUs pass traffic of others on, as in a torus."""
    router: Router | None = None
    """None: the general one of `busbw.core.routing`."""
    notes: tuple[str, ...] = ()
    """What a reader has to know: assumptions, what the source did not say."""
    source: str = ""
    """Where it comes from: a file, a preset with its data sheet."""
    details: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Device index -> what else is known of it."""

    @property
    def world_size(self) -> int:
        """Ranks."""
        return len(self.ranks)

    @property
    def device_count(self) -> int:
        """Devices of all kinds."""
        return len(self.device_kind)

    @property
    def link_count(self) -> int:
        """Links; each has two directions."""
        return len(self.link_a)

    def device(self, index: int) -> Device:
        """One device."""
        host = int(self.device_host[index])
        return Device(
            self.names[index],
            DEVICE_KINDS[self.device_kind[index]],
            "" if host < 0 else self.hosts[host],
            bool(self.device_reduces[index]),
            self.details.get(index, {}),
        )

    def link(self, index: int) -> Link:
        """One link."""
        duplex = float(self.duplex_Bps[index])
        return Link(
            self.names[int(self.link_a[index])],
            self.names[int(self.link_b[index])],
            LINK_KINDS[self.link_kind[index]],
            float(self.forward_Bps[index]),
            float(self.backward_Bps[index]),
            None if math.isinf(duplex) else duplex,
            float(self.latency_s[index]),
            BASES[self.link_basis[index]],
        )

    def devices(self) -> Iterator[Device]:
        """All devices, in order."""
        return map(self.device, range(self.device_count))

    def links(self) -> Iterator[Link]:
        """All links, in order."""
        return map(self.link, range(self.link_count))

    def capacities(self) -> Floats:
        """[3 links] bytes a second of every resource: directions a -> b and b -> a by turns, then the duplex budgets."""
        directions = np.stack([self.forward_Bps, self.backward_Bps], axis=1).reshape(-1)
        return np.concatenate([directions, self.duplex_Bps])

    def resource_name(self, resource: int) -> str:
        """A resource in words: `switch0 -> gpu0`, or `switch0 <-> gpu0, both ways together`."""
        link, backward = divmod(resource, 2) if resource < 2 * self.link_count else (resource - 2 * self.link_count, 2)
        a, b = self.names[int(self.link_a[link])], self.names[int(self.link_b[link])]
        return (f"{a} -> {b}", f"{b} -> {a}", f"{a} <-> {b}, both ways together")[backward]

    def policy(self, path_class: str) -> PathPolicy:
        """How traffic of a path class travels."""
        return self.policies.get(path_class, _DIRECT)

    def routes(self, source: npt.ArrayLike, target: npt.ArrayLike) -> Routes:
        """Routes between ranks: `source` and `target` are ranks of shape [flows]."""
        from busbw.core.routing import ROUTER

        ranks = self.ranks.astype(np.int64)
        return (self.router or ROUTER).routes(self, ranks[np.asarray(source)], ranks[np.asarray(target)])

    def with_ranks(self, world_size: int) -> Topology:
        """The same machine with its first `world_size` ranks in use; UsageError where it has fewer."""
        if not 1 <= world_size <= self.world_size:
            raise UsageError(f"{self.name} has {self.world_size} GPUs; {world_size} ranks do not fit on it")
        return self if world_size == self.world_size else replace(self, ranks=self.ranks[:world_size])

    def changed(self, **fields: Any) -> Topology:
        """The same machine with other fields: `policies`, `costs`, rates. Rates are checked again."""
        machine = replace(self, **fields)
        check_links(machine)
        return machine


_DIRECT = PathPolicy()


def check_links(topology: Topology) -> None:
    """UsageError, naming the link, for a rate that is not above 0, or endless, or a latency below 0."""
    for array, what in (
        (topology.forward_Bps, "a -> b"),
        (topology.backward_Bps, "b -> a"),
        (topology.duplex_Bps, "both ways"),
    ):
        bad = np.flatnonzero(~(array > 0))
        if len(bad):
            raise UsageError(
                f"{_between(topology, int(bad[0]))}: its bandwidth {what} is {array[bad[0]]:g} B/s; it must be above 0"
            )
        if what != "both ways" and len(bad := np.flatnonzero(np.isinf(array))):
            raise UsageError(
                f"{_between(topology, int(bad[0]))}: its bandwidth {what} is endless; give a number of bytes a second"
            )
    bad = np.flatnonzero(~((topology.latency_s >= 0) & np.isfinite(topology.latency_s)))
    if len(bad):
        raise UsageError(
            f"{_between(topology, int(bad[0]))}: its latency is {topology.latency_s[bad[0]]:g} s; it must be 0 or more"
        )


def _between(topology: Topology, link: int) -> str:
    a, b = topology.names[int(topology.link_a[link])], topology.names[int(topology.link_b[link])]
    return f"topology {topology.name}: the link {a} - {b}"


class TopologyBuilder:
    """Builds a Topology device by device. Parallel links of one kind between two devices are added up."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._index: dict[str, int] = {}
        self._devices: list[Device] = []
        self._links: dict[tuple[str, str, str], Link] = {}
        self._ranks: list[str] = []

    def add(self, device: Device, *, rank: bool | None = None) -> str:
        """Add a device and return its name. A GPU (or process) is the next rank unless `rank` is False."""
        if device.kind not in DEVICE_KINDS:
            raise UsageError(
                f"topology {self.name}: {device.name!r} is a {device.kind!r}: choose from {', '.join(DEVICE_KINDS)}"
            )
        if device.name in self._index:
            raise UsageError(f"topology {self.name}: the device {device.name!r} is there twice; names must differ")
        self._index[device.name] = len(self._devices)
        self._devices.append(device)
        if device.kind in RANK_KINDS and rank is not False:
            self._ranks.append(device.name)
        return device.name

    def names(self) -> tuple[str, ...]:
        """Names of the devices that are there already."""
        return tuple(self._index)

    def devices(self) -> tuple[Device, ...]:
        """The devices that are there already."""
        return tuple(self._devices)

    def link(self, link: Link) -> None:
        """Add a link between two devices that are there already."""
        for end in (link.a, link.b):
            if end not in self._index:
                raise UsageError(
                    f"topology {self.name}: the link {link.a} - {link.b} ends at {end!r}, which is no device"
                )
        if link.a == link.b:
            raise UsageError(f"topology {self.name}: the link {link.a} - {link.b} ends where it begins")
        if link.kind not in LINK_KINDS or link.basis not in BASES:
            raise UsageError(
                f"topology {self.name}: the link {link.a} - {link.b} is a {link.kind!r} of {link.basis!r} speed: choose a "
                f"kind of {', '.join(LINK_KINDS)}, and of {', '.join(BASES)}"
            )
        if (link.b, link.a, link.kind) in self._links:  # the same wire, told from its other end
            link = replace(link, a=link.b, b=link.a, forward_Bps=link.backward_Bps, backward_Bps=link.forward_Bps)
        key = (link.a, link.b, link.kind)
        self._links[key] = _parallel(self._links[key], link) if key in self._links else link

    def set_ranks(self, names: Sequence[str]) -> None:
        """Which GPU each rank uses, where it is not the order in which they were added."""
        for name in names:
            if name not in self._index or self._devices[self._index[name]].kind not in RANK_KINDS:
                raise UsageError(
                    f"topology {self.name}: rank {names.index(name)} is on {name!r}, which is no GPU of it"
                )
            if names.count(name) > 1:
                raise UsageError(f"topology {self.name}: the GPU {name!r} has two ranks; each has one")
        self._ranks = list(names)

    def build(
        self,
        *,
        policies: Mapping[str, PathPolicy] | None = None,
        costs: Costs | None = None,
        gpus_forward: bool = False,
        notes: Sequence[str] = (),
        source: str = "",
    ) -> Topology:
        """The checked Topology; UsageError for one without GPUs, or of several parts that no link joins."""
        if not self._ranks:
            raise UsageError(f"topology {self.name} has no GPU")
        for name in policies or {}:
            if name not in PATH_CLASSES:
                raise UsageError(
                    f"topology {self.name}: unknown path class {name!r}: choose from {', '.join(PATH_CLASSES)}"
                )
        hosts = list(dict.fromkeys(device.host for device in self._devices if device.host))
        links = list(self._links.values())
        topology = Topology(
            name=self.name,
            names=[device.name for device in self._devices],
            device_kind=np.array([DEVICE_KINDS.index(device.kind) for device in self._devices], np.int8),
            device_host=np.array([hosts.index(d.host) if d.host else -1 for d in self._devices], np.int32),
            hosts=hosts,
            device_reduces=np.array([device.reduces for device in self._devices], np.bool_),
            link_a=np.array([self._index[link.a] for link in links], np.int32),
            link_b=np.array([self._index[link.b] for link in links], np.int32),
            link_kind=np.array([LINK_KINDS.index(link.kind) for link in links], np.int8),
            forward_Bps=np.array([link.forward_Bps for link in links], np.float64),
            backward_Bps=np.array([link.backward_Bps for link in links], np.float64),
            duplex_Bps=np.array(
                [math.inf if link.duplex_Bps is None else link.duplex_Bps for link in links], np.float64
            ),
            latency_s=np.array([link.latency_s for link in links], np.float64),
            link_basis=np.array([BASES.index(link.basis) for link in links], np.int8),
            ranks=np.array([self._index[name] for name in self._ranks], np.int32),
            policies=dict(policies or {}),
            costs=costs or Costs(),
            gpus_forward=gpus_forward,
            notes=tuple(notes),
            source=source,
            details={i: device.details for i, device in enumerate(self._devices) if device.details},
        )
        check_links(topology)
        self._check_connected(links)
        return topology

    def _check_connected(self, links: Sequence[Link]) -> None:
        neighbours: dict[str, list[str]] = {}
        for link in links:
            neighbours.setdefault(link.a, []).append(link.b)
            neighbours.setdefault(link.b, []).append(link.a)
        reached, waiting = {self._ranks[0]}, [self._ranks[0]]
        while waiting:
            for neighbour in neighbours.get(waiting.pop(), ()):
                if neighbour not in reached:
                    reached.add(neighbour)
                    waiting.append(neighbour)
        for rank, name in enumerate(self._ranks):
            if name not in reached:
                raise UsageError(
                    f"topology {self.name}: no links lead from {self._ranks[0]!r} (rank 0) to {name!r} (rank {rank}); "
                    "join its parts, or leave one out"
                )


def _parallel(one: Link, other: Link) -> Link:
    """Two wires side by side as one."""
    duplex = None
    if one.duplex_Bps is not None or other.duplex_Bps is not None:
        duplex = sum(
            link.forward_Bps + link.backward_Bps if link.duplex_Bps is None else link.duplex_Bps
            for link in (one, other)
        )
    return replace(
        one,
        forward_Bps=one.forward_Bps + other.forward_Bps,
        backward_Bps=one.backward_Bps + other.backward_Bps,
        duplex_Bps=duplex,
        latency_s=max(one.latency_s, other.latency_s),
    )


def describe_link(link: Link) -> str:
    """A link in words: `pcie, 50.0 GB/s each way (nominal)`."""
    if link.forward_Bps == link.backward_Bps:
        rate = f"{format_rate(link.forward_Bps)} each way"
    else:
        rate = f"{format_rate(link.forward_Bps)} {link.a} -> {link.b}, {format_rate(link.backward_Bps)} back"
    both = "" if link.duplex_Bps is None else f", {format_rate(link.duplex_Bps)} both ways together"
    return f"{link.kind}, {rate}{both} ({link.basis})"
