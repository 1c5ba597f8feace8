"""ring: each rank sends to the next one and receives from the one before, one chunk of S/N a step.

Patarasu & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009): N-1 reduce-scatter
steps, then N-1 all-gather steps, 2(N-1)/N S sent by each rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from busbw.core.schedule import Algorithm, Ints, Phase, Schedule
from busbw.errors import UsageError


def order_of(world_size: int, order: Sequence[int] | None) -> Ints:
    """The ranks in the order of the ring; UsageError when it is not each of them once."""
    ranks = np.arange(world_size) if order is None else np.asarray(order, np.int64)
    if sorted(ranks.tolist()) != list(range(world_size)):
        raise UsageError(f"order {list(ranks.tolist())}: it must have each rank from 0 to {world_size - 1} once")
    return ranks.astype(np.int64)


def _pass(ring: Ints, *, first_lag: int, reduces: bool, label: str) -> Phase:
    """N-1 steps around the ring: in step t the rank at position p sends the chunk of position p - first_lag - t."""
    world_size = len(ring)
    position = np.arange(world_size)

    def slots(step: int) -> tuple[Ints, Ints]:
        chunk = ring[(position - first_lag - step) % world_size]
        return chunk, chunk

    return Phase(
        source=ring,
        target=np.roll(ring, -1),
        length=np.ones(world_size, np.int64),
        reduces=reduces,
        slots=slots,
        times=world_size - 1,
        label=label,
    )


def _schedule(collective: str, world_size: int, phases: tuple[Phase, ...], order: Sequence[int] | None) -> Schedule:
    options: dict[str, Any] = {} if order is None else {"order": tuple(order)}
    return Schedule("ring", collective, world_size, world_size, phases, options=options)


def reduce_scatter(world_size: int, *, root: int = 0, order: Sequence[int] | None = None) -> Schedule:
    """The chunk that ends on a rank starts at the one after it, and collects all the others' on its way."""
    ring = order_of(world_size, order)
    phase = _pass(ring, first_lag=1, reduces=True, label="reduce-scatter")
    return _schedule("reduce_scatter", world_size, (phase,), order)


def all_gather(world_size: int, *, root: int = 0, order: Sequence[int] | None = None) -> Schedule:
    """Each rank passes on what it received in the step before, its own chunk first."""
    ring = order_of(world_size, order)
    phase = _pass(ring, first_lag=0, reduces=False, label="all-gather")
    return _schedule("all_gather", world_size, (phase,), order)


def all_reduce(world_size: int, *, root: int = 0, order: Sequence[int] | None = None) -> Schedule:
    """Reduce-scatter, then all-gather."""
    ring = order_of(world_size, order)
    phases = (
        _pass(ring, first_lag=1, reduces=True, label="reduce-scatter"),
        _pass(ring, first_lag=0, reduces=False, label="all-gather"),
    )
    return _schedule("all_reduce", world_size, phases, order)


ALGORITHM = Algorithm(
    name="ring",
    summary="Each rank sends to the next: N-1 steps to reduce-scatter, N-1 to all-gather, S/N bytes a step.",
    source="Patarasu & Yuan 2009",
    builders={"reduce_scatter": reduce_scatter, "all_gather": all_gather, "all_reduce": all_reduce},
    options={"order": "the ranks in the order of the ring (default: 0, 1, 2, ...)"},
)
