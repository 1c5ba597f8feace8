from __future__ import annotations

import pytest

from busbw.core.measurement import Mark
from busbw.plots.figure import FigureOptions
from busbw.plots.lines import left_out, make_lines, marks_notes, pick_collectives, repeats_note, select, to_series

from .rows import row

MIB = 2**20


def test_one_line_for_each_collective_and_n_ordered_as_the_tables_are() -> None:
    rows = [
        row("reduce", 4, MIB, 1e-3),
        row("all_reduce", 8, MIB, 1e-3),
        row("all_reduce", 2, MIB, 1e-3),
        row("broadcast", 2, MIB, 1e-3),
    ]
    found = [(line.collective, line.world_size) for line in make_lines(rows)]
    assert found == [("broadcast", 2), ("all_reduce", 2), ("all_reduce", 8), ("reduce", 4)]


def test_points_are_ordered_by_size_whatever_the_file_did() -> None:
    (line,) = make_lines([row("all_reduce", 2, size, 1e-3) for size in (4 * MIB, 1, MIB)])
    assert [point.size_bytes for point in line.points] == [1, MIB, 4 * MIB]


def test_repeats_are_one_point_at_the_median_with_their_range() -> None:
    rows = [row("all_reduce", 2, MIB, t, repeat=i) for i, t in enumerate((3e-3, 1e-3, 2e-3))]
    (line,) = make_lines(rows)
    (point,) = line.points
    assert (point.time_s, point.low_s, point.high_s, point.rows) == (2e-3, 1e-3, 3e-3, 3)
    assert repeats_note([line]) == ("Points measured more than once are medians; their bars span all repeats.",)


def test_a_single_row_keeps_the_interval_of_its_samples() -> None:
    (line,) = make_lines([row("all_reduce", 2, MIB, 2e-3, low_high=(1.9e-3, 2.2e-3))])
    assert (line.points[0].low_s, line.points[0].high_s) == (1.9e-3, 2.2e-3)
    assert repeats_note([line]) == ()


def test_what_differs_at_one_size_splits_the_line() -> None:
    rows = [row("all_reduce", 2, size, 1e-3, dtype=dtype) for size in (1024, MIB) for dtype in ("float32", "bfloat16")]
    first, second = make_lines(rows)
    assert (first.name, second.name) == ("all_reduce float32", "all_reduce bfloat16")
    assert (first.variant_index, second.variant_index) == (0, 1)
    assert [len(line.points) for line in (first, second)] == [2, 2]


def test_what_differs_only_between_sizes_splits_nothing() -> None:
    rows = [row("all_reduce", 2, 1024, 1e-3, labels={"protocol": "LL"}), row("all_reduce", 2, MIB, 1e-3)]
    (line,) = make_lines(rows)
    assert line.name == "all_reduce"


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        ({"in_place": False}, {"in_place": True}, ["out of place", "in place"]),
        ({"redop": "sum"}, {"redop": "max"}, ["sum", "max"]),
        ({"root": 0}, {"root": 3}, ["root 0", "root 3"]),
        ({"labels": {"group": "0-3"}}, {"labels": {"group": "4-7"}}, ["group 0-3", "group 4-7"]),
        ({"labels": {"NCCL_ALGO": "Ring"}}, {"labels": {"NCCL_ALGO": "Tree"}}, ["Ring", "Tree"]),
        ({"file": "runs/before.csv"}, {"file": "runs/after.csv"}, ["before", "after"]),
        ({"file": "before/run.csv"}, {"file": "after/run.csv"}, ["before/run.csv", "after/run.csv"]),
    ],
)
def test_names_of_variants(first: dict, second: dict, names: list[str]) -> None:  # type: ignore[type-arg]
    rows = [row("all_reduce", 4, MIB, 1e-3, **first), row("all_reduce", 4, MIB, 2e-3, **second)]
    assert [line.variant for line in make_lines(rows)] == names


def test_the_fewest_fields_are_named() -> None:
    rows = [
        row("broadcast", 4, MIB, 1e-3, root=0, labels={"group": "0-3", "host": "a"}),
        row("broadcast", 4, MIB, 1e-3, root=4, labels={"group": "4-7", "host": "b"}),
    ]
    assert [line.variant for line in make_lines(rows)] == ["root 0", "root 4"]


def test_a_backend_is_named_before_the_place_that_it_brings_along() -> None:
    rows = [
        row("all_reduce", 2, MIB, 1e-3, in_place=True, labels={"backend": "gloo"}),
        row("all_reduce", 2, MIB, 2e-3, in_place=False, labels={"backend": "mpi"}),
    ]
    assert [line.variant for line in make_lines(rows)] == ["gloo", "mpi"]


