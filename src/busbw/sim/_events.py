"""The loop of the finest rung, compiled where numba is installed: messages begin, share wires, end, and let others begin.

Rates are max-min fair. They are found anew only for connections that share a wire, directly or through others, with
one that has just begun or ended: max-min fairness of separate sets of wires is separate. Events that are due together
are taken together.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from busbw.core.schedule import Ints
from busbw.core.topology import Floats
from busbw.sim.compiled import compiled


@compiled
def run_events(
    connection: Ints,
    of_source: Ints,
    of_target: Ints,
    turn_size: Ints,
    turn_then: Ints,
    turn_offsets: Ints,
    turn_members: Ints,
    amount: Floats,
    reduce_s: Floats,
    target: Ints,
    waits: Ints,
    start_offsets: Ints,
    start_next: Ints,
    end_waits: Ints,
    end_offsets: Ints,
    end_next: Ints,
    offsets: Ints,
    resources: Ints,
    alpha_s: Floats,
    capacity: Floats,
    targets: int,
) -> Any:
    """(start, end, done, cause, remaining) of every message.

    cause: the message that let it begin, or -1; 2 x message + 1 where that one's data did, 2 x message where that one
    ended a turn of its source or target. remaining: messages that never began.
    """
    count = len(connection)
    connections = len(offsets) - 1
    start = np.full(count, np.nan)
    end = np.full(count, np.nan)
    done = np.full(count, np.nan)
    cause = np.full(count, -1, np.int64)
    waiting = waits.copy()
    end_waiting = end_waits.copy()
    added = np.zeros(count, np.bool_)
    turn_left = turn_size.copy()
    busy = np.zeros(targets)

    current = np.full(connections, -1, np.int64)
    left = np.zeros(connections)
    rate = np.zeros(connections)
    since = np.zeros(connections)
    version = np.zeros(connections, np.int64)
    # Doubly linked lists: the entries of running connections on each resource.
    head = np.full(len(capacity), -1, np.int64)
    after = np.full(len(resources), -1, np.int64)
    before = np.full(len(resources), -1, np.int64)
    owner = np.empty(len(resources), np.int64)
    for each in range(connections):
        for entry in range(offsets[each], offsets[each + 1]):
            owner[entry] = each

    in_part = np.zeros(connections, np.bool_)
    resource_in = np.zeros(len(capacity), np.bool_)
    budget = np.zeros(len(capacity))
    load = np.zeros(len(capacity), np.int64)
    part = np.empty(connections, np.int64)
    wires = np.empty(len(capacity), np.int64)
    fixed = np.zeros(connections, np.bool_)

    heap = [(0.0, 0, 0, 0) for _ in range(0)]
    for message in range(count):
        if waiting[message] == 0:
            heap.append((0.0, 0, message, 0))
    heapq.heapify(heap)
    finished = 0
    while len(heap) > 0:
        now = heap[0][0]
        limit = now + now * 1e-11  # what is due together, but for rounding
        wire_count = 0
        while len(heap) > 0 and heap[0][0] <= limit:
            _at, kind, which, number = heapq.heappop(heap)
            if kind == 0:  # begin
                start[which] = now
                here = connection[which]
                current[here] = which
                left[here] = amount[which]
                rate[here] = 0.0
                since[here] = now
                version[here] += 1
                if offsets[here] == offsets[here + 1] or amount[which] <= 0:
                    heapq.heappush(heap, (now, 2, here, version[here]))
                for entry in range(offsets[here], offsets[here + 1]):
                    resource = resources[entry]
                    before[entry] = -1
                    after[entry] = head[resource]
                    if head[resource] >= 0:
                        before[head[resource]] = entry
                    head[resource] = entry
                    if not resource_in[resource]:
                        resource_in[resource] = True
                        wires[wire_count] = resource
                        wire_count += 1
            elif kind == 2:  # the last byte has left; which: the connection
                if number != version[which]:
                    continue
                version[which] += 1
                message = current[which]
                current[which] = -1
                heapq.heappush(heap, (now + alpha_s[which], 1, message, 0))
                for entry in range(offsets[which], offsets[which + 1]):
                    resource = resources[entry]
                    if before[entry] >= 0:
                        after[before[entry]] = after[entry]
                    else:
                        head[resource] = after[entry]
                    if after[entry] >= 0:
                        before[after[entry]] = before[entry]
                    if not resource_in[resource]:
                        resource_in[resource] = True
                        wires[wire_count] = resource
                        wire_count += 1
                for side in range(2):
                    turn = of_source[message] if side == 0 else of_target[message]
                    if turn < 0:
                        continue
                    turn_left[turn] -= 1
                    if turn_left[turn] > 0 or turn_then[turn] < 0:
                        continue
                    for place in range(turn_offsets[turn_then[turn]], turn_offsets[turn_then[turn] + 1]):
                        then = turn_members[place]
                        waiting[then] -= 1
                        if waiting[then] == 0:
                            cause[then] = 2 * message
                            heapq.heappush(heap, (now, 0, then, 0))
            elif kind == 1:  # the last byte has arrived
                end[which] = now
                ready = now
                if reduce_s[which] > 0:  # a rank adds one message after the other, as they arrive
                    ready = max(now, busy[target[which]]) + reduce_s[which]
                    busy[target[which]] = ready
                heapq.heappush(heap, (ready, 4, which, 0))
            elif kind == 4:  # added, where it is added
                added[which] = True
                if end_waiting[which] == 0:
                    heapq.heappush(heap, (now, 3, which, 0))
            else:  # what it brought counts
                done[which] = now
                finished += 1
                for place in range(start_offsets[which], start_offsets[which + 1]):
                    then = start_next[place]
                    waiting[then] -= 1
                    if waiting[then] == 0:
                        cause[then] = 2 * which + 1
                        heapq.heappush(heap, (now, 0, then, 0))
                for place in range(end_offsets[which], end_offsets[which + 1]):
                    then = end_next[place]
                    end_waiting[then] -= 1
                    if end_waiting[then] == 0 and added[then]:
                        heapq.heappush(heap, (now, 3, then, 0))
        if wire_count == 0:
            continue
        # The connections that share wires with those that changed, directly or through others.
        part_count = 0
        at_wire = 0
        while at_wire < wire_count:
            resource = wires[at_wire]
            at_wire += 1
            entry = head[resource]
            budget[resource] = capacity[resource]
            load[resource] = 0
            while entry >= 0:
                load[resource] += 1
                here = owner[entry]
                if not in_part[here]:
                    in_part[here] = True
                    part[part_count] = here
                    part_count += 1
                    for other in range(offsets[here], offsets[here + 1]):
                        if not resource_in[resources[other]]:
                            resource_in[resources[other]] = True
                            wires[wire_count] = resources[other]
                            wire_count += 1
                entry = after[entry]
        shares = [(0.0, 0) for _ in range(0)]
        for k in range(wire_count):
            resource = wires[k]
            resource_in[resource] = False
            if load[resource] > 0:
                shares.append((budget[resource] / load[resource], resource))
        heapq.heapify(shares)
        while len(shares) > 0:
            share, resource = heapq.heappop(shares)
            if load[resource] == 0:
                continue
            fair = max(budget[resource], 0.0) / load[resource]
            if fair > share * (1 + 1e-14):
                heapq.heappush(shares, (fair, resource))
                continue
            entry = head[resource]
            while entry >= 0:
                here = owner[entry]
                if not fixed[here]:
                    fixed[here] = True
                    if rate[here] != share:
                        left[here] = max(left[here] - rate[here] * (now - since[here]), 0.0)
                        since[here] = now
                        rate[here] = share
                        version[here] += 1
                        heapq.heappush(heap, (now + left[here] / share, 2, here, version[here]))
                    for other in range(offsets[here], offsets[here + 1]):
                        budget[resources[other]] -= share
                        load[resources[other]] -= 1
                entry = after[entry]
        for k in range(part_count):
            in_part[part[k]] = False
            fixed[part[k]] = False
    return start, end, done, cause, count - finished
