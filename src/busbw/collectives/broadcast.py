"""broadcast: the root's tensor ends everywhere."""

from busbw.core.collective import Collective, Piece, Place, at_start, nothing, on_root, one, whole


def _sent(place: Place) -> int:
    """A chain root, root+1, ..., root-1: everyone but its last rank passes the tensor on."""
    is_last = (place.rank + 1) % place.world_size == place.root
    return 0 if is_last else place.count


def _after(place: Place) -> tuple[Piece, ...]:
    return (Piece(0, place.count, ((place.root, 0),)),)


COLLECTIVE = Collective(
    name="broadcast",
    summary="The root's tensor, on every rank.",
    role="weights at initialisation",
    bus_factor=one,
    send_count=on_root(whole),
    recv_count=whole,
    sent_elements=_sent,
    received_elements=on_root(nothing, whole),
    postcondition=_after,
    in_place_offset=at_start,
    rooted=True,
)
