"""all_reduce: everyone ends with the sum of all tensors."""

from busbw.core.collective import Collective, Piece, Place, at_start, double_ring_factor, whole


def _shard(place: Place, index: int) -> int:
    """Elements of shard `index` (modulo N) of a tensor that N need not divide: they differ by one at most."""
    n, index = place.world_size, index % place.world_size
    return (index + 1) * place.count // n - index * place.count // n


def _sent(place: Place) -> int:
    """Around the ring, a rank sends all shards but the one it ends the sum of, then all but the next one."""
    return 2 * place.count - _shard(place, place.rank + 1) - _shard(place, place.rank + 2)


def _received(place: Place) -> int:
    """All shards but the one it sends first, then all but the one whose sum it has."""
    return 2 * place.count - _shard(place, place.rank) - _shard(place, place.rank + 1)


def _after(place: Place) -> tuple[Piece, ...]:
    return (Piece(0, place.count, tuple((rank, 0) for rank in range(place.world_size))),)


COLLECTIVE = Collective(
    name="all_reduce",
    summary="The sum of every rank's tensor, on every rank.",
    role="DDP gradient sync; tensor-parallel activations",
    bus_factor=double_ring_factor,
    send_count=whole,
    recv_count=whole,
    sent_elements=_sent,
    received_elements=_received,
    postcondition=_after,
    in_place_offset=at_start,
    reduces=True,
)
