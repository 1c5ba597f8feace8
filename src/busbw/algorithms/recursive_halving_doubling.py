"""recursive_halving_doubling: exchange half of the tensor, a quarter, ... to reduce-scatter, then back to all-gather.

Rabenseifner's algorithm (Thakur, Rabenseifner & Gropp 2005): 2 log2 N rounds, 2(N-1)/N S sent by each rank where N is a
power of two. Otherwise the ranks above the last power of two, P, hand their whole tensor to a partner first, and get
the result from it at the end: up to 2 S more for these. Broadcast is a scatter down the binomial tree and an
all-gather (van de Geijn); reduce is a reduce-scatter and a gather up the tree.
"""

from __future__ import annotations

import numpy as np

from busbw.algorithms._doubling import Doubling, gathered
from busbw.algorithms._patterns import once
from busbw.algorithms.tree import edges
from busbw.core.schedule import Algorithm, Phase, Schedule

NAME = "recursive_halving_doubling"


def reduce_scatter(world_size: int, *, root: int = 0) -> Schedule:
    """Halving; an extra's shard is summed by its partner."""
    exchanges = Doubling(world_size, world_size)
    phases = exchanges.fold_in(*exchanges.everything, reduces=True) + exchanges.halving()
    phases += exchanges.fold_out(*exchanges.own)
    return Schedule(NAME, "reduce_scatter", world_size, world_size, tuple(phases))


def all_gather(world_size: int, *, root: int = 0) -> Schedule:
    """Doubling."""
    return Schedule(NAME, "all_gather", world_size, world_size, tuple(gathered(world_size)))


def all_reduce(world_size: int, *, root: int = 0) -> Schedule:
    """Halving, then doubling, over P chunks."""
    exchanges = Doubling(world_size, 1 << (world_size.bit_length() - 1))
    phases = exchanges.fold_in(*exchanges.everything, reduces=True) + exchanges.halving() + exchanges.doubling()
    phases += exchanges.fold_out(*exchanges.everything)
    return Schedule(NAME, "all_reduce", world_size, exchanges.power, tuple(phases))


def broadcast(world_size: int, *, root: int = 0) -> Schedule:
    """A scatter of P chunks down the tree from the root, then doubling."""
    exchanges = _from(world_size, root)
    phases = [_tree(exchanges, level, upward=False) for level in edges(exchanges.power)]
    phases += exchanges.doubling() + exchanges.fold_out(*exchanges.everything)
    return Schedule(NAME, "broadcast", world_size, exchanges.power, tuple(phases), root=root)


def reduce(world_size: int, *, root: int = 0) -> Schedule:
    """Halving, then a gather of P chunks up the tree to the root."""
    exchanges = _from(world_size, root)
    phases = exchanges.fold_in(*exchanges.everything, reduces=True) + exchanges.halving()
    phases += [_tree(exchanges, level, upward=True) for level in reversed(edges(exchanges.power))]
    return Schedule(NAME, "reduce", world_size, exchanges.power, tuple(phases), root=root)


def _from(world_size: int, root: int) -> Doubling:
    """Exchanges of ranks counted from the root."""
    return Doubling(world_size, 1 << (world_size.bit_length() - 1), (np.arange(world_size) + root) % world_size)


def _tree(exchanges: Doubling, level: tuple[np.ndarray, np.ndarray, np.ndarray], *, upward: bool) -> Phase:
    parent, child, size = level
    source, target = (child, parent) if upward else (parent, child)
    return once(exchanges.real[source], exchanges.real[target], child, size, label="gather" if upward else "scatter")


ALGORITHM = Algorithm(
    name=NAME,
    summary="Exchange S/2, S/4, ... and back: 2 log2 N rounds, as few bytes as the ring.",
    source="Rabenseifner 2004; Thakur, Rabenseifner & Gropp 2005",
    builders={
        "reduce_scatter": reduce_scatter,
        "all_gather": all_gather,
        "all_reduce": all_reduce,
        "broadcast": broadcast,
        "reduce": reduce,
    },
)
