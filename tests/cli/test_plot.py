from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.cli import main

pytest.importorskip("altair")
pytest.importorskip("vl_convert")


@pytest.fixture
def results(golden: Path) -> str:
    return str(golden / "plots.csv")


def test_draws_every_figure_into_the_folder_that_was_named(
    results: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "figures"
    assert main(["plot", results, "-o", str(folder), "--theme", "both"]) == 0
    names = ("bucketed_sync", "busbw_over_size", "scaling_with_n", "time_over_size", "where_the_time_goes")
    expected = {f"{name}{theme}.{ending}" for name in names for theme in ("", ".dark") for ending in ("svg", "png")}
    assert {path.name for path in folder.iterdir()} == expected
    assert {Path(line).name for line in capsys.readouterr().out.splitlines()} == expected


def test_one_figure_one_format(results: str, tmp_path: Path) -> None:
    words = ["plot", results, "-o", str(tmp_path), "--figure", "time_over_size", "--format", "svg", "--width", "380"]
    assert main(words) == 0
    (path,) = tmp_path.iterdir()
    assert path.name == "time_over_size.svg"
    assert path.read_text().startswith("<svg ")


def test_several_files_are_pooled(results: str, golden: Path, tmp_path: Path) -> None:
    words = ["plot", results, str(golden / "post.csv"), "-o", str(tmp_path), "--figure", "busbw_over_size"]
    assert main([*words, "--format", "svg"]) == 0
    svg = (tmp_path / "busbw_over_size.svg").read_text()
    assert all(f">{text}</text>" in svg for text in ("N = 2", "N = 4", "N = 8", "broadcast", "scatter"))


def test_op_and_world_choose_rows(results: str, tmp_path: Path) -> None:
    words = ["plot", results, "-o", str(tmp_path), "--op", "AllGather", "--world", "4", "--format", "svg"]
    assert main([*words, "--figure", "busbw_over_size", "--wire-limit", "200Gb/s"]) == 0
    svg = (tmp_path / "busbw_over_size.svg").read_text()
    assert "N = 2" not in svg
    assert "all_reduce" not in svg
    assert "wire 25.0 GB/s" in svg


def test_a_known_machine_draws_its_wire_and_says_where_it_is_from(results: str, tmp_path: Path) -> None:
    words = ["plot", results, "-o", str(tmp_path), "--figure", "busbw_over_size", "--format", "svg"]
    assert main([*words, "--machine", "dgx-a100"]) == 0
    svg = (tmp_path / "busbw_over_size.svg").read_text()
    assert "wire 300 GB/s" in svg
    assert "Wire: dgx-a100&apos;s link one way" in svg or "Wire: dgx-a100's link one way" in svg


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--figure", "busbw_over_sise"], "unknown figure 'busbw_over_sise': choose from all_reduce_against_halves"),
        (["--op", "all_reduces"], "unknown collective 'all_reduces'"),
        (["--world", "two"], "-N 'two': must be one or more numbers of ranks"),
        (["--world", "0"], "-N '0': must be"),
        (["--format", "pdf"], "--format 'pdf': choose from svg, png"),
        (["--width", "20"], "--width 20: must be a number of pixels from 320 to 4000"),
        (["--machine", "dgx-h10"], "unknown machine 'dgx-h10': choose from dgx-h100"),
        (["--bucket", "0"], "--bucket '0': must be above zero"),
        (["--wire-limit", "fast"], "'fast' is not a rate"),
        (["--op", "barrier"], "nothing to draw. The files hold all_gather, all_reduce, barrier at N = 1, 2, 4"),
        (["--op", "barrier", "--figure", "time_over_size"], "time_over_size: no row moves data"),
    ],
)
def test_a_bad_argument_gets_one_line(
    results: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["plot", results, "-o", str(tmp_path), *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_folder_that_cannot_be_made_is_found_before_drawing(
    results: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("mine")
    assert main(["plot", results, "-o", str(in_the_way)]) == 2
    assert f"-o {in_the_way}: this folder cannot be made" in capsys.readouterr().err
    assert in_the_way.read_text() == "mine"


def test_a_file_that_is_not_results_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert main(["plot", str(tmp_path / "notes.txt"), "-o", str(tmp_path / "out")]) == 2
    assert "notes.txt: not a results file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_help_lists_the_figures_and_loads_no_plotting_library() -> None:
    code = (
        "import sys\nfrom busbw.cli import main\ntry:\n    main(['plot', '--help'])\nexcept SystemExit:\n    pass\n"
        "assert not {'altair', 'vl_convert', 'numpy'} & set(sys.modules)"
    )
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "all_reduce_against_halves, bucketed_sync, busbw_over_size" in done.stdout
