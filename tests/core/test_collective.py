from __future__ import annotations

import pytest

from busbw.core.collective import ALIASES, COLLECTIVES, PRIMITIVES, find_collective
from busbw.errors import UsageError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("all_reduce", "all_reduce"),
        ("all-reduce", "all_reduce"),
        ("AllReduce", "all_reduce"),
        (" ALLGATHER ", "all_gather"),
        ("reducescatter", "reduce_scatter"),
        ("ReduceScatter", "reduce_scatter"),
        ("alltoall", "all_to_all"),
        ("alltoallv", "all_to_all_v"),
        ("sendrecv", "send_recv"),
        ("send_recv_one_way", "send_recv_one_way"),
        ("bcast", "broadcast"),
        ("reduce", "reduce"),
    ],
)
def test_other_tools_spellings_are_understood(text: str, name: str) -> None:
    assert find_collective(text).name == name


def test_an_unknown_collective_gets_the_choices() -> None:
    with pytest.raises(UsageError, match="unknown collective 'hypercube': choose from all_gather, all_reduce"):
        find_collective("hypercube")


def test_the_twelve_collectives_and_the_six_primitives() -> None:
    assert COLLECTIVES.names() == (
        "all_gather",
        "all_reduce",
        "all_to_all",
        "all_to_all_v",
        "barrier",
        "broadcast",
        "gather",
        "reduce",
        "reduce_scatter",
        "scatter",
        "send_recv",
        "send_recv_one_way",
    )
    assert set(PRIMITIVES) < set(COLLECTIVES.names())
    assert set(ALIASES.values()) < set(COLLECTIVES.names())


@pytest.mark.parametrize(
    ("name", "size_bytes", "itemsize", "world_size", "count"),
    [
        ("all_gather", 4096, 2, 3, 2046),  # 2048 elements, 682 a rank
        ("all_gather", 8, 4, 4, 4),  # two elements are fewer than one a rank: the least is 16 bytes
        ("all_reduce", 4096, 2, 3, 2048),  # not cut into shards
        ("all_reduce", 3, 4, 2, 1),
        ("broadcast", 10, 4, 8, 2),
        ("barrier", 4096, 4, 8, 0),
    ],
)
def test_sizes_are_rounded_to_whole_elements_a_rank(
    name: str, size_bytes: int, itemsize: int, world_size: int, count: int
) -> None:
    assert COLLECTIVES.get(name).whole_count(size_bytes, itemsize, world_size) == count
