"""all_gather: everyone ends with all shards."""

from busbw.core.collective import Collective, Piece, Place, others_shards, own_shard_start, ring_factor, shard, whole


def _after(place: Place) -> tuple[Piece, ...]:
    return tuple(Piece(rank * place.shard, place.shard, ((rank, 0),)) for rank in range(place.world_size))


COLLECTIVE = Collective(
    name="all_gather",
    summary="Every rank's shard, on every rank.",
    role="ZeRO and FSDP parameter fetch",
    bus_factor=ring_factor,
    send_count=shard,
    recv_count=whole,
    sent_elements=others_shards,
    received_elements=others_shards,
    postcondition=_after,
    in_place_offset=own_shard_start,
    sharded=True,
)
