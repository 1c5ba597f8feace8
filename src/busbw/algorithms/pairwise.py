"""pairwise: N-1 steps; in step t rank r sends to rank r + t and receives from rank r - t, one shard.

MPICH's and Open MPI's pairwise exchange for long messages (Thakur, Rabenseifner & Gropp 2005). Every pair talks
directly and each rank has one partner a step each way. The rooted collectives are the linear ones: the root serves one
rank after the other.
"""

from __future__ import annotations

import numpy as np

from busbw.algorithms._patterns import every_pair, one_by_one
from busbw.core.schedule import Algorithm, Ints, Phase, Schedule


def scattering(world_size: int) -> Phase:
    """Each rank sends every other its shard, to be added there."""
    return every_pair(world_size, lambda source, target: (target, target), reduces=True, label="reduce-scatter")


def gathering(world_size: int) -> Phase:
    """Each rank sends its own shard to every other."""
    return every_pair(world_size, lambda source, target: (source, source), reduces=False, label="all-gather")


def reduce_scatter(world_size: int, *, root: int = 0) -> Schedule:
    """N-1 steps of one shard."""
    return Schedule("pairwise", "reduce_scatter", world_size, world_size, (scattering(world_size),))


def all_gather(world_size: int, *, root: int = 0) -> Schedule:
    """N-1 steps of one shard."""
    return Schedule("pairwise", "all_gather", world_size, world_size, (gathering(world_size),))


def all_reduce(world_size: int, *, root: int = 0) -> Schedule:
    """Reduce-scatter, then all-gather."""
    phases = (scattering(world_size), gathering(world_size))
    return Schedule("pairwise", "all_reduce", world_size, world_size, phases)


def all_to_all(world_size: int, *, root: int = 0) -> Schedule:
    """N-1 steps of one shard; what a rank keeps is copied in the first."""
    phase = every_pair(
        world_size,
        lambda source, target: (target, world_size + source),
        reduces=False,
        label="all-to-all",
        keep=lambda rank: (rank, world_size + rank),
    )
    return Schedule("pairwise", "all_to_all", world_size, world_size, (phase,))


def _others(world_size: int, root: int) -> Ints:
    return (root + 1 + np.arange(world_size - 1)) % world_size


def _linear(collective: str, world_size: int, root: int, chunks: int) -> Schedule:
    others = _others(world_size, root)
    roots = np.full(world_size - 1, root)
    outward = collective in ("broadcast", "scatter")
    slot = others if chunks > 1 else np.zeros(world_size - 1, np.int64)
    phase = one_by_one(
        roots if outward else others,
        others if outward else roots,
        slot,
        reduces=collective == "reduce",
        label=collective,
    )
    return Schedule("pairwise", collective, world_size, chunks, (phase,), root=root)


def broadcast(world_size: int, *, root: int = 0) -> Schedule:
    """The root sends the tensor to each other rank in turn."""
    return _linear("broadcast", world_size, root, 1)


def reduce(world_size: int, *, root: int = 0) -> Schedule:
    """The root receives and adds each other rank's tensor in turn."""
    return _linear("reduce", world_size, root, 1)


def scatter(world_size: int, *, root: int = 0) -> Schedule:
    """The root sends each other rank its shard in turn."""
    return _linear("scatter", world_size, root, world_size)


def gather(world_size: int, *, root: int = 0) -> Schedule:
    """The root receives each other rank's shard in turn."""
    return _linear("gather", world_size, root, world_size)


ALGORITHM = Algorithm(
    name="pairwise",
    summary="N-1 steps; in each, every rank sends one shard straight to another partner. Rooted: one after the other.",
    source="Thakur, Rabenseifner & Gropp 2005",
    builders={
        "all_to_all": all_to_all,
        "all_gather": all_gather,
        "reduce_scatter": reduce_scatter,
        "all_reduce": all_reduce,
        "broadcast": broadcast,
        "reduce": reduce,
        "scatter": scatter,
        "gather": gather,
    },
)
