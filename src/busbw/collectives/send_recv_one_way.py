"""send_recv_one_way: ranks 0, 2, 4, ... each send their tensor to the next rank; nothing comes back.

Beside send_recv it shows whether the two directions of a link share anything. With an odd N the last rank is idle.
"""

from busbw.core.collective import Collective, Piece, Place, one


def _sender(place: Place) -> bool:
    return place.rank % 2 == 0 and place.rank + 1 < place.world_size


def _receiver(place: Place) -> bool:
    return place.rank % 2 == 1


def _sent(place: Place) -> int:
    return place.count if _sender(place) else 0


def _received(place: Place) -> int:
    return place.count if _receiver(place) else 0


def _after(place: Place) -> tuple[Piece, ...]:
    return (Piece(0, place.count, ((place.rank - 1, 0),)),) if _receiver(place) else ()


COLLECTIVE = Collective(
    name="send_recv_one_way",
    summary="Each even rank's tensor, on the rank after it: one direction of each pair.",
    role="pipeline activations",
    bus_factor=one,
    send_count=_sent,
    recv_count=_received,
    sent_elements=_sent,
    received_elements=_received,
    postcondition=_after,
    least_world=2,
)
