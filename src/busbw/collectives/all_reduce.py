"""all_reduce: everyone ends with the sum of all tensors."""

from busbw.core.collective import Collective, Piece, Place, at_start, double_ring_factor, whole


def _sent(place: Place) -> int:
    return 2 * (place.count - place.count // place.world_size)


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
    received_elements=_sent,
    postcondition=_after,
    in_place_offset=at_start,
    reduces=True,
)
