"""What a collective is: what each rank holds before and after, what it must send, and how its rate is compared.

Everything is counted in elements of the whole logical tensor. `count` is that number, S = count x itemsize its bytes,
N the world size. A *shard* is count/N elements; `whole_count` makes N divide it where shards are needed, so that the
S that is reported is the S that moved.

Sources: factors and sizes as in nccl-tests 2.19 (doc/PERFORMANCE.md); the send and receive counts are the lower bounds
without reduction in the network (Patarasu & Yuan, "Bandwidth optimal all-reduce algorithms", 2009).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from busbw.registry import Registry


@dataclass(frozen=True, slots=True)
class Place:
    """Where one rank stands in one call: its rank, the world size N, the root (0 where it means nothing), the count."""

    count: int
    world_size: int
    rank: int
    root: int = 0

    @property
    def shard(self) -> int:
        """Elements of one shard: count / N."""
        return self.count // self.world_size

    @property
    def is_root(self) -> bool:
        """This rank is the root."""
        return self.rank == self.root


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the postcondition: elements [start, start + length) of a rank's output.

    Each is the reduction (or, with one source, the copy) of `length` elements of the inputs of `sources`, which are
    pairs of (rank, first element in that rank's input).
    """

    start: int
    length: int
    sources: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective operation. Each file of `busbw.collectives` defines one, named COLLECTIVE."""

    name: str
    summary: str
    """What it does, in one sentence."""
    role: str
    """Where training uses it."""
    bus_factor: Callable[[int], float]
    """N -> busbw / algbw. Meaningful for N >= 2."""
    send_count: Callable[[Place], int]
    """Elements in this rank's input buffer (0: it has none)."""
    recv_count: Callable[[Place], int]
    """Elements in this rank's output buffer (0: it has none)."""
    sent_elements: Callable[[Place], int]
    """Elements that this rank sends to others in the optimal form without reduction in the network."""
    received_elements: Callable[[Place], int]
    """Elements that this rank receives from others in the same form."""
    postcondition: Callable[[Place], tuple[Piece, ...]]
    """What this rank's output holds afterwards. A rank without output has no pieces."""
    in_place_offset: Callable[[Place], int] | None = None
    """Where the smaller of input and output starts inside the larger one, in place; None: there is no in-place form."""
    split: Callable[[Place], tuple[int, ...]] | None = None
    """Elements that this rank sends to each rank, where they differ (all_to_all_v)."""
    sharded: bool = False
    """The tensor is cut into N shards, so N must divide the count."""
    rooted: bool = False
    """One rank is the root."""
    reduces: bool = False
    """Data of several ranks is combined, so it has a reduction operator."""
    least_world: int = 1
    """The smallest group on which it means something."""
    moves_data: bool = True
    """False for a barrier: it has no size and no bandwidth."""

    def whole_count(self, size_bytes: int, itemsize: int, world_size: int) -> int:
        """Elements of the largest tensor not above `size_bytes` that can be cut as needed (at least one shard each)."""
        if not self.moves_data:
            return 0
        elements = max(size_bytes // itemsize, 1)
        if not self.sharded:
            return elements
        return max(elements // world_size, 1) * world_size

    def sent_bytes(self, size_bytes: int, world_size: int, rank: int, root: int = 0) -> int:
        """Bytes that `rank` sends in one call of S = size_bytes in the optimal form."""
        return self.sent_elements(Place(size_bytes, world_size, rank, root))

    def received_bytes(self, size_bytes: int, world_size: int, rank: int, root: int = 0) -> int:
        """Bytes that `rank` receives in one call of S = size_bytes in the optimal form."""
        return self.received_elements(Place(size_bytes, world_size, rank, root))


def whole(place: Place) -> int:
    """The whole tensor."""
    return place.count


def shard(place: Place) -> int:
    """One shard."""
    return place.shard


def nothing(place: Place) -> int:
    """No elements."""
    return 0


def others_shards(place: Place) -> int:
    """All shards but one: (N-1)/N of the tensor."""
    return place.count - place.shard


def own_shard_start(place: Place) -> int:
    """Where this rank's shard begins in the whole tensor."""
    return place.rank * place.shard


def at_start(place: Place) -> int:
    """The first element."""
    return 0


def on_root(count: Callable[[Place], int], elsewhere: Callable[[Place], int] = nothing) -> Callable[[Place], int]:
    """`count` on the root, and `elsewhere` on the other ranks."""
    return lambda place: count(place) if place.is_root else elsewhere(place)


def ring_factor(world_size: int) -> float:
    """(N-1)/N: what one pass around a ring carries."""
    return (world_size - 1) / world_size


def double_ring_factor(world_size: int) -> float:
    """2(N-1)/N: two passes around a ring."""
    return 2 * (world_size - 1) / world_size


def one(world_size: int) -> float:
    """1: each wire carries the tensor once."""
    return 1.0


COLLECTIVES: Registry[Collective] = Registry("busbw.collectives", "COLLECTIVE", "collective")
"""Every collective by name."""

ALIASES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallv": "all_to_all_v",
    "sendrecv": "send_recv",
    "bcast": "broadcast",
}
"""Other tools' spellings."""

PRIMITIVES = ("broadcast", "scatter", "gather", "all_gather", "reduce_scatter", "all_reduce")
"""The six that `busbw bench` measures by default, in the post's order."""


def find_collective(text: str) -> Collective:
    """The collective of a name or another tool's spelling (`allreduce`, `all-reduce`, `AllReduce`)."""
    name = text.strip().lower().replace("-", "_")
    return COLLECTIVES.get(ALIASES.get(name.replace("_", ""), name))
