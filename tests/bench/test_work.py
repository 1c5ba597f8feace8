from __future__ import annotations

import pytest

from busbw.bench.settings import Settings
from busbw.bench.work import check_ranks, split_groups, work_list
from busbw.core.collective import Collective
from busbw.errors import UsageError


def anything(collective: Collective, dtype: str, redop: str | None, in_place: bool) -> str | None:
    return None


def keys(settings: Settings, world_size: int) -> list[str]:
    return [item.key for item in work_list(settings, world_size, anything).items]


def test_sizes_are_rounded_to_whole_elements_per_rank_and_doubles_are_taken_once() -> None:
    settings = Settings(collectives=("all_gather", "all_reduce"), sizes=(4, 8, 100))
    # all_gather at N=3 needs a multiple of 12 B: 4 and 8 become 12, 100 becomes 96. all_reduce takes whole elements.
    assert keys(settings, 3) == [
        "all_gather 12 B float32 out-of-place N=3",
        "all_gather 96 B float32 out-of-place N=3",
        "all_reduce 4 B float32 sum out-of-place N=3",
        "all_reduce 8 B float32 sum out-of-place N=3",
        "all_reduce 100 B float32 sum out-of-place N=3",
    ]


def test_redops_apply_to_reductions_only_and_roots_to_rooted_collectives_only() -> None:
    settings = Settings(collectives=("broadcast", "reduce"), sizes=(8,), redops=("sum", "max"), roots=None)
    assert keys(settings, 2) == [
        "broadcast 8 B float32 root 0 out-of-place N=2",
        "broadcast 8 B float32 root 1 out-of-place N=2",
        "reduce 8 B float32 sum root 0 out-of-place N=2",
        "reduce 8 B float32 sum root 1 out-of-place N=2",
        "reduce 8 B float32 max root 0 out-of-place N=2",
        "reduce 8 B float32 max root 1 out-of-place N=2",
    ]


def test_both_places_run_out_of_place_first_and_skip_what_has_no_in_place_form() -> None:
    settings = Settings(collectives=("all_reduce", "all_to_all"), sizes=(8,), placement="both")
    assert keys(settings, 2) == [
        "all_reduce 8 B float32 sum out-of-place N=2",
        "all_reduce 8 B float32 sum in-place N=2",
        "all_to_all 8 B float32 out-of-place N=2",
    ]


def test_what_the_backend_cannot_do_is_left_out_with_its_reason() -> None:
    def no_half(collective: Collective, dtype: str, redop: str | None, in_place: bool) -> str | None:
        return "it has no float16" if dtype == "float16" else None

    plan = work_list(Settings(collectives=("all_reduce",), sizes=(8,), dtypes=("float16", "float32")), 2, no_half)
    assert [item.call.dtype for item in plan.items] == ["float32"]
    assert plan.notes == ("it has no float16: skipped",)


def test_what_neither_place_can_do_is_left_out_with_both_reasons() -> None:
    def no_uint64(collective: Collective, dtype: str, redop: str | None, in_place: bool) -> str | None:
        return "it has no uint64" if in_place else "it has no out-of-place form"

    plan = work_list(Settings(collectives=("all_reduce",), sizes=(8,), dtypes=("uint64",)), 2, no_uint64)
    assert plan.notes == ("it has no out-of-place form; it has no uint64: skipped",)


def test_a_size_that_does_not_fit_into_memory_is_left_out_and_named() -> None:
    plan = work_list(Settings(collectives=("all_reduce",), sizes=(1024, 1 << 20)), 2, anything, memory_bytes=100_000)
    assert [item.call.size_bytes for item in plan.items] == [1024]
    assert plan.notes == ("all_reduce of 1 MiB needs 3 MiB a rank and 97.66 KiB may be used: skipped",)


def test_a_collective_that_needs_two_ranks_is_left_out_at_one() -> None:
    plan = work_list(Settings(collectives=("send_recv",), sizes=(8,)), 1, anything)
    assert plan.items == ()
    assert "needs 2 ranks" in plan.notes[0]


def test_a_root_that_is_no_rank_is_refused() -> None:
    with pytest.raises(UsageError, match="--root 5: must be below the world size, 4"):
        work_list(Settings(collectives=("broadcast",), sizes=(8,), roots=(5,)), 4, anything)


@pytest.mark.parametrize(
    ("split", "groups"),
    [
        (None, ((0, 1, 2, 3),)),
        ("mod 2", ((0, 2), (1, 3))),
        ("div 2", ((0, 1), (2, 3))),
        ("0-1,2-3", ((0, 1), (2, 3))),
        ("0,3/1-2", ((0, 3), (1, 2))),
    ],
)
def test_groups_of_a_split(split: str | None, groups: tuple[tuple[int, ...], ...]) -> None:
    assert split_groups(split, 4) == groups


@pytest.mark.parametrize("split", ["mod 0", "0-1", "0-1,1-3", "0-4", "every second", "0-1,2-3,"])
def test_a_split_that_misses_or_repeats_a_rank_is_refused(split: str) -> None:
    with pytest.raises(UsageError, match="--split"):
        split_groups(split, 4)


def carries_out(collective: Collective, dtype: str, redop: str | None) -> str | None:
    return "no prod here" if redop == "prod" else None


def test_algorithms_are_rows_beside_the_backends_own() -> None:
    settings = Settings(
        collectives=("all_reduce", "all_gather"),
        sizes=(100,),
        redops=("sum", "prod"),
        algorithms=("own", "ring", "tree"),
    )
    plan = work_list(settings, 3, anything, carries_out=carries_out)
    assert [item.key for item in plan.items] == [
        "all_reduce 100 B float32 sum out-of-place N=3",
        "all_reduce 100 B float32 prod out-of-place N=3",
        "all_reduce 100 B float32 sum out-of-place N=3 by ring",
        "all_reduce 100 B float32 sum out-of-place N=3 by tree",
        "all_gather 96 B float32 out-of-place N=3",
        "all_gather 96 B float32 out-of-place N=3 by ring",
    ]
    assert [item.schedule is None for item in plan.items] == [True, True, False, False, True, False]
    assert plan.notes == (
        "no prod here: skipped",
        "algorithm tree has no all_gather: it does all_reduce, broadcast, gather, reduce, scatter: skipped",
    )


def test_a_schedule_takes_the_backends_own_placement_so_that_rows_can_be_compared() -> None:
    def one_tensor(collective: Collective, dtype: str, redop: str | None, in_place: bool) -> str | None:
        return None if in_place else "in place only"

    settings = Settings(collectives=("all_reduce",), sizes=(8,), algorithms=("ring",))
    (item,) = work_list(settings, 2, one_tensor, carries_out=carries_out).items
    assert item.call.in_place is True
    both = Settings(collectives=("all_reduce",), sizes=(8,), algorithms=("ring",), placement="both")
    places = [item.call.in_place for item in work_list(both, 2, one_tensor, carries_out=carries_out).items]
    assert places == [False, True]


def test_each_root_has_its_schedule() -> None:
    settings = Settings(collectives=("broadcast",), sizes=(8,), roots=None, algorithms=("tree",))
    items = work_list(settings, 3, anything, carries_out=carries_out).items
    assert [item.schedule.root for item in items if item.schedule is not None] == [0, 1, 2]


def test_an_option_that_does_not_suit_n_is_refused_before_ranks_start() -> None:
    with pytest.raises(UsageError, match="order 0-2-1-3: it must have each rank from 0 to 1 once"):
        check_ranks(Settings(collectives=("all_reduce",), algorithms=("ring(order=0-2-1-3)",)), 2)
