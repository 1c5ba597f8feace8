"""recursive_doubling: in round k rank r exchanges all that it has with rank r ^ 2^k: log2 N rounds.

Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH" (2005). All-reduce exchanges
the whole tensor in each round, so it is for small S. Where N is no power of two, the ranks above the last one hand
their data to a partner first and get the result from it at the end.
"""

from __future__ import annotations

from busbw.algorithms._doubling import Doubling, gathered
from busbw.algorithms._patterns import constant, once
from busbw.core.schedule import Algorithm, Schedule


def all_reduce(world_size: int, *, root: int = 0) -> Schedule:
    """The whole tensor in each round."""
    exchanges = Doubling(world_size, 1)
    ranks = exchanges.active
    phases = exchanges.fold_in(*exchanges.everything, reduces=True)
    for k in range(exchanges.power.bit_length() - 1):
        phases.append(once(ranks, ranks ^ (1 << k), constant(0, ranks), reduces=True, label="exchange"))
    phases += exchanges.fold_out(*exchanges.everything)
    return Schedule("recursive_doubling", "all_reduce", world_size, 1, tuple(phases))


def all_gather(world_size: int, *, root: int = 0) -> Schedule:
    """Twice as many shards in each round."""
    return Schedule("recursive_doubling", "all_gather", world_size, world_size, tuple(gathered(world_size)))


ALGORITHM = Algorithm(
    name="recursive_doubling",
    summary="Exchange with the rank at distance 1, 2, 4, ...: log2 N rounds; all-reduce sends S in each.",
    source="Thakur, Rabenseifner & Gropp 2005",
    builders={"all_reduce": all_reduce, "all_gather": all_gather},
)
