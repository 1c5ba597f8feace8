"""all_to_all_v: as all_to_all, but what goes to each rank differs.

The split is fixed and uneven: the part for the rank at distance d >= 1 (to the right, around the ring) is proportional
to d, the own part is one shard, so every rank still sends and receives (N-1)/N of its tensor, as in all_to_all, while
the largest message is 2(N-1)/N times the mean. At N = 2 there is one distance, and it equals all_to_all.
"""

from busbw.core.collective import Collective, Piece, Place, others_shards, ring_factor, whole


def split(place: Place) -> tuple[int, ...]:
    """Elements that this rank sends to rank 0, 1, ..., N-1; they sum to count."""
    n, remote = place.world_size, place.count - place.shard
    pairs = n * (n - 1) // 2
    by_distance = [place.shard] + [remote * d // pairs for d in range(1, n)]
    by_distance[-1] += place.count - sum(by_distance)
    return tuple(by_distance[(rank - place.rank) % n] for rank in range(n))


def _after(place: Place) -> tuple[Piece, ...]:
    pieces, start = [], 0
    for source in range(place.world_size):
        sent = split(Place(place.count, place.world_size, source))
        pieces.append(Piece(start, sent[place.rank], ((source, sum(sent[: place.rank])),)))
        start += sent[place.rank]
    return tuple(pieces)


COLLECTIVE = Collective(
    name="all_to_all_v",
    summary="A part of every rank's tensor, of a size that differs, on each rank.",
    role="expert dispatch and combine under uneven load",
    bus_factor=ring_factor,
    send_count=whole,
    recv_count=whole,
    sent_elements=others_shards,
    received_elements=others_shards,
    postcondition=_after,
    split=split,
    sharded=True,
)
