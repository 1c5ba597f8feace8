"""ring: each rank sends to the next one and receives from the one before, one chunk of S/N a step.

Patarasu & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009): N-1 reduce-scatter
steps, then N-1 all-gather steps, 2(N-1)/N S sent by each rank. Broadcast and reduce are a pipeline of chunks along the
ring, cut open at the root, as in NCCL; scatter and gather pass shards along it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from busbw.algorithms._patterns import chain, constant, order_of, ring_pass, whole_number
from busbw.core.schedule import Algorithm, Ints, Phase, Schedule

Order = Sequence[int] | None


def _schedule(
    collective: str, world_size: int, phases: tuple[Phase, ...], order: Order, root: int = 0, chunks: int = 0
) -> Schedule:
    options: dict[str, Any] = {} if order is None else {"order": tuple(order)}
    if chunks:
        options["chunks"] = chunks
    return Schedule("ring", collective, world_size, chunks or world_size, phases, root=root, options=options)


def scattering(ring: Ints) -> Phase:
    """The chunk that ends on a rank starts at the one after it, and collects all the others' on its way."""
    return ring_pass(ring[None], ring[None], 1, lag=1, reduces=True, label="reduce-scatter")


def gathering(ring: Ints) -> Phase:
    """Each rank passes on what it received in the step before, its own chunk first."""
    return ring_pass(ring[None], ring[None], 1, lag=0, reduces=False, label="all-gather")


def reduce_scatter(world_size: int, *, root: int = 0, order: Order = None) -> Schedule:
    """N-1 steps of one shard."""
    return _schedule("reduce_scatter", world_size, (scattering(order_of(world_size, order)),), order)


def all_gather(world_size: int, *, root: int = 0, order: Order = None) -> Schedule:
    """N-1 steps of one shard."""
    return _schedule("all_gather", world_size, (gathering(order_of(world_size, order)),), order)


def all_reduce(world_size: int, *, root: int = 0, order: Order = None) -> Schedule:
    """Reduce-scatter, then all-gather."""
    ring = order_of(world_size, order)
    return _schedule("all_reduce", world_size, (scattering(ring), gathering(ring)), order)


def _from_root(world_size: int, order: Order, root: int) -> Ints:
    ring = order_of(world_size, order)
    return np.roll(ring, -int(np.flatnonzero(ring == root)[0]))


def default_chunks(world_size: int) -> int:
    """Four times the steps in which a chain of N ranks fills: a fifth of the steps do not use every link."""
    return max(4 * (world_size - 2), 1)


def broadcast(world_size: int, *, root: int = 0, order: Order = None, chunks: int | None = None) -> Schedule:
    """A pipeline from the root along the ring; its last rank sends nothing."""
    count = default_chunks(world_size) if chunks is None else whole_number("chunks", chunks)
    phase = chain(_from_root(world_size, order, root), count, reduces=False, label="broadcast")
    return _schedule("broadcast", world_size, (phase,), order, root, count)


def reduce(world_size: int, *, root: int = 0, order: Order = None, chunks: int | None = None) -> Schedule:
    """A pipeline of partial sums from the rank after the root, around the ring to the root."""
    count = default_chunks(world_size) if chunks is None else whole_number("chunks", chunks)
    phase = chain(np.roll(_from_root(world_size, order, root), -1), count, reduces=True, label="reduce")
    return _schedule("reduce", world_size, (phase,), order, root, count)


def scatter(world_size: int, *, root: int = 0, order: Order = None) -> Schedule:
    """The root sends the farthest rank's shard first; each rank passes on all but its own."""
    ring = _from_root(world_size, order, root)
    position = np.arange(world_size - 1)

    def slots(step: int) -> tuple[Ints, Ints]:
        shard = ring[(world_size - 1 - step + position) % world_size]
        return shard, shard

    phase = Phase(
        ring[:-1],
        ring[1:],
        constant(1, position),
        False,
        slots,
        times=world_size - 1,
        label="scatter",
        begin=position,
    )
    return _schedule("scatter", world_size, (phase,), order, root)


def gather(world_size: int, *, root: int = 0, order: Order = None) -> Schedule:
    """Each rank sends its own shard on, then those of the ranks before it; the root is the ring's end."""
    ring = _from_root(world_size, order, root)
    position = np.arange(1, world_size)

    def slots(step: int) -> tuple[Ints, Ints]:
        shard = ring[(position - step) % world_size]
        return shard, shard

    phase = Phase(
        ring[1:],
        np.roll(ring, -1)[1:],
        constant(1, position),
        False,
        slots,
        times=world_size - 1,
        label="gather",
        end=position,
    )
    return _schedule("gather", world_size, (phase,), order, root)


ALGORITHM = Algorithm(
    name="ring",
    summary="Each rank sends to the next: N-1 steps to reduce-scatter, N-1 to all-gather, S/N bytes a step.",
    source="Patarasu & Yuan 2009; broadcast and reduce as NCCL's ring",
    builders={
        "reduce_scatter": reduce_scatter,
        "all_gather": all_gather,
        "all_reduce": all_reduce,
        "broadcast": broadcast,
        "reduce": reduce,
        "scatter": scatter,
        "gather": gather,
    },
    options={
        "order": "the ranks in the order of the ring (default: 0-1-2-...)",
        "chunks": "broadcast and reduce: pieces that follow each other down the ring (default: 4(N-2))",
    },
)
