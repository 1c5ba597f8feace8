"""One contract for every collective: whatever file lies in busbw/collectives has to keep it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.core.collective import COLLECTIVES, Collective, Place

WORLDS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 16)
SIZES = (0, 1, 2, 7, 8, 100, 4096, 5040, 65536, 10**6 + 1)  # 5040: every N up to 10 divides it

# For N = 4, root 1 and S = 4800 bytes, by hand: what ranks 0, 1, 2, 3 send, and what they receive.
# Broadcast is the chain 1-2-3-0; reduce the chain 2-3-0-1. One-way pairs are 0-1 and 2-3.
BY_HAND = {
    "all_gather": ((3600, 3600, 3600, 3600), (3600, 3600, 3600, 3600)),
    "all_reduce": ((7200, 7200, 7200, 7200), (7200, 7200, 7200, 7200)),
    "all_to_all": ((3600, 3600, 3600, 3600), (3600, 3600, 3600, 3600)),
    "all_to_all_v": ((3600, 3600, 3600, 3600), (3600, 3600, 3600, 3600)),
    "barrier": ((0, 0, 0, 0), (0, 0, 0, 0)),
    "broadcast": ((0, 4800, 4800, 4800), (4800, 0, 4800, 4800)),
    "gather": ((1200, 0, 1200, 1200), (0, 3600, 0, 0)),
    "reduce": ((4800, 0, 4800, 4800), (4800, 4800, 0, 4800)),
    "reduce_scatter": ((3600, 3600, 3600, 3600), (3600, 3600, 3600, 3600)),
    "scatter": ((0, 3600, 0, 0), (1200, 0, 1200, 1200)),
    "send_recv": ((4800, 4800, 4800, 4800), (4800, 4800, 4800, 4800)),
    "send_recv_one_way": ((4800, 0, 4800, 0), (0, 4800, 0, 4800)),
}

# Busbw / algbw at N = 8, as in nccl-tests (doc/PERFORMANCE.md): (N-1)/N = 0.875, and twice that.
FACTOR_AT_8 = {
    "all_gather": 0.875,
    "all_reduce": 1.75,
    "all_to_all": 0.875,
    "all_to_all_v": 0.875,
    "barrier": 1.0,  # never used: a barrier has no rate
    "broadcast": 1.0,
    "gather": 0.875,
    "reduce": 1.0,
    "reduce_scatter": 0.875,
    "scatter": 0.875,
    "send_recv": 1.0,
    "send_recv_one_way": 1.0,
}


def every_collective_that(holds: Callable[[Collective], bool]) -> pytest.MarkDecorator:
    chosen = [collective for collective in COLLECTIVES if holds(collective)]
    return pytest.mark.parametrize("collective", chosen, ids=[collective.name for collective in chosen])


every_collective = every_collective_that(lambda collective: True)


def groups(collective: Collective) -> Iterator[list[Place]]:
    """All ranks of one call, over many world sizes, roots and counts that the collective itself allows."""
    for world_size in WORLDS:
        if world_size < collective.least_world:
            continue
        for size in SIZES:
            count = collective.whole_count(size, 1, world_size)
            for root in range(world_size) if collective.rooted else (0,):
                yield [Place(count, world_size, rank, root) for rank in range(world_size)]


def test_the_tables_above_name_every_collective() -> None:
    assert tuple(sorted(BY_HAND)) == COLLECTIVES.names() == tuple(sorted(FACTOR_AT_8))


@every_collective
def test_it_is_named_as_its_file_and_says_what_it_is(collective: Collective) -> None:
    assert COLLECTIVES.get(collective.name) is collective
    assert collective.summary.endswith(".")
    assert len(collective.role) > 5


@every_collective
def test_bytes_sent_and_received_are_those_worked_by_hand(collective: Collective) -> None:
    sent, received = BY_HAND[collective.name]
    assert tuple(collective.sent_bytes(4800, 4, rank, root=1) for rank in range(4)) == sent
    assert tuple(collective.received_bytes(4800, 4, rank, root=1) for rank in range(4)) == received


@every_collective
def test_bus_factor_is_that_of_nccl_tests(collective: Collective) -> None:
    assert collective.bus_factor(8) == FACTOR_AT_8[collective.name]


@every_collective
def test_what_is_sent_is_received(collective: Collective) -> None:
    """Without reduction or copying in the network every byte that leaves a rank arrives at one other rank."""
    for places in groups(collective):
        sent = [collective.sent_elements(place) for place in places]
        received = [collective.received_elements(place) for place in places]
        assert min(sent + received) >= 0
        assert sum(sent) == sum(received), places[0]


@every_collective
def test_no_bytes_move_in_a_group_of_one(collective: Collective) -> None:
    for places in groups(collective):
        if len(places) == 1:
            assert collective.sent_elements(places[0]) == collective.received_elements(places[0]) == 0


@every_collective_that(lambda collective: collective.moves_data)
def test_bus_factor_is_the_busiest_ranks_traffic_over_s(collective: Collective) -> None:
    """The rank that sends most, or (gather, at its root) receives most: busbw is what its busier direction carries."""
    for places in groups(collective):
        count, world_size = places[0].count, places[0].world_size
        if world_size == 1 or count % world_size:
            continue
        busiest = max(max(collective.sent_elements(p), collective.received_elements(p)) for p in places)
        assert busiest / count == pytest.approx(collective.bus_factor(world_size), rel=1e-12)


@every_collective
def test_pieces_cover_each_output_once_and_read_inside_the_inputs(collective: Collective) -> None:
    for places in groups(collective):
        for place in places:
            end = 0
            for piece in collective.postcondition(place):
                assert piece.start == end, "a gap or an overlap"
                assert piece.length >= 0
                end += piece.length
                for rank, start in piece.sources:
                    assert start >= 0
                    assert start + piece.length <= collective.send_count(places[rank])
            assert end == collective.recv_count(place)


@every_collective
def test_a_reduction_takes_each_rank_once_and_a_copy_has_one_source(collective: Collective) -> None:
    for places in groups(collective):
        for place in places:
            for piece in collective.postcondition(place):
                sources = [rank for rank, _ in piece.sources]
                assert sources == list(range(place.world_size)) if collective.reduces else len(sources) == 1


@every_collective
def test_a_rank_receives_no_less_than_what_it_lacks(collective: Collective) -> None:
    """The lower bound without reduction in the network: what others must contribute; for copies it is met exactly."""
    for places in groups(collective):
        for place in places:
            lacks = sum(
                piece.length
                for piece in collective.postcondition(place)
                if any(rank != place.rank for rank, _ in piece.sources)
            )
            received = collective.received_elements(place)
            assert received >= lacks if collective.reduces else received == lacks


@every_collective
def test_whole_count_is_the_largest_count_that_can_be_cut(collective: Collective) -> None:
    for world_size in WORLDS:
        for itemsize in (1, 2, 4, 8):
            for size in SIZES:
                count = collective.whole_count(size, itemsize, world_size)
                step = world_size if collective.sharded else 1
                if not collective.moves_data:
                    assert count == 0
                    continue
                assert count % step == 0
                assert count == step or count * itemsize <= size < (count + step) * itemsize
                assert collective.whole_count(count * itemsize, itemsize, world_size) == count


@every_collective_that(lambda collective: collective.in_place_offset is not None)
def test_in_place_the_smaller_buffer_lies_inside_the_larger(collective: Collective) -> None:
    for places in groups(collective):
        for place in places:
            small, large = sorted((collective.send_count(place), collective.recv_count(place)))
            assert 0 <= collective.in_place_offset(place) <= max(large - small, 0) or small == 0


@every_collective_that(lambda collective: collective.split is not None)
def test_a_split_sums_to_the_input_and_its_own_part_stays(collective: Collective) -> None:
    for places in groups(collective):
        for place in places:
            parts = collective.split(place)
            assert len(parts) == place.world_size
            assert min(parts) >= 0
            assert sum(parts) == collective.send_count(place)
            assert sum(parts) - parts[place.rank] == collective.sent_elements(place)


@every_collective
@given(st.integers(1, 64), st.integers(0, 2**40), st.data())
def test_the_traffic_balances_for_any_size(
    collective: Collective, world_size: int, size: int, data: st.DataObject
) -> None:
    if world_size < collective.least_world:
        return
    root = data.draw(st.integers(0, world_size - 1))
    count = collective.whole_count(size, 1, world_size)
    places = [Place(count, world_size, rank, root) for rank in range(world_size)]
    sent = sum(map(collective.sent_elements, places))
    assert sent == sum(map(collective.received_elements, places))
    if collective.name == "all_reduce":  # also where N does not divide the count
        assert sent == 2 * (world_size - 1) * count
