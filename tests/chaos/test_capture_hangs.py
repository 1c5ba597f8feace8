"""DDP steps of four ranks under capture, again and again: none may hang, and no call may be missing.

`make chaos` runs 10 jobs of 200 steps (BUSBW_CHAOS_FAULTS set); tests/traces runs one of 40 each time.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from busbw.traces import read_traces

from ..traces.conftest import run_job

pytest.importorskip("torch", reason="capturing needs torch")
FULL = bool(int(os.environ.get("BUSBW_CHAOS_FAULTS", "0")))
RUNS, STEPS = (10, 200) if FULL else (1, 10)

pytestmark = pytest.mark.chaos


@pytest.mark.parametrize("run", range(RUNS))
def test_ddp_steps_come_to_an_end(run: int, tmp_path: Path) -> None:
    times = ("sampled", "all")[run % 2]
    folder = run_job(tmp_path / "job", 4, "many", JOB_STEPS=str(STEPS), JOB_TIMES=times)
    traces = read_traces([folder / "many"])
    assert len(traces) == 4
    for trace in traces:
        assert trace.complete
        assert trace.lost == 0
        assert len([mark for mark in trace.marks if mark.what == "optimizer"]) == STEPS
    kinds = [[(call.kind.call, call.kind.phase) for call in trace.calls] for trace in traces]
    assert kinds[0] == kinds[1] == kinds[2] == kinds[3]
