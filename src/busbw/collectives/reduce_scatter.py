"""reduce_scatter: shard k of the sum ends on rank k."""

from busbw.core.collective import Collective, Piece, Place, others_shards, own_shard_start, ring_factor, shard, whole


def _after(place: Place) -> tuple[Piece, ...]:
    start = own_shard_start(place)
    return (Piece(0, place.shard, tuple((rank, start) for rank in range(place.world_size))),)


COLLECTIVE = Collective(
    name="reduce_scatter",
    summary="Shard k of the sum of every rank's tensor, on rank k.",
    role="ZeRO and FSDP gradient sync",
    bus_factor=ring_factor,
    send_count=whole,
    recv_count=shard,
    sent_elements=others_shards,
    received_elements=others_shards,
    postcondition=_after,
    in_place_offset=own_shard_start,
    sharded=True,
    reduces=True,
)
