"""bruck: ceil(log2 N) rounds for any N, no power of two needed.

Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for all-to-all communications in multiport message-passing
systems" (1997). All-gather: in round k each rank gets from the rank 2^k after it all shards that this one has.
Reduce-scatter is the same backwards in time; all-reduce is one and then the other. All-to-all: a block that must
travel j ranks goes 2^k further in each round in which j has bit k, so each rank sends about S/2 in each round.
"""

from __future__ import annotations

import numpy as np

from busbw.algorithms._patterns import constant, joined, once, wrapped
from busbw.core.schedule import Algorithm, Ints, Phase, Round, Schedule, no_slots


def _steps(world_size: int) -> list[tuple[int, int]]:
    """Distance and shards of each round of the all-gather."""
    distances = [1 << k for k in range((world_size - 1).bit_length())]
    return [(distance, min(distance, world_size - distance)) for distance in distances]


def _gathering(world_size: int) -> tuple[Phase, ...]:
    ranks = np.arange(world_size)
    return tuple(
        once(*wrapped(ranks, (ranks - far) % world_size, ranks, constant(many, ranks), world_size), label="all-gather")
        for far, many in _steps(world_size)
    )


def _scattering(world_size: int) -> tuple[Phase, ...]:
    ranks = np.arange(world_size)
    phases = []
    for far, many in reversed(_steps(world_size)):
        runs = wrapped(ranks, (ranks + far) % world_size, ranks + far, constant(many, ranks), world_size)
        phases.append(once(*runs, reduces=True, label="reduce-scatter"))
    return tuple(phases)


def all_gather(world_size: int, *, root: int = 0) -> Schedule:
    """1, 2, 4, ... shards in a round."""
    return Schedule("bruck", "all_gather", world_size, world_size, _gathering(world_size))


def reduce_scatter(world_size: int, *, root: int = 0) -> Schedule:
    """The all-gather backwards: ..., 4, 2, 1 partial sums in a round."""
    return Schedule("bruck", "reduce_scatter", world_size, world_size, _scattering(world_size))


def all_reduce(world_size: int, *, root: int = 0) -> Schedule:
    """Reduce-scatter, then all-gather: 2 ceil(log2 N) rounds and 2(N-1)/N S at any N."""
    phases = _scattering(world_size) + _gathering(world_size)
    return Schedule("bruck", "all_reduce", world_size, world_size, phases)


def all_to_all(world_size: int, *, root: int = 0) -> Schedule:
    """Blocks under way lie in scratch slots 2N + j, where j is how far they travel in all."""
    n = world_size
    ranks = np.arange(n)
    phases = []
    for k in range((n - 1).bit_length()):
        far = 1 << k
        count = int(np.count_nonzero(ranks & far))

        def detail(repetition: int, far: int = far) -> Round:
            block = ranks[(ranks & far) > 0]
            source = np.repeat(ranks, len(block))
            block = np.tile(block, n)
            target = (source + far) % n
            started = block % far > 0  # it has bits below this one: it has moved before
            arrives = block < 2 * far  # no bits above: this is its last hop
            origin = (source - block % far) % n
            source_slot = np.where(started, 2 * n + block, (source + block) % n)
            target_slot = np.where(arrives, n + origin, 2 * n + block)
            sent = Round(source, target, source_slot, target_slot, constant(1, source), np.zeros(len(source), np.bool_))
            return joined(sent, _kept(ranks)) if far == 1 else sent

        phases.append(
            Phase(ranks, (ranks + far) % n, constant(count, ranks), False, no_slots, label="all-to-all", detail=detail)
        )
    return Schedule("bruck", "all_to_all", n, n, tuple(phases), slots=3 * n)


def _kept(ranks: Ints) -> Round:
    """What each rank keeps, from its input to its output."""
    return Round(ranks, ranks, ranks, len(ranks) + ranks, constant(1, ranks), np.zeros(len(ranks), np.bool_))


ALGORITHM = Algorithm(
    name="bruck",
    summary="ceil(log2 N) rounds at any N: 1, 2, 4, ... shards; all-to-all sends about S/2 in each.",
    source="Bruck et al. 1997",
    builders={
        "all_gather": all_gather,
        "reduce_scatter": reduce_scatter,
        "all_reduce": all_reduce,
        "all_to_all": all_to_all,
    },
)
