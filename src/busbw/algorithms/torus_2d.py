"""torus_2d: rings along the rows and the columns of a grid, both at once on a half of the tensor each.

Ying et al., "Image classification at supercomputer scale" (2018), on TPU pods; Mikami et al. 2018. One half of the data
goes along rows first, the other along columns first, so that the links of both dimensions work at the same time; with
`both_ways=1` four quarters, forwards and backwards.
"""

from __future__ import annotations

import math

from busbw.algorithms._grid import Grid
from busbw.algorithms._patterns import whole_number
from busbw.core.schedule import Algorithm, Schedule
from busbw.errors import UsageError


def _rows(world_size: int, rows: int | None) -> int:
    """By default the largest divisor of N that is not above its root."""
    if rows is None:
        return max(m for m in range(1, math.isqrt(world_size) + 1) if world_size % m == 0)
    if world_size % whole_number("rows", rows):
        raise UsageError(f"rows={rows}: must divide the {world_size} ranks")
    return rows


def _schedule(collective: str, world_size: int, rows: int | None, both_ways: int) -> Schedule:
    outer = _rows(world_size, rows)
    turns = (False, True) if whole_number("both_ways", both_ways, 0, 1) else (False,)
    options = {"rows": outer} | ({"both_ways": 1} if both_ways else {})
    parts = []
    for backwards in turns:
        for transposed in (False, True):
            grid = Grid(outer, world_size // outer, transposed=transposed, backwards=backwards)
            phases = getattr(grid, collective)()
            parts.append(Schedule("torus_2d", collective, world_size, world_size, phases, options=options))
    share = 1 / len(parts)
    return Schedule(
        "torus_2d",
        collective,
        world_size,
        world_size,
        (),
        parts=tuple((share, part) for part in parts),
        options=options,
    )


def all_reduce(world_size: int, *, root: int = 0, rows: int | None = None, both_ways: int = 0) -> Schedule:
    """Reduce-scatter in one dimension, all-reduce in the other, all-gather in the first."""
    return _schedule("all_reduce", world_size, rows, both_ways)


def reduce_scatter(world_size: int, *, root: int = 0, rows: int | None = None, both_ways: int = 0) -> Schedule:
    """One dimension, then the other."""
    return _schedule("reduce_scatter", world_size, rows, both_ways)


def all_gather(world_size: int, *, root: int = 0, rows: int | None = None, both_ways: int = 0) -> Schedule:
    """One dimension, then the other."""
    return _schedule("all_gather", world_size, rows, both_ways)


ALGORITHM = Algorithm(
    name="torus_2d",
    summary="Rings along rows and columns of a grid at once, each on its part of the tensor.",
    source="Ying et al. 2018; Mikami et al. 2018",
    builders={"all_reduce": all_reduce, "reduce_scatter": reduce_scatter, "all_gather": all_gather},
    options={
        "rows": "rows of the grid; rank r stands in row r / columns (default: the divisor of N next to its root)",
        "both_ways": "1: also backwards, four parts in all (default: 0)",
    },
)
