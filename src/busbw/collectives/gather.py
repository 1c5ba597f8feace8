"""gather: every rank's shard ends on the root."""

from busbw.core.collective import (
    Collective,
    Piece,
    Place,
    nothing,
    on_root,
    others_shards,
    own_shard_start,
    ring_factor,
    shard,
    whole,
)


def _after(place: Place) -> tuple[Piece, ...]:
    if not place.is_root:
        return ()
    return tuple(Piece(rank * place.shard, place.shard, ((rank, 0),)) for rank in range(place.world_size))


COLLECTIVE = Collective(
    name="gather",
    summary="Every rank's shard, on the root.",
    role="collecting results",
    bus_factor=ring_factor,
    send_count=shard,
    recv_count=on_root(whole),
    sent_elements=on_root(nothing, shard),
    received_elements=on_root(others_shards),
    postcondition=_after,
    in_place_offset=own_shard_start,
    sharded=True,
    rooted=True,
)
