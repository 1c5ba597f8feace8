from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from busbw.cli import main

pytest.importorskip("jinja2")
pytest.importorskip("vl_convert")

FAKE = ["bench", "--backend", "fake", "--op", "all_reduce", "--sizes", "4KiB,1MiB", "-n", "20", "-q"]


def data_of(page: Path) -> dict[str, Any]:
    """What the page's scripts work on."""
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_files_of_several_n_are_one_run(golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    assert main(["report", str(golden / "plots.csv"), "-o", str(page), "--title", "A <title>"]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert "<h1>A &lt;title&gt;</h1>" in page.read_text()
    assert [run["letter"] for run in data_of(page)["runs"]] == ["A"]


def test_two_runs_are_compared(golden: Path, tmp_path: Path) -> None:
    page, other = tmp_path / "report.html", tmp_path / "other.csv"
    other.write_text((golden / "plots.csv").read_text())
    assert main(["report", str(golden / "plots.csv"), str(other), "-o", str(page)]) == 0
    data = data_of(page)
    assert [run["name"] for run in data["runs"]] == ["plots.csv", "other.csv"]
    assert all(row["ratio"] == 1.0 for row in data["comparisons"][0]["rows"])


def test_launches_with_commas_are_one_run(golden: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text((golden / "plots.csv").read_text())
    page = tmp_path / "report.html"
    assert main(["report", f"{golden / 'plots.csv'},{other}", "-o", str(page)]) == 0
    assert data_of(page)["comparisons"] == []


def test_op_and_n_choose_rows(golden: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert main(["report", str(golden / "plots.csv"), "-o", str(page), "--op", "AllGather", "-N", "4"]) == 0
    data = data_of(page)
    assert (data["ops"], data["world_sizes"]) == (["all_gather"], [4])


def test_facts_are_those_of_explain(golden: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert main(["report", str(golden / "plots.csv"), "-o", str(page), "--peak", "50GB/s", "--fact", "acs=on"]) == 0
    assert re.search(r"<dt>peak</dt><dd>50.0 GB/s <span class=\"quiet\">\(--peak\)", page.read_text())


def test_an_older_page_is_replaced_and_nothing_else(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, rows = tmp_path / "report.html", tmp_path / "rows.csv"
    rows.write_text((golden / "plots.csv").read_text())
    assert main(["report", str(rows), "-o", str(page)]) == 0
    assert main(["report", str(rows), "-o", str(page)]) == 0
    before = rows.read_text()
    assert main(["report", str(rows), "-o", str(rows)]) == 2
    assert "exists and is no HTML page" in capsys.readouterr().err
    assert rows.read_text() == before


def test_a_folder_that_is_not_there(golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(golden / "plots.csv"), "-o", str(tmp_path / "none" / "report.html")]) == 2
    assert re.fullmatch(
        r"busbw report: error: .*report\.html: cannot be written: No such file or directory; name another file with -o\n",
        capsys.readouterr().err,
    )


def test_a_file_that_cannot_be_read_is_named_and_the_others_count(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    assert main(["report", str(golden / "plots.csv"), str(tmp_path / "none.csv"), "-o", str(page)]) == 2
    assert "none.csv: cannot be read" in capsys.readouterr().err
    assert len(data_of(page)["runs"]) == 1
    page.unlink()
    assert main(["report", str(tmp_path / "none.csv"), "-o", str(page)]) == 2
    assert not page.exists()


def test_nothing_left_says_what_was_asked(golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["report", str(golden / "plots.csv"), "-o", str(tmp_path / "report.html"), "-N", "512"]
    assert main(words) == 2
    assert "no row is left to report after -N 512" in capsys.readouterr().err


def test_without_the_libraries_the_answer_is_the_install_command(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert main(["report", str(golden / "plots.csv"), "-o", str(tmp_path / "report.html")]) == 2
    assert "pip install 'busbw[plot]'" in capsys.readouterr().err
    assert main([*FAKE, "--world", "2", "--report", str(tmp_path / "report.html")]) == 2


def test_bench_writes_it_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    assert main([*FAKE, "--world", "2", "--report", str(page)]) == 0
    assert f"# report: {page}" in capsys.readouterr().out
    data = data_of(page)
    assert len(data["rows"]) == 2
    assert re.search(r"<td>fake</td>", page.read_text())


def test_bench_writes_it_with_the_rows_so_far_when_a_rank_is_lost(tmp_path: Path) -> None:
    """The rank stops answering in its 100th timed call, when rows of 20 calls each are done."""
    page, rows = tmp_path / "report.html", tmp_path / "rows.jsonl"
    sizes = ",".join(f"{size}KiB" for size in range(4, 14))
    words = ["--op", "all_reduce", "--sizes", sizes, "-n", "20", "-w", "5", "--world", "2", "--timeout", "1s"]
    words += ["-o", str(rows), "--report", str(page), "--fake", "fault=hang:1"]
    assert main(["bench", "--backend", "fake", "-q", *words]) == 3
    kept = rows.read_text().count('"type":"measurement"')
    assert 1 <= kept < 10
    assert len(data_of(page)["rows"]) == kept
    assert "Ended early: rank 1" in page.read_text()


def test_bench_writes_it_with_the_rows_so_far_after_an_interruption(tmp_path: Path) -> None:
    page, rows = tmp_path / "report.html", tmp_path / "rows.jsonl"
    words = [
        "--op",
        "all_reduce",
        "--sizes",
        ",".join(f"{size}KiB" for size in range(4, 400)),
        "-n",
        "2000",
        "--world",
        "2",
    ]
    command = [
        sys.executable,
        "-m",
        "busbw",
        "bench",
        "--backend",
        "fake",
        *words,
        "-o",
        str(rows),
        "--report",
        str(page),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ) as bench:
        end = time.monotonic() + 60
        while time.monotonic() < end and (not rows.exists() or rows.read_text().count('"measurement"') < 2):
            time.sleep(0.05)
        bench.send_signal(signal.SIGINT)
        assert bench.wait(60) == 130
    kept = rows.read_text().count('"type":"measurement"')
    assert 2 <= kept < 396
    assert len(data_of(page)["rows"]) == kept


def test_the_posts_results_make_a_page_within_five_seconds(seed_files: list[Path], tmp_path: Path) -> None:
    """The whole process, as a user waits for it; processor time, since other work on the machine does not lengthen it."""
    page = tmp_path / "report.html"
    before = os.times()
    command = [sys.executable, "-m", "busbw", "report", *map(str, seed_files), "-o", str(page)]
    subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)
    after = os.times()
    took = after.children_user + after.children_system - before.children_user - before.children_system
    assert 0.1 < took < 5.0
    data = data_of(page)
    assert (len(data["rows"]), data["world_sizes"]) == (108, [2, 4, 8])
    text = page.read_text()
    assert "all_reduce at N=8 reaches 17.8 GB/s busbw" in text
    assert len(text.encode()) < 2.5 * 2**20
