"""One job of four ranks on gloo that calls everything, captured once for all tests here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

JOB = Path(__file__).with_name("job.py")
SOURCES = Path(__file__).resolve().parents[2] / "src"

Run = Callable[..., Path]


def child_environment(**more: str) -> dict[str, str]:
    """The environment of a job: this checkout's busbw, one thread a rank, and nothing of a capture around the tests."""
    path = os.pathsep.join(filter(None, [str(SOURCES), os.environ.get("PYTHONPATH", "")]))
    plain = {key: value for key, value in os.environ.items() if not key.startswith("BUSBW_")}
    return {**plain, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def run_job(folder: Path, world: int, *scenarios: str, **variables: str) -> Path:
    """Run scenarios of job.py, each captured into a folder of its name; returns their parent."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(JOB), str(folder), str(world), *scenarios],
        env=child_environment(**variables),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="session")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The captures of all scenarios at N = 4."""
    pytest.importorskip("torch", reason="capturing needs torch")
    names = "collectives ddp ddp_hook fsdp2 fsdp1 hsdp_tp hsdp pipeline interleaved zero two_optimizers many"
    return run_job(tmp_path_factory.mktemp("job"), 4, *names.split(), JOB_STEPS="25")
