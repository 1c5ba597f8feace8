"""Max-min fair rates: who gets how much of the wires that many flows share.

A resource's fair share is its capacity over the flows on it. The smallest share anywhere is what the flows on that
resource get; they are taken out, with what they use of other resources, and the rest is shared among the rest
(Bertsekas & Gallager, Data Networks, 6.5.2). Shares only rise as flows are taken out, which both forms below use:

- compiled, a heap of resources by share; one that has risen since it was put there is put back (lazy water-filling);
- in numpy, all resources that no flow on them can better elsewhere are done at once.

They agree to rounding.
"""

from __future__ import annotations

import heapq

import numpy as np

from busbw.core.topology import Floats, Ints
from busbw.sim.compiled import compiled, has_numba

SMALL = 4000
"""Entries of a table below which numpy is quicker than waiting for compiled code."""


def max_min(offsets: Ints, resources: Ints, capacities: Floats, caps: Floats) -> Floats:
    """[flows] bytes a second of each flow; inf for one that loads nothing and has no cap.

    Flow i loads resources[offsets[i]:offsets[i + 1]] (one that stands there twice, twice), and gets at most caps[i].
    """
    flows = len(offsets) - 1
    if flows == 0:
        return np.zeros(0)
    used, local = _relabel(resources, len(capacities))
    if np.isfinite(caps).any():  # a cap is a resource of its own
        limited = np.flatnonzero(np.isfinite(caps))
        owner = np.concatenate([_owner(offsets), limited])
        local = np.concatenate([local, len(used) + np.arange(len(limited))])
        order = np.argsort(owner, kind="stable")
        local, owner = local[order], owner[order]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=flows))]).astype(np.int64)
        capacity = np.concatenate([capacities[used], caps[limited]])
    else:
        capacity = capacities[used]
    if len(local) > SMALL and has_numba():
        by_resource = np.argsort(local, kind="stable")
        flow_of = _owner(offsets)[by_resource]
        starts = np.concatenate([[0], np.cumsum(np.bincount(local, minlength=len(capacity)))]).astype(np.int64)
        rates: Floats = _fill(offsets, local, starts, flow_of, capacity)
        return rates
    return max_min_numpy(offsets, local, capacity)


def _owner(offsets: Ints) -> Ints:
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def _relabel(resources: Ints, count: int) -> tuple[Ints, Ints]:
    """The resources that are used, and each entry's place among them."""
    is_used = np.zeros(count, np.bool_)
    is_used[resources] = True
    used = np.flatnonzero(is_used)
    place = np.empty(count, np.int64)
    place[used] = np.arange(len(used))
    return used, place[resources]


def max_min_numpy(offsets: Ints, resources: Ints, capacity: Floats) -> Floats:
    """As `max_min`, without caps, resources numbered without gaps."""
    flows = len(offsets) - 1
    rates = np.full(flows, np.inf)
    owner = _owner(offsets)
    left = capacity.astype(np.float64, copy=True)
    waiting = np.bincount(owner, minlength=flows) > 0
    entry = waiting[owner]
    while entry.any():
        owner, resources = owner[entry], resources[entry]
        load = np.bincount(resources, minlength=len(left))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(load > 0, left / load, np.inf)
        least = np.full(flows, np.inf)
        np.minimum.at(least, owner, share[resources])
        # A resource is done when it is the tightest of every flow on it.
        bettered = np.zeros(len(left), np.bool_)
        bettered[resources[least[owner] < share[resources] * (1 - 1e-12)]] = True
        done = np.zeros(flows, np.bool_)
        done[owner[~bettered[resources]]] = True
        taken = done[owner]
        rates[done] = least[done]
        left -= np.bincount(resources[taken], least[owner[taken]], minlength=len(left))
        np.maximum(left, 0.0, out=left)
        entry = ~taken
    return rates


@compiled
def _fill(offsets: Ints, resources: Ints, starts: Ints, flow_of: Ints, capacity: Floats) -> Floats:
    """Lazy water-filling over both directions of the table: flow -> resources, resource -> flows."""
    flows = len(offsets) - 1
    count = len(capacity)
    rates = np.full(flows, np.inf)
    left = capacity.copy()
    load = np.zeros(count, np.int64)
    for entry in range(len(resources)):
        load[resources[entry]] += 1
    heap = [(0.0, 0) for _ in range(0)]
    for resource in range(count):
        if load[resource] > 0:
            heap.append((left[resource] / load[resource], resource))
    heapq.heapify(heap)
    done = np.zeros(flows, np.bool_)
    while len(heap) > 0:
        share, resource = heapq.heappop(heap)
        if load[resource] == 0:
            continue
        now = max(left[resource], 0.0) / load[resource]
        if now > share * (1 + 1e-14):
            heapq.heappush(heap, (now, resource))
            continue
        for entry in range(starts[resource], starts[resource + 1]):
            flow = flow_of[entry]
            if done[flow]:
                continue
            done[flow] = True
            rates[flow] = share
            for other in range(offsets[flow], offsets[flow + 1]):
                left[resources[other]] -= share
                load[resources[other]] -= 1
    return rates
