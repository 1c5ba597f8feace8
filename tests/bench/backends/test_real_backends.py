"""gloo and MPI on this machine: real processes, real data. Skipped where the library is not installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import busbw
from busbw.core.collective import COLLECTIVES
from busbw.formats import read_results

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
has_mpi = importlib.util.find_spec("mpi4py") is not None and (
    (Path(sys.executable).parent / "mpiexec").exists() or shutil.which("mpiexec") is not None
)
needs_mpi = pytest.mark.skipif(not has_mpi, reason="mpi4py or mpiexec is not installed")


@needs_torch
def test_gloo_runs_every_collective_with_right_data_at_3_ranks() -> None:
    results = busbw.measure(COLLECTIVES.names(), [24, 40_000], [3], backend="gloo", iters=2, warmup=1, sched="batch")
    assert {row.call.collective for row in results.measurements} == set(COLLECTIVES.names())
    assert all(row.wrong == 0 for row in results.measurements if row.call.kind.moves_data)
    assert all(row.labels["sched"] == "batch" for row in results.measurements)


@needs_mpi
@pytest.mark.parametrize("loop", ["python", "compiled"])
def test_mpi_runs_every_collective_with_right_data(loop: str) -> None:
    if loop == "compiled":
        pytest.importorskip("numba", reason="numba is not installed")
    results = busbw.measure(COLLECTIVES.names(), [24, 40_000], [2], backend="mpi", iters=2, warmup=1, loop=loop)
    assert {row.call.collective for row in results.measurements} == set(COLLECTIVES.names())
    assert all(row.wrong == 0 for row in results.measurements if row.call.kind.moves_data)
    assert all(row.labels["loop"] == loop for row in results.measurements)


@needs_torch
def test_groups_of_ranks_run_side_by_side_on_gloo() -> None:
    results = busbw.measure(
        ["all_reduce"], [4096], [4], backend="gloo", iters=2, warmup=1, split="div 2", sched="batch"
    )
    assert [(row.labels["group"], row.call.world_size, row.wrong) for row in results.measurements] == [
        ("0-1", 2, 0),
        ("2-3", 2, 0),
    ]


@needs_torch
def test_under_torchrun_the_ranks_are_joined(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "busbw"]
    words = ["bench", "--backend", "gloo", "--op", "all_reduce", "--sizes", "4KiB", "-n", "3", "-o", str(out)]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=120, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
    results = read_results(str(out))
    assert [(row.call.world_size, row.wrong) for row in results.measurements] == [(2, 0)]
    assert [rank["rank"] for rank in results.run.launches[0]["ranks"]] == [0, 1]


@needs_mpi
def test_under_mpiexec_the_ranks_are_joined(tmp_path: Path) -> None:
    from busbw.bench.run import find_mpiexec

    out = tmp_path / "r.jsonl"
    words = ["bench", "--backend", "mpi", "--op", "all_reduce", "--sizes", "4KiB", "-n", "3", "-o", str(out)]
    command = [*find_mpiexec(), "-n", "2", sys.executable, "-m", "busbw", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert [(row.call.world_size, row.wrong) for row in read_results(str(out)).measurements] == [(2, 0)]


@needs_torch
def test_ranks_with_other_arguments_are_refused_before_timing(tmp_path: Path) -> None:
    script = tmp_path / "other.py"
    script.write_text(
        "import os, sys\nfrom busbw.cli import main\n"
        "size = '4KiB' if os.environ['RANK'] == '0' else '8KiB'\n"
        "sys.exit(main(['bench', '--backend', 'gloo', '--op', 'all_reduce', '--sizes', size]))\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "was started with other arguments than rank 0" in done.stderr


# All ways of moving data: a ring, pipelines, exchanges, packed messages, scratch, channels, all at once.
BY_SCHEDULE = (
    "ring(order=0-2-1-3)",
    "double_binary_tree",
    "recursive_halving_doubling",
    "bruck",
    "multi_ring",
    "direct",
)
OPS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "gather")


@needs_torch
def test_gloo_carries_schedules_out_with_right_data_at_4_ranks() -> None:
    results = busbw.measure(
        OPS, [24, 40_000], [4], backend="gloo", iters=2, warmup=1, sched="batch", algorithms=BY_SCHEDULE, roots=(1,)
    )
    assert {row.labels["schedule"] for row in results.measurements} == set(BY_SCHEDULE)
    assert {row.call.collective for row in results.measurements} == set(OPS)
    assert all(row.wrong == 0 for row in results.measurements)


@needs_mpi
def test_mpi_carries_schedules_out_with_right_data_beside_its_own() -> None:
    ways = ("own", "ring", "bruck", "centralised")
    results = busbw.measure(OPS, [24, 40_000], [2], backend="mpi", iters=2, warmup=1, algorithms=ways, loop="python")
    assert {row.labels.get("schedule", "own") for row in results.measurements} == set(ways)
    assert all(row.wrong == 0 for row in results.measurements)
    everywhere = {row.call for row in results.measurements if row.labels.get("schedule", "own") == "own"}
    assert {row.call for row in results.measurements} <= everywhere


@needs_torch
@pytest.mark.parametrize("dtype", ["bfloat16", "int32"])
def test_gloo_schedules_add_other_types(dtype: str) -> None:
    results = busbw.measure(
        ["all_reduce"],
        [1000],
        [2],
        backend="gloo",
        iters=2,
        warmup=1,
        sched="batch",
        algorithms=("ring",),
        dtypes=(dtype,),
    )
    assert [row.wrong for row in results.measurements] == [0]
