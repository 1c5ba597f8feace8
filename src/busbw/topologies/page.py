"""A machine as a page of text, and as plain data: devices, links by kind with speed and basis, paths between GPUs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from busbw.core.topology import (
    BASES,
    DEVICE_KINDS,
    LINK_KINDS,
    PATH_CLASSES,
    Floats,
    Link,
    Topology,
    describe_link,
)
from busbw.units import format_rate, format_time

MOST_DEVICES, MOST_LINKS, MOST_PATHS = 2048, 8192, 32
"""What is listed one by one: devices and links in JSON, GPUs in a matrix of paths."""
_SHOWN_LINKS = 24
_SHORT = {"local": "-", "nvlink": "nvl", "pcie": "pcie", "host_bridge": "host", "socket": "sock", "network": "net"}


@dataclass(frozen=True, slots=True)
class LinkGroup:
    """Links that are alike: between the same kinds of device, of the same speeds, latency and basis."""

    count: int
    ends: tuple[str, str]
    link: Link
    """The first of them."""


def link_groups(topology: Topology) -> list[LinkGroup]:
    """All links in groups, in the order of their first."""
    if not topology.link_count:
        return []
    kinds = topology.device_kind
    columns = np.stack(
        [
            kinds[topology.link_a].astype(np.float64),
            kinds[topology.link_b].astype(np.float64),
            topology.link_kind.astype(np.float64),
            topology.link_basis.astype(np.float64),
            topology.forward_Bps,
            topology.backward_Bps,
            topology.duplex_Bps,
            topology.latency_s,
        ]
    )
    order = np.lexsort(columns)
    ordered = columns[:, order]
    starts = np.flatnonzero(np.append(True, (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)))
    counts = np.diff(np.append(starts, topology.link_count))
    firsts = [int(order[start : start + count].min()) for start, count in zip(starts, counts, strict=True)]
    return [
        LinkGroup(
            int(count),
            (DEVICE_KINDS[kinds[topology.link_a[first]]], DEVICE_KINDS[kinds[topology.link_b[first]]]),
            topology.link(first),
        )
        for first, count in sorted(zip(firsts, counts, strict=True))
    ]


def paths(topology: Topology, ranks: Sequence[int]) -> tuple[npt.NDArray[np.int8], Floats]:
    """Between these ranks, [n, n] each: the path class (index into PATH_CLASSES), and what one flow alone gets (B/s)."""
    wanted = np.asarray(ranks, np.int64)
    source, target = (axis.reshape(-1) for axis in np.meshgrid(wanted, wanted, indexing="ij"))
    routes = topology.routes(source, target)
    capacities = topology.capacities()
    alone = np.full(len(source), math.inf)
    for flow in range(len(source)):
        resources, passes = np.unique(routes.of(flow), return_counts=True)
        if len(resources):
            alone[flow] = min(float((capacities[resources] / passes).min()), float(routes.cap_Bps[flow]))
    size = len(wanted)
    return routes.path_class.reshape(size, size), alone.reshape(size, size)


def page(topology: Topology, said: Sequence[str] = ()) -> str:
    """The machine for people; `said` are lines of the file's own kind (see `Description.summary`)."""
    hosts = len(topology.hosts)
    lines = [
        f"{topology.name}: {topology.world_size} ranks on {hosts} host{'s' if hosts != 1 else ''}, "
        f"{topology.device_count} devices, {topology.link_count} links"
    ]
    lines += [f"  {topology.source}"] if topology.source else []
    lines += [f"  {line}" for line in said]
    lines += ["", "devices"]
    for kind, count in _counts(topology).items():
        lines.append(f"  {count:>8} {kind:<16}{_some_names(topology, kind)}")
    lines += ["", "links", *_link_lines(topology)]
    lines += ["", *_path_lines(topology), "", *_class_lines(topology)]
    lines += ["", *(f"note: {note}" for note in topology.notes)] if topology.notes else []
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _counts(topology: Topology) -> dict[str, int]:
    counts = np.bincount(topology.device_kind, minlength=len(DEVICE_KINDS))
    return {kind: int(count) for kind, count in zip(DEVICE_KINDS, counts, strict=True) if count}


def _some_names(topology: Topology, kind: str) -> str:
    places = np.flatnonzero(topology.device_kind == DEVICE_KINDS.index(kind))
    names = [topology.names[int(place)] for place in places[:4]]
    if len(places) > 5:
        return f"{', '.join(names[:3])} ... {topology.names[int(places[-1])]}"
    return ", ".join([*names, *(topology.names[int(place)] for place in places[4:])])


def _link_lines(topology: Topology) -> list[str]:
    if topology.link_count <= _SHOWN_LINKS:
        width = max((len(f"{link.a} - {link.b}") for link in topology.links()), default=0)
        return [f"  {f'{link.a} - {link.b}':<{width}}  {_speed(link)}" for link in topology.links()]
    groups = link_groups(topology)
    width = max(len(" - ".join(group.ends)) for group in groups)
    shown = [
        f"  {group.count:>8} x {' - '.join(group.ends):<{width}}  {_speed(group.link, *group.ends)}"
        for group in groups[: 2 * _SHOWN_LINKS]
    ]
    more = len(groups) - len(shown)
    return [*shown, f"  ... and {more} more kinds of link (--json lists them)"] if more > 0 else shown


def _speed(link: Link, a: str = "", b: str = "") -> str:
    """A link in words; with the kinds of its ends in place of their names where it stands for many."""
    text = describe_link(
        Link(
            a or link.a,
            b or link.b,
            link.kind,
            link.forward_Bps,
            link.backward_Bps,
            link.duplex_Bps,
            link.latency_s,
            link.basis,
        )
    )
    return text + (f", {format_time(link.latency_s)}" if link.latency_s else "")


