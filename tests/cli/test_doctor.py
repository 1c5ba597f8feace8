from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Run


@pytest.fixture
def other_host(tmp_path: Path) -> Path:
    """A copy of a host whose only content is its variables."""
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands" / "env.txt").write_text("NCCL_IB_DISABLE=1\n")
    return tmp_path


def test_what_hurts_is_exit_status_1(busbw: Run, other_host: Path) -> None:
    done = busbw("doctor", "--root", str(other_host))
    assert done.returncode == 1
    assert "Verdict: 1 thing that hurts: NCCL_IB_DISABLE=1." in done.stdout
    assert "do: Unset NCCL_IB_DISABLE" in done.stdout


def test_json_has_its_keys(busbw: Run, other_host: Path) -> None:
    done = busbw("doctor", "--json", "--root", str(other_host))
    said = json.loads(done.stdout)
    assert (done.returncode, said["version"], said["hurts"], said["root"]) == (1, 1, True, str(other_host))
    assert said["findings"][0]["statement"].startswith("NCCL_IB_DISABLE=1 (environment)")


def test_nothing_is_exit_status_0(busbw: Run, tmp_path: Path) -> None:
    done = busbw("doctor", "--root", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "no PCI device at all" in done.stdout


def test_a_root_that_is_not_there(busbw: Run, tmp_path: Path) -> None:
    done = busbw("doctor", "--root", str(tmp_path / "none"))
    assert done.returncode == 2
    assert done.stderr.startswith("busbw doctor: --root")


def test_this_machine(busbw: Run) -> None:
    done = busbw("doctor")
    assert done.returncode in (0, 1)
    assert done.stdout.startswith("Here: ")
