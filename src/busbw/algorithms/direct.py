"""direct: everything at once, straight to where it belongs, in one round (all-reduce: two).

What NCCL does for scatter, gather and all-to-all (grouped sends and receives), and MSCCL's all-pairs for small
all-reduces. The fewest rounds, and the most traffic that meets on a wire.
"""

from __future__ import annotations

import numpy as np

from busbw.algorithms._patterns import constant, every_pair, joined, once
from busbw.core.schedule import Algorithm, Ints, Phase, Round, Schedule, no_slots

MOST_RANKS = 1024
"""Above it one round of all pairs has more than a million transfers; `pairwise` has the same traffic in N-1 steps."""


def _pairs(world_size: int) -> tuple[Ints, Ints]:
    ranks = np.arange(world_size)
    shift = np.arange(1, world_size)
    source = np.repeat(ranks, world_size - 1)
    return source, (source + np.tile(shift, world_size)) % world_size


def scattering(world_size: int) -> Phase:
    """Each rank sends every other its shard, to be added there."""
    source, target = _pairs(world_size)
    return once(source, target, target, reduces=True, label="reduce-scatter")


def gathering(world_size: int) -> Phase:
    """Each rank sends its own shard to every other."""
    source, target = _pairs(world_size)
    return once(source, target, source, label="all-gather")


def reduce_scatter(world_size: int, *, root: int = 0) -> Schedule:
    """All shards to their ranks at once, which add them up."""
    return Schedule("direct", "reduce_scatter", world_size, world_size, (scattering(world_size),))


def all_gather(world_size: int, *, root: int = 0) -> Schedule:
    """Each shard to all others at once."""
    return Schedule("direct", "all_gather", world_size, world_size, (gathering(world_size),))


def all_reduce(world_size: int, *, root: int = 0) -> Schedule:
    """Reduce-scatter in one round, all-gather in another."""
    phases = (scattering(world_size), gathering(world_size))
    return Schedule("direct", "all_reduce", world_size, world_size, phases)


def all_to_all(world_size: int, *, root: int = 0) -> Schedule:
    """All blocks at once; what a rank keeps is copied."""
    source, target = _pairs(world_size)
    steps = every_pair(
        world_size,
        lambda source, target: (target, world_size + source),
        reduces=False,
        label="",
        keep=lambda rank: (rank, world_size + rank),
    )

    def detail(repetition: int) -> Round:
        return joined(*(steps.round(step) for step in range(world_size - 1)))

    phase = Phase(source, target, constant(1, source), False, no_slots, label="all-to-all", detail=detail)
    return Schedule("direct", "all_to_all", world_size, world_size, (phase,))


def at_root(collective: str, world_size: int, root: int, label: str = "") -> tuple[int, Phase]:
    """Chunks and the one round of a rooted collective between the root and all others."""
    others = np.delete(np.arange(world_size), root)
    roots = constant(root, others)
    sharded = collective in ("scatter", "gather")
    outward = collective in ("broadcast", "scatter")
    slot = others if sharded else constant(0, others)
    phase = once(
        roots if outward else others,
        others if outward else roots,
        slot,
        reduces=collective == "reduce",
        label=label or collective,
    )
    return world_size if sharded else 1, phase


def _rooted(collective: str, world_size: int, root: int) -> Schedule:
    chunks, phase = at_root(collective, world_size, root)
    return Schedule("direct", collective, world_size, chunks, (phase,), root=root)


def broadcast(world_size: int, *, root: int = 0) -> Schedule:
    """The root sends the tensor to all others at once."""
    return _rooted("broadcast", world_size, root)


def reduce(world_size: int, *, root: int = 0) -> Schedule:
    """The root receives all tensors at once and adds them up."""
    return _rooted("reduce", world_size, root)


def scatter(world_size: int, *, root: int = 0) -> Schedule:
    """The root sends every other rank its shard at once."""
    return _rooted("scatter", world_size, root)


def gather(world_size: int, *, root: int = 0) -> Schedule:
    """The root receives every other rank's shard at once."""
    return _rooted("gather", world_size, root)


def _supports(collective: str, world_size: int) -> str:
    if collective in ("broadcast", "reduce", "scatter", "gather") or world_size <= MOST_RANKS:
        return ""
    return f"it lists every pair, up to N={MOST_RANKS}; pairwise has the same traffic in N-1 steps"


ALGORITHM = Algorithm(
    name="direct",
    summary="Everything at once, straight to where it belongs: one round (all-reduce: two).",
    source="NCCL's grouped sends and receives; MSCCL's all-pairs",
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
    supports=_supports,
)
