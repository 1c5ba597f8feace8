from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from busbw.comparing.matching import Refused, Side, Unmatched, Work, match
from busbw.core.call import Call
from busbw.core.measurement import Results
from busbw.errors import UsageError

Make = Callable[..., Results]

MIB = 2**20
AR = Call("all_reduce", MIB, 8, "float32", "sum", None, True)
AG = Call("all_gather", MIB, 8, "float32")


def matched(
    a: Results, b: Results, across: tuple[str, ...] = ()
) -> tuple[list[tuple[Work, Work]], list[Unmatched], list[Refused]]:
    return match(Side("A", [a], across), Side("B", [b], across))


def test_rows_match_by_call_and_what_is_left_over_is_listed(results: Make) -> None:
    other_size = Call("all_reduce", 2 * MIB, 8, "float32", "sum", None, True)
    pairs, unmatched, refused = matched(results({AR: [1, 1], AG: [2]}), results({AR: [1], other_size: [2]}))
    assert [work.call for work, _ in pairs] == [AR]
    assert [(item.side, item.work.call, item.launches) for item in unmatched] == [("A", AG, 1), ("B", other_size, 1)]
    assert refused == []


@pytest.mark.parametrize("other", [{"dtype": "bfloat16"}, {"redop": "max"}, {"in_place": False}, {"world_size": 4}])
def test_another_call_is_no_match(results: Make, other: dict[str, object]) -> None:
    pairs, unmatched, refused = matched(results({AR: [1]}), results({dataclasses.replace(AR, **other): [1]}))
    assert (pairs, refused, len(unmatched)) == ([], [], 2)


def test_what_one_side_does_not_say_matches_where_one_row_fits(results: Make) -> None:
    plain = Call("all_reduce", MIB, 8)
    pairs, unmatched, _ = matched(results({plain: [1]}), results({AR: [1]}))
    assert [(a.call, b.call) for a, b in pairs] == [(plain, AR)]
    half = Call("all_reduce", MIB, 8, "bfloat16", "sum", None, True)
    pairs, unmatched, _ = matched(results({plain: [1]}), results({AR: [1], half: [1]}))
    assert pairs == []
    assert len(unmatched) == 3


def test_settings_and_groups_keep_rows_apart(results: Make) -> None:
    ring, tree = results({AR: [1]}, {"NCCL_ALGO": "Ring"}), results({AR: [1]}, {"NCCL_ALGO": "Tree"})
    assert len(matched(ring, tree)[1]) == 2
    assert len(matched(ring, tree, ("NCCL_ALGO",))[0]) == 1
    assert len(matched(results({AR: [1]}, {"group": "0-3"}), results({AR: [1]}, {"group": "4-7"}))[1]) == 2


def test_facts_about_a_row_do_not_keep_it_apart(results: Make) -> None:
    a = results({AR: [1]}, {"backend": "nccl", "nccl": "2.19", "algorithm": "ring"})
    b = results({AR: [1]}, {"backend": "nccl", "nccl": "2.20", "algorithm": "tree"})
    assert len(matched(a, b)[0]) == 1


@pytest.mark.parametrize(
    ("label", "a", "b"),
    [
        ("sched", "batch", "default"),
        ("mode", "pipelined", "isolated"),
        ("rank_time", "slowest", "avg"),
        ("method", "busbw", "post"),
    ],
)
def test_rows_taken_in_another_way_are_refused_unless_asked(results: Make, label: str, a: str, b: str) -> None:
    sides = results({AR: [1]}, {label: a}), results({AR: [1]}, {label: b})
    pairs, unmatched, refused = matched(*sides)
    assert (pairs, unmatched) == ([], [])
    assert refused[0].reason == f"{label} is {a} in A and {b} in B; --across {label} compares them even so"
    assert len(matched(*sides, (label,))[0]) == 1


def test_a_label_that_is_not_there_is_the_default(results: Make) -> None:
    assert len(matched(results({AR: [1]}), results({AR: [1]}, {"sched": "default", "mode": "pipelined"}))[0]) == 1
    assert len(matched(results({AR: [1]}), results({AR: [1]}, {"mode": "isolated"}))[2]) == 1


def test_times_that_mean_different_things_are_refused(results: Make) -> None:
    pairs, _, refused = matched(results({AR: [1]}), results({AR: [1]}, marks=["mean_over_ranks", "few-samples"]))
    assert pairs == []
    assert refused[0].reason == "times mean different things: in B the time is a mean over the ranks"
    both = results({AR: [1]}, marks=["mean_over_ranks"])
    assert len(matched(both, both)[0]) == 1


@pytest.mark.parametrize("code", ["op_unknown", "world_size_unknown", "rate_contradicts_time", "validation_failed"])
def test_rows_that_are_no_evidence_are_refused_on_either_side(results: Make, code: str) -> None:
    bad = results({AR: [1]}, marks=[code])
    for sides in ((bad, results({AR: [1]})), (results({AR: [1]}), bad), (bad, bad)):
        pairs, unmatched, refused = matched(*sides)
        assert (pairs, unmatched) == ([], [])
        assert len(refused) >= 1


def test_wrong_results_and_times_of_0_are_refused(results: Make) -> None:
    _, _, refused = matched(results({AR: [1]}), results({AR: [1]}, wrong=3))
    assert refused[0].reason == "B: 3 elements of its results are wrong"
    _, _, refused = matched(results({AR: [0.0]}), results({AR: [1]}))
    assert refused[0].reason == "A: its time is 0"


def test_a_side_with_two_values_of_a_label_that_is_crossed_is_an_error(results: Make) -> None:
    mixture = Results(
        results({}).run,
        results({AR: [1]}, {"sched": "batch"}).measurements + results({AR: [1]}, {"sched": "fifo"}).measurements,
    )
    with pytest.raises(UsageError, match=r"--across sched: A itself has rows of all_reduce 1 MiB .* sched=batch, fifo"):
        matched(mixture, results({AR: [1]}), ("sched",))


def test_the_words_of_a_work(results: Make) -> None:
    (work,) = Side("A", [results({AR: [1]}, {"sched": "batch", "NCCL_ALGO": "Ring"})]).rows
    assert work.text() == "all_reduce 1 MiB N=8 float32 sum in place NCCL_ALGO=Ring sched=batch"
    assert work.curve_text() == "all_reduce N=8 float32 sum in place NCCL_ALGO=Ring sched=batch"
