"""scatter: shard k of the root's tensor ends on rank k."""

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
    return (Piece(0, place.shard, ((place.root, own_shard_start(place)),)),)


COLLECTIVE = Collective(
    name="scatter",
    summary="Shard k of the root's tensor, on rank k.",
    role="handing out data",
    bus_factor=ring_factor,
    send_count=on_root(whole),
    recv_count=shard,
    sent_elements=on_root(others_shards),
    received_elements=on_root(nothing, shard),
    postcondition=_after,
    in_place_offset=own_shard_start,
    sharded=True,
    rooted=True,
)
