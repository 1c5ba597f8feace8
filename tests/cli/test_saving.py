from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from busbw.cli import main


def test_a_model_never_replaces_the_measurements(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, model = tmp_path / "rows.csv", tmp_path / "model.json"
    shutil.copy(golden / "plots.csv", rows)
    before = rows.read_bytes()
    assert main(["fit", str(rows), "-o", str(rows)]) == 2
    assert f"-o {rows}: exists and is no cost model: name another file" in capsys.readouterr().err
    assert rows.read_bytes() == before
    model.touch()
    for _ in range(2):  # over an empty file, then over an older model
        assert main(["fit", str(rows), "-o", str(model)]) == 0
    assert model.stat().st_size > 100
    assert main(["fit", str(rows), "-o", ""]) == 2
    assert "-o '': name a file" in capsys.readouterr().err


def test_a_machine_never_replaces_the_file_that_it_was_read_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, machine = tmp_path / "topo.xml", tmp_path / "m.toml"
    other.write_text("<system version='1'/>\n")
    assert main(["topo", "dgx-h100", "-o", str(other)]) == 2
    assert "exists and is no machine of ours in TOML" in capsys.readouterr().err
    assert other.read_text() == "<system version='1'/>\n"
    for _ in range(2):
        assert main(["topo", "dgx-h100", "-o", str(machine)]) == 0
