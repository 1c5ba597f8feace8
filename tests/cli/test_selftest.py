from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from busbw.cli.selftest import matrix

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_everything_that_the_fake_backend_claims_works(busbw: Run) -> None:
    done = busbw("selftest", "--backend", "fake", "--json")
    cells = json.loads(done.stdout)["cells"]["fake"]
    assert done.returncode == 0, done.stderr
    assert cells["all_reduce float32 sum in-place"] == "ok"
    assert cells["barrier"] == "ok"
    assert len(cells) > 200


def test_a_fault_shows_in_the_matrix_and_in_the_exit_status(busbw: Run) -> None:
    done = busbw("selftest", "--backend", "fake", "--fake", "fault=drop")
    assert done.returncode == 1
    assert "WRONG" in done.stdout


def test_the_matrix_has_a_dash_where_nothing_is_claimed() -> None:
    lines = matrix(
        "x", 2, {"all_gather float32 in-place": "ok", "barrier": "ok", "all_reduce int8 sum": "wrong: 3 elements"}
    )
    assert lines[1].split() == ["float32", "int8"]
    assert lines[2].split() == ["all_gather", "in-place", "ok", "-"]
    assert lines[3].split() == ["all_reduce", "sum", "-", "WRONG"]
    assert lines[4].split() == ["barrier", "ok"]
    assert lines[5].strip() == "all_reduce int8 sum: wrong: 3 elements"


def test_a_backend_whose_library_is_missing_does_not_keep_the_others_from_their_test(
    busbw: Run, tmp_path: Path
) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('torch')\n")
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    done = busbw("selftest", "--backend", "auto, fake", PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    assert "auto: not tested: measuring with torch needs torch, which is not installed" in done.stdout
    assert "fake, N=2: ok" in done.stdout
