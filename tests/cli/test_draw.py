from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.cli import main
from busbw.draw.images import write_docs_images


def test_primitives_in_both_themes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "primitives", "-o", str(tmp_path / "new" / "p.svg"), "--theme", "both"]) == 0
    assert [Path(line).name for line in capsys.readouterr().out.splitlines()] == ["p.svg", "p.dark.svg"]
    assert ">all_reduce</text>" in (tmp_path / "new" / "p.dark.svg").read_text()


def test_a_schedule_as_svg_png_and_html(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    for ending in ("svg", "png", "html"):
        words = [
            "draw",
            "schedule",
            "tree",
            "-N",
            "8",
            "--op",
            "broadcast",
            "--root",
            "3",
            "-o",
            str(tmp_path / f"s.{ending}"),
        ]
        assert main(words) == 0
    assert (tmp_path / "s.svg").read_text().startswith("<svg ")
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "s.html").read_text().startswith("<!doctype html>")


def test_steps_layout_and_width(tmp_path: Path) -> None:
    path = tmp_path / "s.svg"
    words = [
        "draw",
        "schedule",
        "ring",
        "-N",
        "4",
        "--layout",
        "rows",
        "--steps",
        "2",
        "--width",
        "900",
        "-o",
        str(path),
    ]
    assert main(words) == 0
    svg = path.read_text()
    assert 'width="900"' in svg
    assert "after step 2" in svg
    assert "after step 3" not in svg


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "schedule", "ring", "-N", "2", "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("<svg ")


def test_algorithms_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "schedule", "list"]) == 0
    assert "ring " in capsys.readouterr().out


def test_a_machine_with_counted_measured_and_simulated_numbers(tmp_path: Path, golden: Path) -> None:
    path = tmp_path / "t.svg"
    machine = ["draw", "topology", "pcie-8gpu", "-o", str(path)]
    assert main(machine) == 0
    assert " %" not in path.read_text()
    assert main([*machine, "--op", "all-reduce"]) == 0
    assert ">100 %</text>" in path.read_text()
    assert main([*machine, "--op", "all_reduce", "--busbw", "15.75GB/s"]) == 0
    assert ">50 %</text>" in path.read_text()
    assert main([*machine, "--op", "all_reduce", "--simulate", "1GiB"]) == 0
    assert "simulated (" in path.read_text()
    assert main([*machine, "--op", "all_reduce", "--results", str(golden / "post.csv")]) == 0
    assert "on 8 ranks, measured at 17.8 GB/s busbw" in path.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["primitives"], "say where to: -o FILE.svg"),
        (["primitives", "-o", "p.pdf"], "-o p.pdf: the file's name must end in .svg, .png or .html"),
        (["primitives", "-o", "p.html"], "-o p.html: only a schedule is drawn as HTML"),
        (["primitives", "-o", "-", "--theme", "both"], "--theme both: standard output takes one picture"),
        (["primitives", "-o", "p.svg", "--width", "20"], "--width 20: must be a number of pixels from 320 to 4000"),
        (["primitives", "-o", "p.svg", "--op", "barrier"], "barrier has no shards to draw"),
        (["schedule", "rign", "-o", "s.svg"], "unknown algorithm 'rign'"),
        (["schedule", "ring", "-N", "99", "-o", "s.svg"], "ring all_reduce on 99 ranks cannot be read as a picture"),
        (["schedule", "ring", "-N", "1", "-o", "s.svg"], "a schedule needs 2 ranks or more"),
        (["schedule", "ring", "--steps", "0", "-o", "s.svg"], "--steps 0: must be 1 or more"),
        (["schedule", "tree", "--layout", "ring", "-N", "8", "-o", "s.svg"], "is no ring on 8 ranks"),
        (["topology", "dgx-h1000", "-o", "t.svg"], "unknown topology 'dgx-h1000'"),
        (["topology", "pcie-8gpu", "-N", "4", "-o", "t.svg"], "-N needs --op"),
        (["topology", "pcie-8gpu", "--op", "all_reduce", "-N", "9", "-o", "t.svg"], "-N 9: pcie-8gpu has 8 GPUs"),
        (
            ["topology", "pcie-8gpu", "--op", "all_reduce", "--algorithm", "nvls", "-o", "t.svg"],
            "no switch that reduces",
        ),
        (
            ["topology", "pcie-8gpu", "--op", "all_reduce", "--busbw", "1GB/s", "--simulate", "1G", "-o", "t.svg"],
            "--busbw and --simulate: the numbers at the links come from one of them",
        ),
        (["topology", "pcie-8gpu", "--op", "all_reduce", "--busbw", "0GB/s", "-o", "t.svg"], "must be above zero"),
    ],
)
def test_a_bad_argument_gets_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_results_without_such_a_row_say_what_there_is(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["draw", "topology", "pcie-8gpu", "--op", "all_reduce", "-N", "4", "-o", "t.svg"]
    assert main([*words, "--results", str(golden / "post.csv")]) == 2
    assert "no row of all_reduce at N = 4; it has all_reduce at N = 8" in capsys.readouterr().err


def test_a_file_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    assert main(["draw", "primitives", "-o", str(tmp_path / "file" / "p.svg")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_the_images_of_the_docs_are_those_that_are_drawn_now(root: Path, tmp_path: Path) -> None:
    drawn = write_docs_images(tmp_path)
    assert {path.name for path in drawn} == {
        f"{name}{theme}.svg" for name in ("primitives", "ring_all_reduce", "topology") for theme in ("", ".dark")
    }
    for path in drawn:
        assert path.read_text() == (root / "docs" / "images" / path.name).read_text(), (
            f"draw {path.name} again: make figures"
        )


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom busbw.cli import main\ntry:\n    main(['draw', 'schedule', '--help'])\nexcept SystemExit:\n    pass\n"
        "assert not {'altair', 'vl_convert', 'numpy'} & set(sys.modules)"
    )
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "--layout" in done.stdout
