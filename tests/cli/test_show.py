from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_show_prints_what_was_read_even_when_another_file_cannot_be(busbw: Run, golden: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("nothing that we know\n")
    done = busbw("show", str(golden / "post.csv"), str(bad))
    assert done.returncode == 2
    assert "all_reduce" in done.stdout
    assert "bad.txt" in done.stderr
    assert "Traceback" not in done.stderr


def test_show_json_has_file_and_line(busbw: Run, golden: Path) -> None:
    rows = json.loads(busbw("show", "--json", str(golden / "post.csv")).stdout)
    assert rows[0]["source"] == {"file": str(golden / "post.csv"), "line": 2}


def test_show_reads_standard_input(golden: Path) -> None:
    import sys

    text = (golden / "post.csv").read_text()
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "show", "-"],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "all_reduce" in done.stdout


def test_show_says_that_a_file_holds_no_rows(busbw: Run, golden: Path, tmp_path: Path) -> None:
    begun = tmp_path / "begun.jsonl"
    begun.write_text('{"type":"run","format":1}\n')
    done = busbw("show", str(begun))
    assert done.returncode == 2
    assert f"{begun}" in done.stderr
    assert "has no row" in done.stderr
    assert "no rows of barrier" in busbw("show", str(golden / "post.csv"), "--op", "barrier").stdout


def test_show_prints_one_form(busbw: Run, golden: Path) -> None:
    assert busbw("show", "--json", "--csv", str(golden / "post.csv")).returncode == 2


def test_what_the_file_does_not_tell_is_told(busbw: Run, tmp_path: Path) -> None:
    log = tmp_path / "nameless.txt"
    log.write_text(
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
        "     1048576        262144     float    none      -1    100.0   10.49    5.24      0    100.0   10.49    5.24      0\n"
    )
    rows = json.loads(busbw("show", "--json", "--op", "all_gather", "-N", "2", str(log)).stdout)
    assert [(row["collective"], row["world_size"]) for row in rows] == [("all_gather", 2)] * 2
    assert busbw("show", "-N", "two", str(log)).returncode == 2


def test_lines_that_could_not_be_read_are_counted_and_shown(busbw: Run, tmp_path: Path) -> None:
    log = tmp_path / "torn.txt"
    log.write_text(
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
        "     1048576        262144     float     sum      -1    100.0   10.49   10.49      0    100.0   10.49   10.49      0\n"
        "     2097152        524288     float     sum      -1    100.0   10.4x   10.49      0    1\n"
    )
    done = busbw("show", str(log))
    assert done.returncode == 0
    assert "1 line that look like rows could not be read (-v shows them)" in done.stdout
    strict = busbw("show", "--strict", str(log))
    assert strict.returncode == 2
    assert f"{log}:3: " in strict.stdout
    assert busbw("show", "--strict", "--json", str(log)).returncode == 2


def test_what_a_file_does_not_say_is_blank_and_what_is_not_there_is_none(tmp_path: Path, busbw: Run) -> None:
    path = tmp_path / "a.csv"
    rows = "all_reduce,8,4096,0.1,,\nbroadcast,8,4096,0.1,,\nall_gather,8,4096,0.1,,\n"
    path.write_text("op,world_size,bytes,time_ms,algbw_GBps,busbw_GBps\n" + rows)
    lines = [line for line in busbw("show", str(path)).stdout.splitlines() if not line.startswith("#")]
    assert [line[36:49].strip() for line in lines] == ["-1", "none", "none    -1"]
