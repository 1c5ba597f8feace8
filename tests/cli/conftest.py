from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def busbw() -> Run:
    """Run the command line in a process of its own, as a user does."""

    def run(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "busbw", *words],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, **environ},
            check=False,
        )

    return run


@pytest.fixture
def fake(busbw: Run) -> Run:
    """`busbw bench` on the fake backend with two ranks and one size."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        base = ["bench", "--backend", "fake", "--row-budget", "2s"]
        for option, value in (("--world", "2"), ("--sizes", "4KiB"), ("--op", "all_reduce")):
            if option not in words:
                base += [option, value]
        return busbw(*base, *words)

    return run
