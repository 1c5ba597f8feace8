from __future__ import annotations

from pathlib import Path

import pytest

from busbw.algorithms.spec import parse_algorithm, split_algorithms
from busbw.core.verify import verify
from busbw.errors import FileError, UsageError

STAR = '''
from busbw import Sketch

def star(world_size, root=0, centre=0):
    """All-reduce through one rank."""
    sketch = Sketch("all_reduce", world_size, chunks=1)
    others = [rank for rank in range(world_size) if rank != centre]
    sketch.round("in")
    for rank in others:
        sketch.add(rank, centre, 0)
    sketch.round("out")
    for rank in others:
        sketch.copy(centre, rank, 0)
    return sketch.schedule("star")

def half(world_size):
    sketch = Sketch("all_reduce", world_size, chunks=1)
    sketch.round()
    sketch.add(1, 0, 0)
    return sketch.schedule()

def crash(world_size):
    return [][world_size]

def number(world_size):
    return 7

def any_op(world_size, collective, root):
    from busbw.core.schedule import ALGORITHMS
    return ALGORITHMS.get("tree").build(collective, world_size, root=root)

NOT_CALLABLE = 3
'''


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(STAR)
    return path


def test_names_and_options_are_typed_and_shown_alike() -> None:
    assert parse_algorithm("ring").text == "ring"
    spec = parse_algorithm(" Ring( order = 0-2-1-3 ) ")
    assert (spec.text, dict(spec.options)) == ("ring(order=0-2-1-3)", {"order": (0, 2, 1, 3)})
    spec = parse_algorithm("multi-ring(orders=0-1-2/2-1-0)")
    assert (spec.text, spec.options["orders"]) == ("multi_ring(orders=0-1-2/2-1-0)", ((0, 1, 2), (2, 1, 0)))
    spec = parse_algorithm("torus_2d(rows=2,both_ways=1)")
    assert (spec.text, dict(spec.options)) == ("torus_2d(both_ways=1,rows=2)", {"rows": 2, "both_ways": 1})
    assert parse_algorithm(spec.text) == spec


def test_a_list_is_parted_outside_of_brackets() -> None:
    assert split_algorithms("own, ring(order=0-2-1-3),torus_2d(rows=2,both_ways=1),") == [
        "own",
        "ring(order=0-2-1-3)",
        "torus_2d(rows=2,both_ways=1)",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ring(order=0-2", "write a name, with options in brackets"),
        ("", "write a name, with options in brackets"),
        ("rung", "unknown algorithm 'rung': choose from .*; did you mean ring?"),
        ("ring(chunk=2)", r"ring has no option 'chunk' \(order, chunks\)"),
        ("ring(order)", "'order' is no option: write NAME=VALUE"),
        ("ring(chunks=2,chunks=3)", "the option chunks stands there twice"),
        ("spec", "unknown algorithm 'spec'"),
        ("mine.py", "say which function of the file it is: mine.py:NAME"),
    ],
)
def test_what_is_wrong_with_a_name(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_algorithm(text)


def test_a_users_function_is_an_algorithm(mine: Path) -> None:
    spec = parse_algorithm(f"{mine}:star(centre=2)")
    assert spec.text == f"{mine}:star(centre=2)"
    assert spec.algorithm.summary == "All-reduce through one rank."
    schedule = spec.build("all_reduce", 4)
    verify(schedule)
    assert schedule.sent_share().tolist() == [1, 1, 3, 1]
    assert spec.why_not("all_reduce", 5) == ""
    assert "made a all_reduce of 4 ranks, and a broadcast of 4 was asked for" in spec.why_not("broadcast", 4)


def test_a_users_function_may_do_several_collectives(mine: Path) -> None:
    spec = parse_algorithm(f"{mine}:any_op")
    assert spec.build("broadcast", 5, root=3).root == 3
    assert spec.build("all_reduce", 4).round_count == 4
    assert "no all_gather" in spec.why_not("all_gather", 4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("half", r"round 1 \(the end\): slot 0 of rank 0 holds chunk 0 of rank 0-1, and must hold chunk 0 of rank 0-3"),
        ("crash", r"mine.py:crash at N=4: .*mine.py:23: IndexError: list index out of range"),
        ("number", "mine.py:number returned int: it must return a Schedule"),
    ],
)
def test_a_users_mistake_is_one_clear_line(mine: Path, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_algorithm(f"{mine}:{name}").build("all_reduce", 4)


def test_files_that_cannot_be_used(mine: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the file has no stra; it has star, half, crash, number, any_op"):
        parse_algorithm(f"{mine}:stra")
    with pytest.raises(UsageError, match="NOT_CALLABLE is int: it must be a function that returns a Schedule"):
        parse_algorithm(f"{mine}:NOT_CALLABLE")
    with pytest.raises(UsageError, match=r"star has no option 'center' \(centre\)"):
        parse_algorithm(f"{mine}:star(center=1)")
    with pytest.raises(FileError, match=r"none.py: there is no such Python file"):
        parse_algorithm(f"{tmp_path}/none.py:f")
    (tmp_path / "bad.py").write_text("def f(:\n")
    with pytest.raises(FileError, match=r"bad.py:1: invalid syntax"):
        parse_algorithm(f"{tmp_path}/bad.py:f")
    (tmp_path / "raises.py").write_text("x = 1\ny = x / 0\n")
    with pytest.raises(FileError, match=r"raises.py:2: importing it raises ZeroDivisionError: division by zero"):
        parse_algorithm(f"{tmp_path}/raises.py:f")


def test_a_sketch_needs_a_round_first() -> None:
    from busbw import Sketch

    with pytest.raises(UsageError, match=r"a sketch needs round\(\) before its first transfer"):
        Sketch("all_reduce", 2).add(0, 1, 0)
    with pytest.raises(UsageError, match="unknown collective"):
        Sketch("nothing", 2)
