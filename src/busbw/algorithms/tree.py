"""tree: a binomial tree; in round k of ceil(log2 N) each rank that has the data sends it to one that has not.

The tree of MPICH's short broadcast (Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations
in MPICH", 2005): ceil(log2 N) rounds, not pipelined. All-reduce is reduce to rank 0, then broadcast. Ranks are counted
from the root.
"""

from __future__ import annotations

import numpy as np

from busbw.algorithms._patterns import constant, once, wrapped
from busbw.core.schedule import Algorithm, Ints, Phase, Schedule


def edges(world_size: int) -> list[tuple[Ints, Ints, Ints]]:
    """The levels from the root down: (parents, children, ranks of each child's subtree), counted from the root."""
    levels = []
    mask = 1 << max(world_size - 1, 0).bit_length() >> 1
    while mask:
        parent = np.arange(0, world_size - mask, 2 * mask)
        child = parent + mask
        levels.append((parent, child, np.minimum(mask, world_size - child)))
        mask //= 2
    return levels


def down(world_size: int, root: int, slots: int, ranks: Ints | None = None) -> tuple[Phase, ...]:
    """The whole tensor of `slots` slots from the root to everyone; `ranks` names those that take part."""
    real = (np.arange(world_size) + root) % world_size if ranks is None else ranks
    return tuple(
        once(real[parent], real[child], constant(0, parent), constant(slots, parent), label="broadcast")
        for parent, child, _ in edges(world_size)
    )


def up(world_size: int, root: int, slots: int, ranks: Ints | None = None) -> tuple[Phase, ...]:
    """Sums of the whole tensor from everyone to the root."""
    real = (np.arange(world_size) + root) % world_size if ranks is None else ranks
    return tuple(
        once(real[child], real[parent], constant(0, parent), constant(slots, parent), reduces=True, label="reduce")
        for parent, child, _ in reversed(edges(world_size))
    )


def broadcast(world_size: int, *, root: int = 0) -> Schedule:
    """The tensor in one piece, down the tree."""
    return Schedule("tree", "broadcast", world_size, 1, down(world_size, root, 1), root=root)


def reduce(world_size: int, *, root: int = 0) -> Schedule:
    """Partial sums up the tree."""
    return Schedule("tree", "reduce", world_size, 1, up(world_size, root, 1), root=root)


def all_reduce(world_size: int, *, root: int = 0) -> Schedule:
    """Up to rank 0, then down."""
    return Schedule("tree", "all_reduce", world_size, 1, up(world_size, 0, 1) + down(world_size, 0, 1))


def scatter(world_size: int, *, root: int = 0) -> Schedule:
    """Each parent sends a child the shards of the child's whole subtree."""
    phases = []
    for parent, child, size in edges(world_size):
        runs = wrapped((parent + root) % world_size, (child + root) % world_size, child + root, size, world_size)
        phases.append(once(*runs, label="scatter"))
    return Schedule("tree", "scatter", world_size, world_size, tuple(phases), root=root)


def gather(world_size: int, *, root: int = 0) -> Schedule:
    """The inverse: each child sends the shards of its whole subtree."""
    phases = []
    for parent, child, size in reversed(edges(world_size)):
        runs = wrapped((child + root) % world_size, (parent + root) % world_size, child + root, size, world_size)
        phases.append(once(*runs, label="gather"))
    return Schedule("tree", "gather", world_size, world_size, tuple(phases), root=root)


ALGORITHM = Algorithm(
    name="tree",
    summary="A binomial tree: ceil(log2 N) rounds, the whole tensor in each.",
    source="Thakur, Rabenseifner & Gropp 2005",
    builders={
        "broadcast": broadcast,
        "reduce": reduce,
        "all_reduce": all_reduce,
        "scatter": scatter,
        "gather": gather,
    },
)
