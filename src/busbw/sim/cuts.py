"""Bytes across cuts: what all pairs together must put on a wire, without listing the pairs.

Where a link's removal parts the ranks into p and N - p, each direction carries p (N - p) blocks of an all-to-all. In a
tree of switches every link is such a cut, and the fullest sets the time; otherwise the links that leave a host, taken
together, are one, and what is found is a lower bound.
"""

from __future__ import annotations

import numpy as np

from busbw.core.topology import Floats, Ints, Topology
from busbw.sim.patterns import Pattern
from busbw.sim.wires import NO_WIRE, Step, Wires


def all_pairs_step(wires: Wires, pattern: Pattern, size_bytes: float) -> Step:
    """One of the `times` steps in which every rank sends share[0] of S to every other once."""
    topology = wires.topology
    block = float(pattern.share[0]) * size_bytes + topology.costs.half_rate_bytes
    steps = pattern.times
    resource, seconds, exact = busiest_cut(topology, block)
    found = wires.routes(pattern)
    far = _longest_latency(wires, len(topology.ranks))
    latency = max(far, float(found.latency_s.max()))
    reduce_s = topology.costs.reduce_s_per_byte * float(pattern.share[0]) * size_bytes if pattern.reduces.any() else 0.0
    note = "" if exact else "bytes across cuts: a lower bound, which wires shared unevenly do not reach"
    return Step(latency + seconds / steps + reduce_s, latency, reduce_s, resource, True, note)


def _longest_latency(wires: Wires, world_size: int) -> float:
    """Of a sample of pairs: shifts by powers of two and half of the ranks."""
    ranks = np.unique(np.linspace(0, world_size - 1, 64).astype(np.int64))
    shifts = [1 << k for k in range(max(world_size.bit_length() - 1, 1))]
    source = np.tile(ranks, len(shifts))
    target = (source + np.repeat(shifts, len(ranks))) % world_size
    found = wires.topology.routes(source, target)
    return float(found.latency_s.max()) + wires.topology.costs.message_s


def busiest_cut(topology: Topology, block_bytes: float) -> tuple[int, float, bool]:
    """(resource, seconds, whether every link is a cut): the cut that all pairs of ranks need longest."""
    behind = _ranks_behind(topology)
    n = topology.world_size
    is_bridge = behind >= 0
    crossing = np.where(is_bridge, behind * (n - behind), 0).astype(np.float64) * block_bytes
    capacities = topology.capacities()
    links = topology.link_count
    seconds = np.concatenate([np.repeat(crossing, 2), 2 * crossing]) / capacities
    best = int(np.argmax(seconds)) if len(seconds) else NO_WIRE
    most = float(seconds[best]) if best >= 0 else 0.0
    carries = is_bridge | ~_between_ranks(topology, links)
    if not carries.all():
        resource, longest = _host_cut(topology, block_bytes)
        if longest > most:
            best, most = resource, longest
    return best, most, bool(carries.all())


def _between_ranks(topology: Topology, links: int) -> np.ndarray:
    """Links that may carry traffic: all but those to a memory, a dead end for anything direct."""
    from busbw.core.topology import LINK_KINDS

    return np.asarray(topology.link_kind != LINK_KINDS.index("memory"))


def _host_cut(topology: Topology, block_bytes: float) -> tuple[int, float]:
    """The host whose links to the outside, taken together, need longest; its first such link stands for them."""
    n = topology.world_size
    host_a, host_b = topology.device_host[topology.link_a], topology.device_host[topology.link_b]
    count = len(topology.hosts)
    ranks = topology.device_host[topology.ranks]
    inside = np.bincount(ranks[ranks >= 0], minlength=count).astype(np.float64)
    crossing = inside * (n - inside) * block_bytes
    out, into = np.zeros(count), np.zeros(count)
    leaves = host_a != host_b
    forward, backward = topology.forward_Bps, topology.backward_Bps
    for ends, leaving, coming in ((host_a, forward, backward), (host_b, backward, forward)):
        mine = leaves & (ends >= 0)
        out += np.bincount(ends[mine], leaving[mine], minlength=count)
        into += np.bincount(ends[mine], coming[mine], minlength=count)
    with np.errstate(divide="ignore", invalid="ignore"):
        slower = np.minimum(out, into)  # as many bytes come in as go out
        seconds = np.where((slower > 0) & (inside > 0), crossing / slower, 0.0)
    if not len(seconds) or not seconds.max() > 0:
        return NO_WIRE, 0.0
    host = int(np.argmax(seconds))
    link = int(np.flatnonzero(leaves & ((host_a == host) | (host_b == host)))[0])
    is_outward = out[host] <= into[host]
    return 2 * link + int((host_a[link] == host) != is_outward), float(seconds[host])


def _ranks_behind(topology: Topology) -> Ints:
    """[links] ranks on one side of each link whose removal parts the machine; -1 for the others."""
    devices, links = topology.device_count, topology.link_count
    degree = np.bincount(np.concatenate([topology.link_a, topology.link_b]), minlength=devices)
    offsets = np.concatenate([[0], np.cumsum(degree)])
    ends = np.concatenate([topology.link_a, topology.link_b]).astype(np.int64)
    others = np.concatenate([topology.link_b, topology.link_a]).astype(np.int64)
    order = np.argsort(ends, kind="stable")
    neighbour, by_link = others[order], np.tile(np.arange(links), 2)[order]
    weight = np.bincount(topology.ranks, minlength=devices).astype(np.int64)
    return _bridges(offsets.tolist(), neighbour.tolist(), by_link.tolist(), weight, links, int(topology.ranks[0]))


def _bridges(offsets: list[int], neighbour: list[int], by_link: list[int], weight: Ints, links: int, root: int) -> Ints:
    """Bridges by depth-first search (Tarjan 1974), with the weight of the part below each."""
    behind = np.full(links, -1, np.int64)
    below = weight.tolist()
    order = [-1] * (len(offsets) - 1)
    low = [0] * len(order)
    at = list(offsets[:-1])
    came = [-1] * len(order)
    parent = [-1] * len(order)
    order[root] = count = 0
    stack = [root]
    while stack:
        here = stack[-1]
        if at[here] < offsets[here + 1]:
            entry = at[here]
            at[here] += 1
            there, link = neighbour[entry], by_link[entry]
            if link == came[here]:
                continue
            if order[there] >= 0:
                low[here] = min(low[here], order[there])
                continue
            count += 1
            order[there] = low[there] = count
            came[there], parent[there] = link, here
            stack.append(there)
            continue
        stack.pop()
        above = parent[here]
        if above >= 0:
            below[above] += below[here]
            low[above] = min(low[above], low[here])
            if low[here] > order[above]:
                behind[came[here]] = below[here]
    return behind


def cut_bound_s(topology: Topology, crossing_bytes: Floats) -> float:
    """Seconds that no schedule can beat, where each link that parts the ranks must carry `crossing_bytes` [links] one way."""
    behind = _ranks_behind(topology)
    is_cut = (behind > 0) & (behind < topology.world_size)
    if not is_cut.any():
        return 0.0
    slower = np.minimum(topology.forward_Bps, topology.backward_Bps)
    return float((crossing_bytes[is_cut] / slower[is_cut]).max())
