"""Clusters of equal hosts: fat trees of 1 to 3 levels, and rail-optimised ones, built as arrays.

Numbers: the devices of host 0, host 1, ..., then leaves, then the spines of pods, then the core. Links: those of the
hosts, then one a NIC to its leaf, then leaf to spine, then spine to core. Parallel links and equal spines are one link
and one device with their sum: equal-cost routes share the traffic perfectly here, which real hashing does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from busbw.core.routing import ROUTER, Routes, graph_of, make_routes
from busbw.core.topology import (
    BASES,
    DEVICE_KINDS,
    LINK_KINDS,
    PATH_CLASSES,
    Device,
    Floats,
    Ints,
    PathPolicy,
    Topology,
    TopologyBuilder,
)
from busbw.errors import UsageError
from busbw.topologies.preset import Parameter, Preset
from busbw.topologies.regular import NumberedNames, RepeatedDetails, kinds_of, machine, must_be_direct

_NIC = DEVICE_KINDS.index("nic")
_NETWORK = PATH_CLASSES.index("network")


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """The shape of a cluster, and its router: inside a host as the host does; else up to the common ancestor and down.

    A GPU leaves and arrives by the NIC next to it, over rails as well: traffic from one rail to another climbs to the
    spine. (NCCL's PXN, which changes rails over NVLink, is not in it.)
    """

    host: Topology
    hosts: int
    ports: Ints
    """[K] devices of a host that are wired to a leaf: its NICs, or the GPU itself where there is nothing else."""
    rail: bool
    hosts_per_leaf: int
    leaves_per_pod: int
    """Leaves (of one rail) under a pod's spine."""
    levels: int

    @property
    def leaf_groups(self) -> int:
        """Leaves, or leaves of one rail."""
        return -(-self.hosts // self.hosts_per_leaf)

    @property
    def leaves(self) -> int:
        """Leaf switches."""
        return self.leaf_groups * (len(self.ports) if self.rail else 1)

    @property
    def pods(self) -> int:
        """Spines; 0 where leaves stand alone."""
        return 0 if self.levels == 1 else -(-self.leaf_groups // self.leaves_per_pod)

    @property
    def first_uplink(self) -> int:
        """The link of the first NIC to its leaf."""
        return self.hosts * self.host.link_count

    def leaf_of(self, host: Ints, port: Ints) -> Ints:
        """The leaf of a NIC (by its number among the host's)."""
        group = host // self.hosts_per_leaf
        return group * len(self.ports) + port if self.rail else group

    def pod_of(self, leaf: Ints) -> Ints:
        """The pod of a leaf."""
        return (leaf // len(self.ports) if self.rail else leaf) // self.leaves_per_pod

    def routes(self, topology: Topology, source: Ints, target: Ints) -> Routes:
        """As `Router.routes`, between GPUs."""
        source, target = np.asarray(source, np.int64), np.asarray(target, np.int64)
        size = self.host.device_count
        here, there = source // size, target // size
        template = _with_policies(self.host, tuple(sorted(topology.policies.items())))
        inside = np.flatnonzero(here == there)
        between = np.flatnonzero(here != there)
        path_class = np.full(len(source), _NETWORK, np.int8)
        flow, direction, path_class[inside] = self._inside(
            template, here[inside], source[inside] % size, target[inside] % size
        )
        flows, directions = [inside[flow]], [direction]
        if len(between):
            way = self._between(template, source[between], target[between])
            row, _ = np.nonzero(way >= 0)
            flows.append(between[row])
            directions.append(way[way >= 0])
        return make_routes(topology, np.concatenate(flows), np.concatenate(directions), path_class)

    def _inside(
        self, template: Topology, host: Ints, source: Ints, target: Ints
    ) -> tuple[Ints, Ints, npt.NDArray[np.int8]]:
        """Flows within hosts: entries of (flow, directed link), and the class of each flow."""
        if not len(host):
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int8)
        size = template.device_count
        pairs, which = np.unique(source * size + target, return_inverse=True)
        router = template.router
        found = _general(template, pairs) if router is None else router.routes(template, pairs // size, pairs % size)
        lengths = np.diff(found.offsets)[which]
        flow = np.repeat(np.arange(len(host)), lengths)
        nth = np.arange(len(flow)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        resource = found.resources[np.repeat(found.offsets[:-1][which], lengths) + nth]
        kept = resource < 2 * template.link_count  # budgets are added again at the end
        return flow[kept], (resource + 2 * template.link_count * host[flow])[kept], found.path_class[which]

    def _between(self, template: Topology, source: Ints, target: Ints) -> Ints:
        """[flows, hops] directed links between different hosts; -1 where a way has fewer hops."""
        size, links = template.device_count, 2 * template.link_count
        out, out_port = self._half_ways(template, source % size, arrives=False)
        into, into_port = self._half_ways(template, target % size, arrives=True)
        here, there = source // size, target // size
        leaf, other = self.leaf_of(here, out_port), self.leaf_of(there, into_port)
        ports = len(self.ports)
        trunk = self.first_uplink + self.hosts * ports
        climbs = leaf != other
        columns = [2 * (self.first_uplink + here * ports + out_port)]
        downs = [2 * (self.first_uplink + there * ports + into_port) + 1]
        if self.levels > 1:
            columns.append(np.where(climbs, 2 * (trunk + leaf), -1))
            downs.insert(0, np.where(climbs, 2 * (trunk + other) + 1, -1))
        if self.levels > 2:
            pod, other_pod = self.pod_of(leaf), self.pod_of(other)
            core = trunk + self.leaves
            columns.append(np.where(pod != other_pod, 2 * (core + pod), -1))
            downs.insert(0, np.where(pod != other_pod, 2 * (core + other_pod) + 1, -1))
        return np.concatenate(
            [
                np.where(out >= 0, out + links * here[:, None], -1),
                np.stack(columns + downs, axis=1),
                np.where(into >= 0, into + links * there[:, None], -1),
            ],
            axis=1,
        )

    def _half_ways(self, template: Topology, gpu: Ints, *, arrives: bool) -> tuple[Ints, Ints]:
        """For each GPU of a host: [flows, hops] links between it and its NIC, padded with -1; the NIC's number."""
        used, which = np.unique(gpu, return_inverse=True)
        if template.device_count == 1:
            must_be_direct(template, "network")
            return np.zeros((len(gpu), 0), np.int64), np.zeros(len(gpu), np.int64)
        graph = graph_of(template)
        ways, ports = [], []
        numbers = {int(device): number for number, device in enumerate(self.ports)}
        for device in used.tolist():
            nic = graph.nic(device)
            assert nic is not None, "a host of a cluster has NICs in reach of its GPUs"
            ways.append(graph.half_way(device, nic, arrives=arrives))
            ports.append(numbers[nic])
        table = np.full((len(used), max(map(len, ways))), -1, np.int64)
        for row, way in enumerate(ways):
            table[row, : len(way)] = way
        return table[which], np.array(ports, np.int64)[which]


@lru_cache(maxsize=8)
def _with_policies(host: Topology, policies: tuple[tuple[str, PathPolicy], ...]) -> Topology:
    """The host with the cluster's path policies (calibrating changes those); kept, and with it the ways found in it."""
    return host if dict(host.policies) == dict(policies) else host.changed(policies=dict(policies))


def _general(template: Topology, pairs: Ints) -> Routes:
    size = template.device_count
    return ROUTER.routes(template, pairs // size, pairs % size)


def build(
    *,
    name: str,
    hosts: int,
    host: Topology,
    network: str,
    nic: float | None,
    levels: str,
    radix: int,
    hosts_per_leaf: int,
    leaves_per_pod: int,
    oversubscription: float,
    core_oversubscription: float,
    latency: float,
) -> Topology:
    """Hosts of one kind on a fat tree or on rails. 0 for a size means: as many as switches of `radix` ports allow."""
    ports = np.flatnonzero(host.device_kind == _NIC)
    if not len(ports) and host.device_count == 1:
        ports = np.array([0])
    graph = graph_of(host)
    if not len(ports) or (host.device_count > 1 and any(graph.nic(int(device)) is None for device in host.ranks)):
        raise UsageError(
            f"{name}: the host {host.name} has no NIC in reach of its GPUs: give it some, as {_with_nics(host)}"
        )
    rail = network == "rail"
    rates = np.array([_nic_rate(host, int(port), nic, name) for port in ports])
    per_leaf = min(hosts, hosts_per_leaf or max(1, radix // 2 // (1 if rail else len(ports))))
    leaf_groups = -(-hosts // per_leaf)
    rails = len(ports) if rail else 1
    per_pod = leaves_per_pod or max(1, radix // 2 // rails)
    depth = _levels(levels, name, leaf_groups, leaves_per_pod or max(1, radix // rails), rails > 1)
    shape = Cluster(host, hosts, ports, rail, per_leaf, per_pod if depth == 3 else leaf_groups, depth)
    return _arrays(name, shape, rates, oversubscription, core_oversubscription, latency, radix)


def _with_nics(host: Topology) -> str:
    return f"{host.name}(nics=1)" if "(" not in host.name else "a parameter nics="


def _nic_rate(host: Topology, port: int, nic: float | None, name: str) -> float:
    """What the network side of a NIC carries: as the cluster says, else as the host does."""
    said = host.details.get(port, {}).get("rate_Bps")
    if nic is None and said is None:
        raise UsageError(f"{name}: how fast the NICs of {host.name} are is not known: give nic=400Gb/s")
    return float(said) if nic is None and said is not None else float(nic or 0.0)


def _levels(levels: str, name: str, leaf_groups: int, most: int, rails: bool) -> int:
    """How many levels of switches: as asked, or as few as hold all leaves."""
    least = 1 if leaf_groups == 1 and not rails else 2
    if levels == "auto":
        return least if leaf_groups <= most else 3
    if int(levels) < least:
        why = "rails meet in a spine" if rails else f"{leaf_groups} leaves need a spine"
        raise UsageError(f"{name}: levels={levels}: {why}: give levels={least}, or a larger radix or hosts_per_leaf")
    return int(levels)


def _arrays(
    name: str, shape: Cluster, rates: Floats, over: float, core_over: float, latency: float, radix: int
) -> Topology:
    host, hosts, ports = shape.host, shape.hosts, shape.ports
    size, leaves, pods = host.device_count, shape.leaves, shape.pods
    cores = 1 if shape.levels == 3 else 0
    first_leaf = hosts * size
    first_spine, core = first_leaf + leaves, first_leaf + leaves + pods
    copies = np.arange(hosts, dtype=np.int64)
    offset = np.repeat(copies * size, host.link_count)
    up_host, up_port = np.repeat(copies, len(ports)), np.tile(np.arange(len(ports)), hosts)
    leaf = np.arange(leaves if pods else 0)
    spine = np.arange(pods if cores else 0)
    leaf_rate = (
        np.tile(rates, shape.leaf_groups) if shape.rail else np.full(leaves, rates.sum())
    ) * shape.hosts_per_leaf / over  # fmt: skip
    pod_rate = (
        np.bincount(shape.pod_of(np.arange(leaves)), leaf_rate, minlength=pods) / core_over if cores else np.zeros(0)
    )
    networks = hosts * len(ports) + len(leaf) + len(spine)
    rate = np.concatenate([np.tile(rates, hosts), leaf_rate[: len(leaf)], pod_rate])
    host_kinds = np.tile(host.device_kind, hosts)
    local_hosts = len(host.hosts)
    notes = list(host.notes)
    notes.append(
        f"{leaves} leaf switches of {shape.hosts_per_leaf} hosts"
        + (f" ({len(ports)} rails)" if shape.rail else "")
        + (f", {pods} spine{'s' if pods > 1 else ''}" if pods else "")
        + (", a core" if cores else "")
        + f"; a spine (and the core) stands for all switches of radix {radix} there, its link for all uplinks: equal-cost "
        "routes share perfectly here, which hashing does not"
    )
    if len(ports) > 1:
        notes.append(
            "a GPU uses the NIC next to it; rails meet in the spine (without NCCL's PXN)"
            if shape.rail
            else "a GPU uses the NIC next to it"
        )

    if size > 1:
        used = len({graph_of(host).nic(int(gpu)) for gpu in host.ranks})
        if used < len(ports):
            notes.append(f"{len(ports) - used} of the {len(ports)} NICs of a host carry nothing: each GPU uses one NIC")

    def device(index: int) -> str:
        if index >= core:
            return "core"
        if index >= first_spine:
            return f"spine{index - first_spine}"
        if index >= first_leaf:
            return _leaf_name(shape, index - first_leaf)
        copy, place = divmod(index, size)
        return f"gpu{copy}" if size == 1 else f"{_copy_name(host, copy)}/{host.names[place]}"

    def host_name(index: int) -> str:
        copy, place = divmod(index, local_hosts)
        return _copy_name(host, copy) if local_hosts == 1 else f"{_copy_name(host, copy)}/{host.hosts[place]}"

    return machine(
        name,
        names=NumberedNames(core + cores, device),
        kinds=np.concatenate([host_kinds, kinds_of(("network_switch", leaves + pods + cores))]),
        hosts=NumberedNames(hosts * local_hosts, host_name),
        device_host=np.concatenate(
            [
                np.tile(host.device_host, hosts) + np.repeat(copies * local_hosts, size).astype(np.int32),
                np.full(leaves + pods + cores, -1, np.int32),
            ]
        ).astype(np.int32),
        link_a=np.concatenate(
            [
                np.tile(host.link_a, hosts) + offset,
                up_host * size + ports[up_port],
                first_leaf + leaf,
                first_spine + spine,
            ]
        ),
        link_b=np.concatenate(
            [
                np.tile(host.link_b, hosts) + offset,
                first_leaf + shape.leaf_of(up_host, up_port),
                first_spine + shape.pod_of(leaf),
                np.full(len(spine), core),
            ]
        ),
        link_kind=np.concatenate(
            [np.tile(host.link_kind, hosts), np.full(networks, LINK_KINDS.index("network"), np.int8)]
        ),
        rate_Bps=np.concatenate([np.tile(host.forward_Bps, hosts), rate]),
        backward_Bps=np.concatenate([np.tile(host.backward_Bps, hosts), rate]),
        duplex_Bps=np.concatenate([np.tile(host.duplex_Bps, hosts), np.full(networks, np.inf)]),
        latency_s=np.concatenate([np.tile(host.latency_s, hosts), np.full(networks, latency)]),
        basis=np.concatenate([np.tile(host.link_basis, hosts), np.full(networks, BASES.index("nominal"), np.int8)]),
        ranks=(host.ranks + (copies * size)[:, None]).reshape(-1),
        reduces=np.concatenate([np.tile(host.device_reduces, hosts), np.zeros(leaves + pods + cores, np.bool_)]),
        policies=host.policies,
        costs=host.costs,
        gpus_forward=host.gpus_forward,
        router=shape,
        notes=tuple(notes),
        source=f"preset; hosts: {host.source or host.name}",
        details=RepeatedDetails(host.details, size, hosts),
    )


def _copy_name(host: Topology, copy: int) -> str:
    return f"host{copy}" if len(host.hosts) == 1 else f"rack{copy}"


def _leaf_name(shape: Cluster, leaf: int) -> str:
    if not shape.rail:
        return f"leaf{leaf}"
    group, rail = divmod(leaf, len(shape.ports))
    return f"rail{rail}/leaf{group}"


def _gpu(*, name: str) -> Topology:
    builder = TopologyBuilder(name)
    builder.add(Device("gpu0", "gpu", "host0", details={}))
    return builder.build(source="preset: a GPU that is wired to the network itself")


def _parameters(**defaults: str) -> tuple[Parameter, ...]:
    parameters = (
        Parameter("hosts", "count", "4", "hosts"),
        Parameter("host", "machine", "dgx-h100", "what each host is: a preset, such as dgx-a100 or gpu (a single GPU)"),
        Parameter("network", "choice", "fat-tree", "how NICs meet: one leaf for a host, or a leaf a rail", ("fat-tree", "rail")),
        Parameter("nic", "rate", "", "of each NIC to its leaf, one way (as the host's data sheet says)"),
        Parameter("levels", "choice", "auto", "levels of switches", ("auto", "1", "2", "3")),
        Parameter("radix", "count", "64", "ports of a switch", least=2),
        Parameter("hosts_per_leaf", "count", "0", "hosts under a leaf (0: as the radix allows)", least=0),
        Parameter("leaves_per_pod", "count", "0", "leaves of a pod, of each rail, with 3 levels (0: as the radix allows)", least=0),
        Parameter("oversubscription", "number", "1", "of a leaf: what comes in from below over what goes up"),
        Parameter("core_oversubscription", "number", "1", "of a pod's spine"),
        Parameter("latency", "time", "0s", "of each link of the network, beside the class's own"),
    )  # fmt: skip
    return tuple(
        Parameter(p.name, p.kind, defaults.get(p.name, p.text), p.help, p.choices, p.least) for p in parameters
    )


PRESETS = (
    Preset("cluster", "equal hosts on a network of 1 to 3 levels", "", _parameters(), build),
    Preset("fat-tree", "a fat tree of 2 or 3 levels of single GPUs, or of hosts", "Leiserson 1985; Al-Fares et al. 2008", _parameters(hosts="1024", host="gpu", nic="400Gb/s"), build),
    Preset("rail", "a rail-optimised cluster: NIC k of every host on rail k", "NVIDIA DGX SuperPOD reference architecture", _parameters(network="rail", hosts="32"), build),
    Preset("gpu", "a single GPU without a host, for clusters of such", "", (), _gpu),
)  # fmt: skip
