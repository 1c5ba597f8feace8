"""send_recv: every rank sends its tensor to the next and receives the previous one's, around the ring.

As nccl-tests' sendrecv; at N = 2 this is both directions of one pair at once.
"""

from busbw.core.collective import Collective, Piece, Place, one, whole


def _after(place: Place) -> tuple[Piece, ...]:
    return (Piece(0, place.count, (((place.rank - 1) % place.world_size, 0),)),)


COLLECTIVE = Collective(
    name="send_recv",
    summary="The previous rank's tensor, on each rank: both directions of a pair at once.",
    role="ring attention; pipelines in steady state",
    bus_factor=one,
    send_count=whole,
    recv_count=whole,
    sent_elements=whole,
    received_elements=whole,
    postcondition=_after,
    least_world=2,
)
