from __future__ import annotations

import dataclasses

import pytest

from busbw.core.call import Call
from busbw.errors import UsageError

GIB = 2**30


def test_the_posts_own_row_all_reduce_of_1_gib_at_8_ranks() -> None:
    """105.3 ms: 1073741824 B / 0.1053 s = 10.197 GB/s, times 2 x 7/8."""
    call = Call("all_reduce", GIB, 8)
    assert call.algbw_Bps(0.1053) == pytest.approx(10.19698e9, rel=1e-6)
    assert call.busbw_Bps(0.1053) == pytest.approx(17.84472e9, rel=1e-6)


def test_nothing_moves_in_a_group_of_one_so_busbw_is_unknown() -> None:
    call = Call("broadcast", 1000, 1)
    assert call.algbw_Bps(1e-6) == pytest.approx(1e9)
    assert call.busbw_Bps(1e-6) is None


def test_a_barrier_and_a_time_of_zero_have_no_rate() -> None:
    assert Call("barrier", 0, 8).algbw_Bps(1e-6) is None
    assert Call("barrier", 0, 8).busbw_Bps(1e-6) is None
    assert Call("all_reduce", 8, 8).busbw_Bps(0.0) is None


@pytest.mark.parametrize(("dtype", "count"), [("bfloat16", 2048), ("float32", 1024), ("uint8", 4096), (None, None)])
def test_count_is_that_of_the_whole_tensor(dtype: str | None, count: int | None) -> None:
    assert Call("all_gather", 4096, 4, dtype).count == count


def test_it_is_a_key() -> None:
    prices = {Call("all_reduce", 8, 2, "float32", "sum"): 1.0}
    assert prices[Call("all_reduce", 8, 2, "float32", "sum")] == 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        Call("all_reduce", 8, 2).size_bytes = 9  # type: ignore[misc]


def test_json_round_trip_ignores_keys_that_are_not_known() -> None:
    call = Call("reduce", 4096, 4, "float16", "max", 3, True)
    assert Call.from_json({**call.to_json(), "colour": "red"}) == call


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("collective", "all_redcue"),
        ("collective", 5),
        ("size_bytes", -1),
        ("size_bytes", 1.5),
        ("size_bytes", True),
        ("size_bytes", 2**63),
        ("world_size", -1),
        ("world_size", "8"),
        ("dtype", "float31"),
        ("dtype", ["float32"]),
        ("root", "a"),
        ("redop", 1),
        ("in_place", 1),
    ],
)
def test_what_is_not_a_call_is_refused_when_read(field: str, value: object) -> None:
    with pytest.raises((UsageError, ValueError, TypeError)) as caught:
        Call.from_json({**Call("reduce", 8, 2, "float32", "sum", 0).to_json(), field: value})
    assert str(value) in str(caught.value)


def test_a_collective_that_does_not_exist_gets_the_choices() -> None:
    with pytest.raises(UsageError, match=r"did you mean all_reduce\?"):
        Call.from_json({"collective": "all_redcue", "size_bytes": 8, "world_size": 2})
