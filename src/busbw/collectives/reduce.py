"""reduce: the sum of all tensors ends on the root."""

from busbw.core.collective import Collective, Piece, Place, at_start, nothing, on_root, one, whole


def _received(place: Place) -> int:
    """A chain root+1, ..., root-1, root: everyone but its first rank takes a partial sum in."""
    is_first = place.rank == (place.root + 1) % place.world_size
    return 0 if is_first else place.count


def _after(place: Place) -> tuple[Piece, ...]:
    if not place.is_root:
        return ()
    return (Piece(0, place.count, tuple((rank, 0) for rank in range(place.world_size))),)


COLLECTIVE = Collective(
    name="reduce",
    summary="The sum of every rank's tensor, on the root.",
    role="gradients to their one owner",
    bus_factor=one,
    send_count=whole,
    recv_count=on_root(whole),
    sent_elements=on_root(nothing, whole),
    received_elements=lambda place: 0 if place.world_size == 1 else _received(place),
    postcondition=_after,
    in_place_offset=at_start,
    rooted=True,
    reduces=True,
)
