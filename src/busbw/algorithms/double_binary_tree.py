"""double_binary_tree: two binary trees, each with half of the data; a rank that is inside one is a leaf of the other.

Sanders, Speck & Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009), as in NCCL: the
first tree is in-order (a rank's level is the lowest set bit of its number), the second its mirror image (N even) or the
same, shifted by one rank (N odd). Chunks follow each other through the trees, and those that have been summed at the
top go down while others still come up. With a root (broadcast, reduce) the trees are those of the other N-1 ranks.
"""

from __future__ import annotations

import numpy as np

from busbw.algorithms._patterns import constant, whole_number
from busbw.core.schedule import Algorithm, Bools, Ints, Phase, Schedule
from busbw.errors import UsageError


def parents(world_size: int) -> Ints:
    """[N] each rank's parent in the in-order tree; rank 0 is the top, and its own parent here."""
    rank = np.arange(world_size)
    low = rank & -rank
    above = (rank ^ low) | (low << 1)
    return np.where(above < world_size, above, rank ^ low)


def depths(parent: Ints) -> Ints:
    """[N] edges between each rank and rank 0."""
    depth = np.zeros(len(parent), np.int64)
    at = np.arange(len(parent))
    while at.any():
        depth += at > 0
        at = parent[at]
    return depth


def _second(world_size: int) -> Ints:
    """[N] the rank at each position of the second tree."""
    position = np.arange(world_size)
    return position[::-1] if world_size % 2 == 0 else np.roll(position, -1)


def _halves(world_size: int, chunks: int | None) -> int:
    """Chunks of each tree's half: four for each level where the user has not said."""
    if chunks is None:
        return 4 * max((world_size - 1).bit_length(), 1)
    if whole_number("chunks", chunks, 2) % 2:
        raise UsageError(f"chunks={chunks}: must be even, half of them for each tree")
    return chunks // 2


class _Edges:
    """Transfers of both trees, each with its delay in the pipeline."""

    def __init__(self) -> None:
        self.columns: list[tuple[Ints, Ints, Ints, Ints, Bools]] = []

    def add(self, source: Ints, target: Ints, begin: Ints, first_slot: int, reduces: bool) -> None:
        """Transfers of the half that starts at `first_slot`."""
        whole = constant(first_slot, source)
        self.columns.append((source, target, begin, whole, np.full(len(source), reduces)))

    def phase(self, chunks: int, label: str) -> Phase:
        """The pipeline: chunk t of a half takes an edge in repetition begin + t."""
        source, target, begin, first, reduces = (
            np.concatenate([column[k] for column in self.columns]) for k in range(5)
        )

        def slots(step: int) -> tuple[Ints, Ints]:
            slot = first + step - begin
            return slot, slot

        times = chunks + int(begin.max())
        uniform: bool | Bools = bool(reduces[0]) if len(set(reduces.tolist())) == 1 else reduces
        return Phase(
            source,
            target,
            constant(1, source),
            uniform,
            slots,
            times=times,
            label=label,
            begin=begin,
            end=begin + chunks,
        )


def all_reduce(world_size: int, *, root: int = 0, chunks: int | None = None) -> Schedule:
    """Up both trees and down again, overlapped."""
    half = _halves(world_size, chunks)
    parent = parents(world_size)
    depth = depths(parent)
    height = int(depth.max())
    child = np.arange(1, world_size)
    edges = _Edges()
    for index, rank in enumerate((np.arange(world_size), _second(world_size))):
        low, high = rank[child], rank[parent[child]]
        edges.add(low, high, height - depth[child], index * half, True)
        edges.add(high, low, height + depth[child] - 1, index * half, False)
    phase = edges.phase(half, "up and down")
    options = {"chunks": 2 * half}
    return Schedule("double_binary_tree", "all_reduce", world_size, 2 * half, (phase,), options=options)


def _rooted(collective: str, world_size: int, root: int, chunks: int | None) -> Schedule:
    half = _halves(world_size, chunks)
    others = (root + 1 + np.arange(world_size - 1)) % world_size
    parent = parents(world_size - 1)
    depth = depths(parent) + 1
    height = int(depth.max())
    edges = _Edges()
    for index, rank in enumerate((np.arange(world_size - 1), _second(world_size - 1))):
        low, high = others[rank], others[rank[parent]].copy()
        high[0] = root
        if collective == "broadcast":
            edges.add(high, low, depth - 1, index * half, False)
        else:
            edges.add(low, high, height - depth, index * half, True)
    phase = edges.phase(half, "down" if collective == "broadcast" else "up")
    options = {"chunks": 2 * half}
    return Schedule("double_binary_tree", collective, world_size, 2 * half, (phase,), root=root, options=options)


def broadcast(world_size: int, *, root: int = 0, chunks: int | None = None) -> Schedule:
    """The root sends half of the chunks to the top of each tree of the others."""
    return _rooted("broadcast", world_size, root, chunks)


def reduce(world_size: int, *, root: int = 0, chunks: int | None = None) -> Schedule:
    """The inverse: the tops of both trees send their sums to the root."""
    return _rooted("reduce", world_size, root, chunks)


ALGORITHM = Algorithm(
    name="double_binary_tree",
    summary="Two binary trees with half of the data each, pipelined; inside one is a leaf of the other.",
    source="Sanders, Speck & Traeff 2009; NCCL's trees",
    builders={"all_reduce": all_reduce, "broadcast": broadcast, "reduce": reduce},
    options={"chunks": "pieces in the pipeline, half of them in each tree (default: 8 ceil(log2 N))"},
)
