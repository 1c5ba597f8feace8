"""Kill and stop ranks in the middle of a row, at random moments, alone and under launchers.

`make chaos` runs BUSBW_CHAOS_FAULTS of them; the short form runs each way once.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from busbw.bench import processes
from busbw.bench.run import find_mpiexec
from busbw.core.measurement import Results
from busbw.errors import NoRows
from busbw.formats import read_results

FAULTS = int(os.environ.get("BUSBW_CHAOS_FAULTS", "0"))
WAYS = ("alone", "torchrun", "mpi alone", "mpiexec")
CASES = [(way, kind) for way in WAYS for kind in ("KILL", "STOP")]
ROUNDS = max(1, -(-FAULTS // len(CASES)))

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed"),
]


def command_of(way: str, out: Path) -> tuple[list[str], int]:
    """The command line of a way to start, and its number of ranks."""
    words = ["bench", "--op", "all_reduce,all_gather", "--sizes", "64K,256K,1M", "--row-budget", "2s", "-o", str(out)]
    me = [sys.executable, "-m"]
    if way == "alone":
        return [*me, "busbw", *words, "--backend", "gloo", "--sched", "batch", "--world", "4"], 4
    if way == "torchrun":
        launcher = [*me, "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "-m", "busbw"]
        return [*launcher, *words, "--backend", "gloo", "--sched", "batch"], 4
    if way == "mpi alone":
        return [*me, "busbw", *words, "--backend", "mpi", "--world", "2"], 2
    return [*find_mpiexec(), "-n", "2", *me, "busbw", *words, "--backend", "mpi"], 2


def ranks_of(out: Path, deadline: float) -> list[dict[str, int]]:
    """The mapping of ranks to pids, once the launch is in the results file."""
    while time.monotonic() < deadline:
        if out.exists():
            for line in out.read_text().splitlines():
                record = json.loads(line) if line.endswith("}") else {}
                if record.get("type") == "launch":
                    ranks: list[dict[str, int]] = record["ranks"]
                    return ranks
        time.sleep(0.02)
    raise AssertionError("the ranks did not start")


class Job:
    """A started command whose processes can be told from all others: its environment carries a mark of its own."""

    def __init__(self, command: list[str]) -> None:
        self.mark = f"BUSBW_TEST_JOB={uuid.uuid4().hex}"
        name, value = self.mark.split("=")
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, name: value}
        )

    def left(self, limit_s: float = 5.0) -> set[int]:
        """Its processes that are still alive after at most `limit_s`."""
        deadline = time.monotonic() + limit_s
        while (found := self._alive()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def _alive(self) -> set[int]:
        found = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                if self.mark.encode() in words and processes.state(int(entry.name)) not in ("", "Z"):
                    found.add(int(entry.name))
        return found


def _mapped_by_others(path: Path) -> bool:
    return any(path in processes.shared_memory_of(int(p.name)) for p in Path("/proc").iterdir() if p.name.isdigit())


def results_of(out: Path) -> Results:
    """What the file holds, also where the run ended before its first row."""
    try:
        return read_results(str(out))
    except NoRows as error:
        assert isinstance(error.results, Results)
        return error.results


@pytest.mark.parametrize("turn", range(ROUNDS))
@pytest.mark.parametrize(("way", "kind"), CASES)
def test_the_lost_rank_is_named_the_rows_are_kept_and_nothing_is_left(
    tmp_path: Path, way: str, kind: str, turn: int
) -> None:
    dice = random.Random(f"{way} {kind} {turn} {FAULTS}")
    shared = set(Path("/dev/shm").iterdir())
    out = tmp_path / "r.jsonl"
    command, world = command_of(way, out)
    job = Job(command)
    ranks = ranks_of(out, time.monotonic() + 60)
    victim = dice.randrange(world)
    time.sleep(dice.uniform(1.5, 5.0))
    printed_before = [line for line in out.read_text().splitlines() if '"measurement"' in line]
    started = time.monotonic()
    if job.process.poll() is not None:
        raise AssertionError(f"the run ended before the fault: {job.process.communicate()[0][-2000:]}")
    os.kill(ranks[victim]["pid"], getattr(signal, f"SIG{kind}"))
    text, _ = job.process.communicate(timeout=60)
    took_s = time.monotonic() - started

    blamed = re.search(r"rank (\d+) \(pid (\d+) on [^)]*\) (died|was stopped|stopped answering) (.*)", text)
    assert blamed is not None, text[-2000:]
    assert int(blamed[1]) == victim, text[-2000:]
    assert int(blamed[2]) == ranks[victim]["pid"]
    assert job.process.returncode == 3 if "alone" in way or way == "alone" else job.process.returncode != 0
    assert took_s < 12, f"took {took_s:.1f} s"
    results = results_of(out)
    assert len(results.measurements) >= len(printed_before)
    assert "ended early" in results.run.notes[-1]
    assert job.left() == set()
    mine = {path for path in set(Path("/dev/shm").iterdir()) - shared if path.exists() and not _mapped_by_others(path)}
    assert mine == set()


def test_ctrl_c_keeps_the_rows_and_exits_with_130(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    command, _ = command_of("alone", out)
    job = Job(command)
    ranks_of(out, time.monotonic() + 60)
    time.sleep(2.0)
    job.process.send_signal(signal.SIGINT)
    text, _ = job.process.communicate(timeout=20)
    assert job.process.returncode == 130
    assert "interrupted; every finished row is kept" in text
    assert "ended early: interrupted" in results_of(out).run.notes[-1]
    assert job.left() == set()


def test_ranks_end_when_the_program_that_started_them_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    command, _ = command_of("alone", out)
    job = Job(command)
    ranks_of(out, time.monotonic() + 60)
    job.process.kill()
    job.process.wait()
    assert job.left() == set()
