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
