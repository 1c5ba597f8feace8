"""What lies between hosts, as levels of switches; and which host is drawn for all that are like it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from busbw.core.topology import DEVICE_KINDS, Ints, Topology

MOST_OTHERS, MOST_PLAIN = 4, 16
"""Collapsed hosts that are drawn, and single GPUs that are drawn where each is a host."""

_NVSWITCH = DEVICE_KINDS.index("nvswitch")
_SHARED = (_NVSWITCH, DEVICE_KINDS.index("network_switch"))


@dataclass(frozen=True, slots=True)
class Band:
    """Switches (or a mesh of links) drawn as one: its text, its kind, and the links that each device has to it."""

    text: str
    kind: str
    links: Mapping[int, list[int]]
    is_device: bool = True


@dataclass(frozen=True, slots=True)
class Shown:
    """What is drawn whole, what is collapsed, and how many hosts are only counted."""

    name: str
    devices: list[int]
    others: list[tuple[str, list[int]]]
    more: int


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The switches between hosts that are equally far from them."""

    kind: str
    text: str
    members: Ints
    up: list[int] = field(default_factory=list)
    """Links to the level before."""
    upper: list[int] = field(default_factory=list)
    """The switches of that level."""

    def down(self, topology: Topology, devices: Iterable[int]) -> dict[int, list[int]]:
        """Device -> its links to this level."""
        chosen = np.fromiter(devices, np.int64)
        out: dict[int, list[int]] = {}
        for near, far in ((topology.link_a, topology.link_b), (topology.link_b, topology.link_a)):
            for link in np.flatnonzero(np.isin(near, chosen) & np.isin(far, self.members)).tolist():
                out.setdefault(int(near[link]), []).append(link)
        return dict(sorted(out.items()))

    def links_of(self, topology: Topology, devices: Sequence[int]) -> list[int]:
        """All links of these devices to this level."""
        return sorted(link for links in self.down(topology, devices).values() for link in links)


def shown_hosts(topology: Topology) -> Shown:
    """The first of the most frequent kind of host, whole; where every host is one GPU, the first of them side by side."""
    hosts = topology.device_host
    between = np.isin(topology.device_kind, _SHARED) & (hosts < 0)
    groups = np.unique(hosts[~between])
    sizes = np.array([np.count_nonzero(hosts == group) for group in groups.tolist()[:4096]])
    if len(groups) > 1 and (sizes == 1).all():
        plain = np.flatnonzero(~between)
        return Shown("", plain[:MOST_PLAIN].tolist(), [], max(len(plain) - MOST_PLAIN, 0))
    kinds = [_signature(topology, int(group)) for group in groups[:256]]
    first = max(range(len(kinds)), key=lambda i: (kinds.count(kinds[i]), -i))
    others = [i for i in range(min(len(groups), MOST_OTHERS + 1)) if i != first][:MOST_OTHERS]
    return Shown(
        _host_name(topology, int(groups[first])),
        _members(topology, int(groups[first])),
        [(_host_name(topology, int(groups[i])), _members(topology, int(groups[i]))) for i in others],
        len(groups) - 1 - len(others),
    )


def _signature(topology: Topology, host: int) -> tuple[int, ...]:
    members = _members(topology, host)
    return tuple(np.bincount(topology.device_kind[members], minlength=len(DEVICE_KINDS)).tolist())


def _members(topology: Topology, host: int) -> list[int]:
    inside = topology.device_host == host
    if host < 0:
        inside &= topology.device_kind != _SHARED[1]
    return list(map(int, np.flatnonzero(inside)))


def _host_name(topology: Topology, host: int) -> str:
    return topology.hosts[host] if host >= 0 else "one host"


def levels(topology: Topology, devices: Sequence[int]) -> list[Level]:
    """Levels of switches outside the drawn host, the nearest first; one for each kind of switch."""
    out: list[Level] = []
    outside = np.isin(topology.device_kind, _SHARED)
    outside[np.asarray(devices, np.int64)] = False
    # What another host has inside is collapsed with it.
    outside &= topology.device_host < 0
    left = outside.copy()
    inner = ~outside
    before: dict[str, Ints] = {}
    while left.any():
        reached = np.zeros(topology.device_count, np.bool_)
        for near, far in ((topology.link_a, topology.link_b), (topology.link_b, topology.link_a)):
            reached[far[inner[near] & left[far]]] = True
        if not reached.any():
            break
        for kind in _SHARED:
            members = np.flatnonzero(reached & (topology.device_kind == kind))
            if len(members):
                name = DEVICE_KINDS[kind]
                up = _between(topology, members, before[name]) if name in before else []
                upper = before[name].tolist() if up else []
                out.append(Level(name, _text(topology, name, members), members, up, upper))
                before[name] = members
        left &= ~reached
        inner = reached
    return out


def _between(topology: Topology, ones: Ints, others: Ints) -> list[int]:
    a, b = topology.link_a, topology.link_b
    joined = (np.isin(a, ones) & np.isin(b, others)) | (np.isin(b, ones) & np.isin(a, others))
    return list(map(int, np.flatnonzero(joined)))


def _text(topology: Topology, kind: str, members: Ints) -> str:
    names = [topology.names[int(i)] for i in (members[0], members[-1])]
    if len(members) == 1:
        return names[0]
    what = "NVSwitches" if kind == "nvswitch" else "switches"
    links = len(_between(topology, members, members))
    among = f", {links} links among them" if links else ""
    return f"{len(members)} {what}, {names[0]} … {names[1]}{among}"