def _path_lines(topology: Topology) -> list[str]:
    size = topology.world_size
    if size > MOST_PATHS:
        return _summary_of_paths(topology)
    classes, alone = paths(topology, range(size))
    names = [topology.names[int(device)] for device in topology.ranks]
    width = max(5, max(map(len, names)) + 1)
    lines = ["paths between ranks: class, and below it GB/s of one flow alone"]
    head = "".join(f"{f'[{rank}]':>6}" for rank in range(size))
    lines.append(f"  {'':>{width}}     {head}")
    for rank in range(size):
        cells = "".join(f"{_SHORT[PATH_CLASSES[classes[rank, other]]]:>6}" for other in range(size))
        rates = "".join(f"{'' if rank == other else _number(alone[rank, other]):>6}" for other in range(size))
        lines += [f"  {names[rank]:>{width}} {f'[{rank}]':>4}{cells}", f"  {'':>{width}}     {rates}"]
    return lines


def _number(rate: float) -> str:
    value = rate / 1e9
    return f"{value:.0f}" if value >= 99.5 else f"{value:.1f}"


def _summary_of_paths(topology: Topology) -> list[str]:
    """From rank 0 to all others, by class; what a class gets is told by its first rank."""
    others = np.arange(1, topology.world_size)
    found = topology.routes(np.zeros(len(others), np.int64), others).path_class
    lines = [f"paths from rank 0 ({topology.names[int(topology.ranks[0])]}) to the other {len(others)}"]
    for place in np.unique(found):
        members = others[found == place]
        _, alone = paths(topology, [0, int(members[0])])
        lines.append(
            f"  {len(members):>8} {PATH_CLASSES[place]:<12}one flow alone {format_rate(float(alone[0, 1]))} (to rank {members[0]})"
        )
    return lines


def _class_lines(topology: Topology) -> list[str]:
    lines = ["path classes: the way of their traffic"]
    for name, policy in topology.policies.items():
        cap = "" if math.isinf(policy.cap_Bps) else f", at most {format_rate(policy.cap_Bps)} a flow"
        way = {"direct": "direct", "cpu": "through the CPU (root port)", "memory": "staged in host memory"}[policy.via]
        lines.append(f"  {name:<12}{way}{cap}, {format_time(policy.latency_s)} a message ({policy.basis})")
    if not topology.policies:
        lines.append("  all direct, without a cap")
    costs = topology.costs
    lines.append(
        f"costs: launch {format_time(costs.launch_s)}, message {format_time(costs.message_s)}, reducing "
        f"{costs.reduce_s_per_byte * 1e9:.3g} s/GB, half rate at {costs.half_rate_bytes:.0f} B ({costs.basis})"
    )
    return lines


def to_json(topology: Topology, said: dict[str, Any] | None = None) -> dict[str, Any]:
    """The machine as plain data; large ones without `device_list` and `link_list`, and `paths` only up to 128 ranks."""
    size = topology.world_size
    classes = alone = None
    if size <= 128:
        found, rates = paths(topology, range(size))
        classes = [[PATH_CLASSES[place] for place in row] for row in found.tolist()]
        alone = [[None if math.isinf(rate) else rate / 1e9 for rate in row] for row in rates.tolist()]
    return {
        "name": topology.name,
        "source": topology.source,
        "world_size": size,
        "hosts": len(topology.hosts),
        "devices": _counts(topology),
        "links": topology.link_count,
        "bases": dict(Counter(BASES[basis] for basis in topology.link_basis.tolist())),
        "link_groups": [
            {"count": group.count, "ends": list(group.ends), **_link_json(group.link)}
            for group in link_groups(topology)
        ],
        "device_list": [
            {"name": d.name, "kind": d.kind, "host": d.host, "reduces": d.reduces, "details": dict(d.details)}
            for d in topology.devices()
        ]
        if topology.device_count <= MOST_DEVICES
        else None,
        "link_list": [{"between": [link.a, link.b], **_link_json(link)} for link in topology.links()]
        if topology.link_count <= MOST_LINKS
        else None,
        "ranks": [topology.names[int(device)] for device in topology.ranks[:MOST_DEVICES]],
        "path_classes": classes,
        "alone_GBps": alone,
        "paths": {
            name: {
                "via": policy.via,
                "cap_GBps": None if math.isinf(policy.cap_Bps) else policy.cap_Bps / 1e9,
                "latency_us": policy.latency_s * 1e6,
                "basis": policy.basis,
            }
            for name, policy in topology.policies.items()
        },
        "costs": {
            "launch_us": topology.costs.launch_s * 1e6,
            "message_us": topology.costs.message_s * 1e6,
            "reduce_s_per_byte": topology.costs.reduce_s_per_byte,
            "half_rate_bytes": topology.costs.half_rate_bytes,
            "basis": topology.costs.basis,
        },
        "gpus_forward": topology.gpus_forward,
        "notes": list(topology.notes),
        "said": said,
    }


def _link_json(link: Link) -> dict[str, Any]:
    assert link.kind in LINK_KINDS
    return {
        "kind": link.kind,
        "forward_GBps": link.forward_Bps / 1e9,
        "backward_GBps": link.backward_Bps / 1e9,
        "both_ways_GBps": None if link.duplex_Bps is None else link.duplex_Bps / 1e9,
        "latency_us": link.latency_s * 1e6,
        "basis": link.basis,
    }
