"""What the user tells is for rows that do not tell it themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.core.call import UNKNOWN_COLLECTIVE
from busbw.formats import read_results
from busbw.formats._selection import read_selected, read_told


@pytest.fixture
def nameless(tmp_path: Path) -> str:
    """A table of sizes and times: neither the operation nor N."""
    path = tmp_path / "nameless.csv"
    path.write_text("size_bytes,time_us\n1048576,100\n2097152,190\n")
    return str(path)


def test_what_is_told_is_taken_where_nothing_is_known(nameless: str) -> None:
    assert {row.call.collective for row in read_results(nameless).measurements} == {UNKNOWN_COLLECTIVE}
    rows = read_selected(nameless, ("all_gather",), (2,)).measurements
    assert [(row.call.collective, row.call.world_size) for row in rows] == [("all_gather", 2)] * 2


def test_several_tell_nothing(nameless: str) -> None:
    assert read_selected(nameless, ("all_gather", "scatter")).measurements == ()
    told = read_told(nameless, ("all_gather", "scatter")).measurements
    assert {row.call.collective for row in told} == {UNKNOWN_COLLECTIVE}


def test_a_row_that_knows_better_is_left_out_and_never_renamed(golden: Path) -> None:
    path = str(golden / "post.csv")
    names = {row.call.collective for row in read_results(path).measurements}
    assert names
    assert "all_to_all" not in names
    assert read_selected(path, ("all_to_all",)).measurements == ()
    assert {row.call.collective for row in read_told(path, ("all_to_all",)).measurements} == names
    n = read_results(path).measurements[0].call.world_size
    assert {row.call.world_size for row in read_selected(path, (), (n,)).measurements} == {n}


def test_what_could_be_several_operations_is_what_it_is_told_to_be(tmp_path: Path) -> None:
    """At N = 2 the factor of all_reduce is 1, as that of send_recv; unchecked, nothing else tells them apart."""
    path = tmp_path / "pair.txt"
    half = "    100.0   10.49   10.49    N/A"
    path.write_text(
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
        f"     1048576        262144     float     sum      -1{half}{half}\n"
    )
    first, _ = read_results(str(path)).measurements
    assert "op_ambiguous" in {mark.code for mark in first.marks}
    told, _ = read_selected(str(path), ("send_recv",), (2,)).measurements
    assert told.call.collective == "send_recv"
    assert "op_ambiguous" not in {mark.code for mark in told.marks}
