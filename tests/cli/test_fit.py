from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.cli import main
from busbw.core.call import Call
from busbw.core.cost_form import Overlap
from busbw.core.cost_model import CostModel
from busbw.core.measurement import Measurement
from busbw.formats import post_csv


@pytest.fixture
def results(tmp_path: Path) -> str:
    """All-reduce at N = 2, 4, 8: 10 us + 3 us a step and 20 GB/s, and all-gather at N = 2."""
    rows = []
    for name, n in (("all_reduce", 2), ("all_reduce", 4), ("all_reduce", 8), ("all_gather", 2)):
        call = Call(name, 1, n)
        form = Overlap(10e-6 + 6e-6 * (n - 1), call.kind.bus_factor(n) / 20e9)
        rows += [Measurement(Call(name, 4**k, n), form.seconds(4**k)) for k in range(6, 16)]
    path = tmp_path / "results.csv"
    path.write_text(post_csv.write(rows))
    return str(path)


def test_a_table_with_intervals_and_what_goes_over_n(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", results]) == 0
    out = capsys.readouterr().out
    (row,) = (line for line in out.splitlines() if line.split()[:2] == ["all_reduce", "8"])
    assert row.split()[2:4] == ["4K-1G", "10"]
    assert row.split()[4].startswith(("52 ", "51.9", "52.0", "52"))
    assert "20 (" in row
    assert "launch (us) at N = 2: 16.0, 4: 28.0, 8: 52.0: it grows with the steps of a ring" in out
    assert "so t0 = 10 (" in out
    assert "us and alpha = 3 (" in out
    assert "busbw collapses over N" in out


def test_one_n_cannot_part_launch_and_alpha(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", results, "--op", "allreduce", "-N", "8"]) == 0
    out = capsys.readouterr().out
    assert "all_gather" not in out
    assert "launch t0 and alpha a step are not identifiable apart" in out


def test_the_saved_model_prices_calls(results: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.json"
    assert main(["fit", results, "-o", str(path)]) == 0
    assert f"# cost model: {path}" in capsys.readouterr().out
    model = CostModel.load(path)
    assert model.seconds(Call("all_reduce", 2**30, 8)) == pytest.approx(1.75 * 2**30 / 20e9, rel=0.01)
    assert model.worlds("all_reduce") == (2, 4, 8)


def test_holdout_stands_beside_what_needs_no_model(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", results, "--holdout", "-v"]) == 0
    out = capsys.readouterr().out
    for title in ("# each size left out", "# sizes <= 64 MiB predict >= 512 MiB", "# N = 2 and 4 predict N = 8"):
        assert title in out
    assert "all_reduce N=8 time up to 1 MiB" in out


def test_holdout_with_nothing_to_leave_out_says_what_it_takes(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "few.csv"
    path.write_text(post_csv.write([Measurement(Call("all_reduce", size, 2), 1e-5) for size in (8, 16)]))
    assert main(["fit", str(path), "--holdout"]) == 0
    assert "nothing can be left out" in capsys.readouterr().out


def test_json(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", results, "--json", "--holdout"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {"curves", "scalings", "skipped", "holdout", "model"}
    assert len(data["curves"]) == 4
    first = data["curves"][0]
    assert first["bandwidth_GBps"]["low"] <= 20 <= first["bandwidth_GBps"]["high"]
    assert first["launch_s"]["value"] == pytest.approx(16e-6, rel=0.01)
    assert data["scalings"][0]["launch"]["verdict"] == "steps"
    assert CostModel.from_json(data["model"]).worlds("all_gather") == (2,)
    assert {each["kind"] for each in data["holdout"]} == {"size", "large", "worlds"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--op", "all_reduces"], "unknown collective 'all_reduces'"),
        (["-N", "two"], "-N 'two': must be one or more numbers of ranks, such as 2,4,8"),
        (["-N", "0"], "-N '0': must be"),
        (["-N", "3"], "no row is left: the files hold all_gather, all_reduce at N = 2, 4, 8"),
        (["-o", "/nowhere/model.json"], "/nowhere/model.json: cannot be written"),
    ],
)
def test_a_bad_argument_gets_one_line(
    results: str, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["fit", results, *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_file_that_cannot_be_read_is_named_and_the_others_count(
    results: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", results, "none.csv"]) == 2
    captured = capsys.readouterr()
    assert "all_reduce" in captured.out
    assert "error: none.csv: cannot be read" in captured.err
    assert main(["fit", "none.csv"]) == 2
    assert "error: none.csv: cannot be read" in capsys.readouterr().err


def test_one_size_is_nothing_to_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "one.csv"
    path.write_text(post_csv.write([Measurement(Call("all_reduce", 2**20, 2), 1e-3)]))
    assert main(["fit", str(path)]) == 2
    assert "nothing to fit in 1 row:" in capsys.readouterr().err
