"""docs/the-post.md and its figures are what the command makes of the post's results, and the verdicts are the right ones."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from busbw.formats import read_results

pytest.importorskip("altair")
pytest.importorskip("vl_convert")


@pytest.fixture(scope="module")
def made(root: Path) -> ModuleType:
    path = root / "examples" / "the_post" / "make.py"
    spec = importlib.util.spec_from_file_location("the_post_make", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


@pytest.fixture(scope="module")
def post(made: ModuleType, seed_files: list[Path]) -> object:
    return made.Post([read_results(str(file)) for file in seed_files])


def test_the_page_is_up_to_date(made: ModuleType, post: object, root: Path) -> None:
    assert (root / "docs" / "the-post.md").read_text(encoding="utf-8") == made.page(post), "run make figures"


def test_the_figures_are_up_to_date(made: ModuleType, post: object, root: Path) -> None:
    from busbw.plots.render_altair import to_svg

    charts = made.charts(post)
    assert list(charts) == list(made.SHOWN)
    for name in charts:
        assert {(root / "docs" / "images" / f"{name}{theme}.svg").is_file() for theme in ("", ".dark")} == {True}
    drawn = (root / "docs" / "images" / "scaling_with_n.dark.svg").read_text(encoding="utf-8")
    assert drawn == to_svg(charts["scaling_with_n"], "dark"), "run make figures"


def test_the_verdicts(made: ModuleType, post: object) -> None:
    verdicts = {statement.title: statement.judge(post).verdict for statement in made.STATEMENTS}
    assert verdicts == {
        "A ring all-reduce sends 2(N-1)/N S": "holds",
        "The floor is to send about S and receive about S": "does not hold",
        "Ring collectives share a plateau": "holds",
        "algbw of all-reduce is half of all-gather's": "holds",
        "Links are full-duplex, so send and receive don't compete": "does not hold",
        "The ring's wall is the UPI link": "does not hold",
        "busbw nearly collapses onto one curve over N": "holds",
        "Small messages pay latency, large ones bandwidth": "holds",
        "Time is flat below 64 KiB": "cannot tell",
        "The latency floor grows linearly with N": "does not hold",
        "The boundary lies at about 1 MiB": "does not hold",
        "Protocols and algorithms make the bumps in the curves": "cannot tell",
        "All-reduce is reduce-scatter, then all-gather": "holds from 16 MiB up",
        "T = 2(N-1) (S/(N B) + alpha)": "holds from 16 MiB up",
        "Tensors reduced one by one pay for their number": "holds",
    }


def test_every_statement_names_a_figure_that_is_drawn(made: ModuleType) -> None:
    assert {statement.figure for statement in made.STATEMENTS} - {""} == set(made.SHOWN)


def test_without_the_results_the_way_out_is_named(
    made: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["make.py", str(tmp_path)])
    assert made.main() == 2
    assert "SEED=DIR" in capsys.readouterr().err
