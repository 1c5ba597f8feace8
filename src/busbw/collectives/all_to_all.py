"""all_to_all: shard k of every rank's tensor ends on rank k."""

from busbw.core.collective import Collective, Piece, Place, others_shards, own_shard_start, ring_factor, whole


def _after(place: Place) -> tuple[Piece, ...]:
    start = own_shard_start(place)
    return tuple(Piece(rank * place.shard, place.shard, ((rank, start),)) for rank in range(place.world_size))


COLLECTIVE = Collective(
    name="all_to_all",
    summary="Shard k of every rank's tensor, on rank k.",
    role="expert dispatch and combine; Ulysses attention",
    bus_factor=ring_factor,
    send_count=whole,
    recv_count=whole,
    sent_elements=others_shards,
    received_elements=others_shards,
    postcondition=_after,
    sharded=True,
)