def test_files_that_cover_different_n_are_pooled_without_names() -> None:
    rows = [row("all_reduce", 2, MIB, 1e-3, file="n2.csv"), row("all_reduce", 4, MIB, 1e-3, file="n4.csv")]
    assert [line.name for line in make_lines(rows)] == ["all_reduce", "all_reduce"]


def test_a_variant_has_the_same_index_at_every_n() -> None:
    rows = [row("all_reduce", 2, MIB, 1e-3, dtype=dtype) for dtype in ("float32", "bfloat16")]
    rows += [row("all_reduce", 4, MIB, 1e-3, dtype=dtype) for dtype in ("bfloat16", "float32")]
    index = {(line.world_size, line.variant): line.variant_index for line in make_lines(rows)}
    assert index == {(2, "float32"): 0, (2, "bfloat16"): 1, (4, "float32"): 0, (4, "bfloat16"): 1}


def test_rows_without_busbw_are_left_out_and_counted() -> None:
    rows = [
        row("all_reduce", 1, MIB, 1e-5),
        row("all_reduce", 2, MIB, 1e-3),
        row("barrier", 4, 0, 3e-5),
        row("all_reduce", 2, 0, 1e-5),
    ]
    assert [(line.collective, line.world_size) for line in make_lines(rows)] == [("all_reduce", 2)]
    note = "Left out, having no busbw: 1 row at N = 1, 2 rows without data to move (barrier, S = 0)."
    assert left_out(rows) == (note,)
    assert left_out(rows[1:2]) == ()


def test_rates_turn_an_interval_of_times_around() -> None:
    (line,) = make_lines([row("all_reduce", 4, 10**9, 1.0, low_high=(0.8, 1.25))])
    series = to_series(line, line.busbw_Bps)
    assert series.y == (1.5e9,)  # 2(N-1)/N = 1.5
    assert series.low == (pytest.approx(1.2e9),)
    assert series.high == (pytest.approx(1.875e9),)


def test_marks_are_kept_with_their_point_and_told_once_a_kind() -> None:
    drift, modes = Mark("drift", "the level drifts by 9 %"), Mark("two_modes", "two speeds")
    rows = [
        row("all_reduce", 4, 1024, 1e-3, marks=(drift,)),
        row("all_reduce", 4, MIB, 1e-3, marks=(drift, modes)),
        row("all_reduce", 4, 4 * MIB, 1e-3),
    ]
    (line,) = make_lines(rows)
    series = to_series(line, line.busbw_Bps)
    assert [(point.x, point.marks) for point in series.marked] == [(1024.0, (drift,)), (float(MIB), (drift, modes))]
    assert [point.y for point in series.marked] == list(series.y[:2])
    assert marks_notes([line]) == (
        "○ Read with care: all_reduce, N = 4, 1 KiB: the level drifts by 9 % (and 1 more point).",
        "○ Read with care: all_reduce, N = 4, 1 MiB: two speeds.",
    )


def test_many_kinds_of_marks_are_counted() -> None:
    codes = ("drift", "few-samples", "few-samples", "rank-skew")
    rows = [row("all_reduce", 4, 2**i, 1e-3, marks=(Mark(code, "why"),)) for i, code in enumerate(codes)]
    assert marks_notes(make_lines(rows)) == (
        "○ Read with care: few-samples (2 points), drift (1 point), rank-skew (1 point); busbw show gives the reasons.",
    )


def test_a_wrong_result_is_marked_even_when_nobody_else_did() -> None:
    (line,) = make_lines([row("all_reduce", 4, MIB, 1e-3, wrong=7), row("all_reduce", 4, 1024, 1e-3, wrong=0)])
    assert [[mark.reason for mark in point.marks] for point in line.points] == [[], ["7 elements came out wrong"]]


def test_options_select_rows_and_the_collective_that_a_figure_shows() -> None:
    rows = [row(op, n, MIB, 1e-3) for op in ("gather", "all_reduce") for n in (2, 4)]
    assert len(select(rows, FigureOptions())) == 4
    chosen = select(rows, FigureOptions(("gather",), (4,)))
    assert [(r.call.collective, r.call.world_size) for r in chosen] == [("gather", 4)]
    assert {line.collective for line in pick_collectives(make_lines(rows), FigureOptions())} == {"all_reduce"}
    assert {line.collective for line in pick_collectives(make_lines(rows[:2]), FigureOptions())} == {"gather"}
    asked = FigureOptions(collectives=("gather", "all_reduce"))
    assert len(pick_collectives(make_lines(rows), asked)) == 4
