"""barrier: nobody leaves before everybody has arrived. It moves no data and has no bandwidth."""

from busbw.core.collective import Collective, nothing, one

COLLECTIVE = Collective(
    name="barrier",
    summary="No rank leaves before every rank has arrived.",
    role="synchronisation",
    bus_factor=one,
    send_count=nothing,
    recv_count=nothing,
    sent_elements=nothing,
    received_elements=nothing,
    postcondition=lambda place: (),
    moves_data=False,
)
