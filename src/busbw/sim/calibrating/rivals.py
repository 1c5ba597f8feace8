"""Rival descriptions of one machine: other routes, and other wires that limit, to be fitted and scored beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from busbw.core.topology import DEVICE_KINDS, PathPolicy, Topology
from busbw.sim.calibrating.groups import Column

_INSIDE = ("nvlink", "pcie", "host_bridge", "socket")


@dataclass(frozen=True, slots=True)
class Rival:
    """One description: the ways that traffic takes, and the speeds and costs that are free. At most 5 of them."""

    name: str
    text: str
    vias: tuple[tuple[str, str], ...]
    """Path class -> via, of those that differ from the direct way."""
    free: tuple[tuple[str, str], ...]
    """(group, way) of the columns that are asked for."""
    costs: tuple[str, ...] = ("launch", "message")

    def machine(self, topology: Topology) -> Topology:
        """The machine with these ways, and without latencies and caps that were only assumed."""
        vias = dict(self.vias)
        policies = {}
        for name in {*topology.policies, *vias}:
            old = topology.policy(name)
            kept = old if old.basis == "measured" else PathPolicy()
            policies[name] = replace(
                kept, via=vias.get(name, "direct" if name in _INSIDE else old.via), basis="measured"
            )
        costs = replace(topology.costs, launch_s=0.0, message_s=0.0)
        if "reducing" in self.costs:
            costs = replace(costs, reduce_s_per_byte=0.0)
        return topology.changed(policies=policies, costs=costs)


def rivals_of(topology: Topology, columns: Sequence[Column]) -> list[Rival]:
    """The descriptions that a machine allows, by the devices that it has."""
    return list(_candidates(topology, {(column.group, column.way) for column in columns}))


def _candidates(topology: Topology, columns: set[tuple[str, str]]) -> Iterator[Rival]:
    port = _port(topology)
    uplink = "pcie_switch-cpu" if ("pcie_switch-cpu", "out") in columns else None
    socket = ("cpu-cpu", "each") if ("cpu-cpu", "each") in columns else None
    ports: tuple[tuple[str, str], ...] = ((port, "out"), (port, "in"))
    costs: tuple[str, ...] = ("adding:socket", "latency") if socket else ("launch", "message")
    tail = "; data from the other socket is added at a rate of its own" if socket else ""
    if uplink:
        shared = ((uplink, "out"), (uplink, "in"), (uplink, "both"))
        redirected = (
            "traffic inside a switch climbs to the root port and comes back (ACS or IOMMU redirect), so that all flows share "
            "their switch's uplink, both ways together"
        )
        yield Rival("redirected-pairs", redirected + tail, (("pcie", "cpu"),), shared, costs)
        if ("cpu-memory", "out") in columns:
            yield Rival(
                "staged",
                "every flow is staged in host memory (no peer access, SHM): it climbs the uplink of its source and comes down "
                "that of its target" + tail,
                tuple((name, "memory") for name in ("pcie", "host_bridge", "socket")),
                shared,
                costs,
            )
        if socket:
            yield Rival(
                "redirected-pairs-alike",
                redirected + "; adding is as fast as copying everywhere",
                (("pcie", "cpu"),),
                shared,
            )
            yield Rival(
                "redirected-pairs-capped",
                redirected + "; one flow across sockets has a cap of its own",
                (("pcie", "cpu"),),
                shared,
                ("cap:socket", "latency"),
            )
        yield Rival(
            "direct-pairs",
            "pairs talk inside their switch; the uplink is shared by what leaves it and what enters" + tail,
            (),
            shared,
            costs,
        )
    elif ("cpu-memory", "both") in columns:
        yield Rival(
            "shared-memory",
            "every flow goes through the host's memory (or its cores), which all ranks share; what a rank adds costs time too",
            tuple((name, "memory") for name in ("pcie", "host_bridge", "socket")),
            (("cpu-memory", "both"), (port, "out")),
            ("launch", "message", "reducing"),
        )
    yield Rival(
        "half-duplex-ports", "a GPU's port has one budget, in and out together" + tail, (), ((port, "both"),), costs
    )
    yield Rival(
        "full-duplex-ports", "a GPU's port limits each way by itself, and nothing else" + tail, (), ports, costs
    )
    if socket:
        yield Rival("socket-bound", "full-duplex ports, and the link between the sockets", (), (*ports, socket))
    for group in ("nic-network_switch", "pcie_switch-nic", "network_switch-network_switch"):
        ways = [way for way in ("out", "in", "each") if (group, way) in columns]
        if ways:
            free = ((port, "out"), *((group, way) for way in ways))
            yield Rival(f"{group}-bound", f"ports, and the links {group}", (), free, ("launch", "message"))


def _port(topology: Topology) -> str:
    """The group of links that a rank's own port is in."""
    from busbw.sim.calibrating.groups import columns_of

    kind = DEVICE_KINDS[topology.device_kind[int(topology.ranks[0])]]
    groups = [column for column in columns_of(topology) if column.near == kind]
    return groups[0].group if groups else columns_of(topology)[0].group


DECIDERS: dict[frozenset[str], str] = {
    frozenset(
        {"redirected-pairs", "staged"}
    ): "NCCL_DEBUG=INFO ('via P2P' or 'via SHM'), lspci -vvv (ACSCtl), or one pair of neighbours with "
    "NCCL_P2P_LEVEL=SYS against NCCL_P2P_DISABLE=1",
    frozenset({"redirected-pairs", "direct-pairs"}): "one pair of neighbours, one way and both ways at once",
    frozenset(
        {"half-duplex-ports", "full-duplex-ports"}
    ): "one pair, one way (broadcast) and both ways (send_recv) at once",
    frozenset(
        {"socket-bound", "full-duplex-ports"}
    ): "as many ranks on one socket as across both, at the same N (CUDA_VISIBLE_DEVICES)",
}
_ANY = "one pair under a switch, and one across, each one way and both ways; and scatter from a root at the largest N"


def what_decides(one: str, other: str) -> str:
    """The measurement on which two descriptions differ."""
    return DECIDERS.get(frozenset({one, other}), _ANY)


Tell = Callable[[str], None]
