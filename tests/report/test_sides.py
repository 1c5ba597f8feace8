from __future__ import annotations

from busbw.report.sides import letter, make_sides

from .rows import results


def test_files_of_other_n_are_one_run() -> None:
    sides = make_sides([[results(file="n2.csv", worlds=(2,))], [results(file="n4.csv", worlds=(4,))]])
    assert [(side.letter, side.name, len(side.files)) for side in sides] == [("A", "n2.csv and 1 more", 2)]


def test_files_with_the_same_work_are_runs_in_the_order_given() -> None:
    inputs = [[results(file=f"{day}/run.jsonl", worlds=(2,))] for day in ("monday", "tuesday", "friday")]
    sides = make_sides(inputs)
    assert [(side.letter, side.name) for side in sides] == [
        ("A", "monday/run.jsonl"),
        ("B", "tuesday/run.jsonl"),
        ("C", "friday/run.jsonl"),
    ]


def test_two_runs_of_two_files_each_are_paired() -> None:
    names = ("a2", "a4", "b2", "b4")
    sides = make_sides([[results(file=name, worlds=(int(name[1]),))] for name in names])
    assert [side.file_names for side in sides] == [("a2", "a4"), ("b2", "b4")]


def test_launches_of_one_run_stay_together() -> None:
    sides = make_sides([[results(file="a1"), results(file="a2")], [results(file="b1")]])
    assert [side.file_names for side in sides] == [("a1", "a2"), ("b1",)]


def test_letters_go_on_behind_z() -> None:
    assert [letter(index) for index in (0, 25, 26, 27, 52)] == ["A", "Z", "AA", "AB", "BA"]
