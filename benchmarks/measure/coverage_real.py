"""Does the stated 95 % interval hold the long-run median, on real ranks? 40 short rows against a 60 s reference.

    python benchmarks/measure/coverage_real.py [gloo|mpi] [--size 4096] [--rows 40] [--sched batch]

The reference is not taken before or after but between: after each short row its 1/40th, under the same conditions, so
that a host that changes its speed within minutes changes both alike. Printed: in how many rows the interval held the
median of all reference samples (at least 90 % is the aim), and in how many it held the median of the reference samples
taken within the four nearest turns (what the row could know of a machine that drifts).
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time

import numpy as np

from busbw.bench import processes
from busbw.bench.backends.base import Backend, Progress, Seat
from busbw.bench.row import Buffers, RowTaker
from busbw.bench.run import find_mpiexec
from busbw.bench.settings import Settings
from busbw.bench.statistics import median_interval
from busbw.bench.work import Item
from busbw.core.call import Call
from busbw.core.collective import Place

REFERENCE_S = 60.0


def run_rank(name: str, size: int, rows: int, sched: str, budget_s: float) -> None:
    """One of the two ranks."""
    processes.set_policy(sched)
    if name == "gloo":
        import torch.distributed as dist

        from busbw.bench.backends.torch_distributed import TorchBackend

        rank = int(os.environ["RANK"])
        dist.init_process_group("gloo", init_method=os.environ["BENCH_INIT"], rank=rank, world_size=2)
        backend: Backend = TorchBackend("gloo")
    else:
        from busbw.bench.backends.mpi import MpiBackend

        backend, rank = MpiBackend("mpi"), int(os.environ["PMI_RANK"])
    seat = Seat(rank, 2, rank, 2, lambda *_: None, str, lambda value: [value])
    backend.locate(seat)
    backend.start(seat, 60.0)
    groups = backend.make_groups([range(2)])
    settings = Settings(backend=name, sched=sched)
    taker = RowTaker(backend, settings, groups, Progress())
    in_place = name == "gloo"
    item = Item(Call("all_reduce", size, 2, "float32", "sum", None, in_place), size // 4)
    buffers = Buffers.allocate(backend, item, Place(item.count, 2, rank), "float32", rotate=False)
    issue = backend.prepare(item, *buffers.pairs[0], groups[0])
    _, estimate_s = taker._warm_up(issue, 3.0)
    intervals, references, counts, stopped_by = [], [], [], []
    for _ in range(rows):
        per_rank_s, calls, stopped = taker._time(issue, estimate_s, budget_s)
        series = per_rank_s.max(axis=0)
        intervals.append(median_interval(series, sequential=stopped == "precision"))
        counts.append(len(series))
        stopped_by.append(stopped)
        samples, started = [], time.monotonic()
        while True:
            times = backend.gather([backend.time_batch(issue, calls, taker.progress), time.monotonic() - started])
            samples.append(times[:, 0].max() / calls)
            if times[0, 1] > REFERENCE_S / rows:
                break
        references.append(np.array(samples))
    if rank == 0:
        reference = float(np.median(np.concatenate(references)))
        stated = [(i, interval) for i, interval in enumerate(intervals) if interval is not None]
        held = sum(interval.low_s <= reference <= interval.high_s for _, interval in stated)
        near = [float(np.median(np.concatenate(references[max(i - 2, 0) : i + 2]))) for i, _ in stated]
        held_near = sum(v.low_s <= m <= v.high_s for (_, v), m in zip(stated, near, strict=True))
        level = np.array([np.median(r) for r in references])
        print(
            f"{name} all_reduce {size} B, sched {sched}: reference {reference * 1e6:.2f} us (level of its {rows} parts from "
            f"{level.min() * 1e6:.2f} to {level.max() * 1e6:.2f} us)\n"
            f"  {len(stated)} of {rows} rows state an interval; {sum(s == 'precision' for s in stopped_by)} reached 5 %; "
            f"samples a row: median {np.median(counts):.0f}\n"
            f"  holds the 60 s median in {held} of {len(stated)} ({held / max(len(stated), 1):.0%}; aim 90 %); "
            f"the median of the nearest turns in {held_near} ({held_near / max(len(stated), 1):.0%})",
            flush=True,
        )
    backend.close()


def main() -> None:
    """Start two ranks of this program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("backend", nargs="?", choices=("gloo", "mpi"), help="default: both")
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--sched", default="batch")
    parser.add_argument("--row-budget", type=float, default=3.0)
    parser.add_argument("--rank", action="store_true")
    args = parser.parse_args()
    if args.backend is None:
        for name in ("mpi", "gloo"):
            subprocess.run([sys.executable, __file__, name, *sys.argv[1:]], check=True)
        return
    if args.rank:
        run_rank(args.backend, args.size, args.rows, args.sched, args.row_budget)
        return
    program = [sys.executable, __file__, *sys.argv[1:], "--rank"]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    if args.backend == "mpi":
        subprocess.run([*find_mpiexec(), "-n", "2", *program], check=True, env=environ)
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ |= {"BENCH_INIT": f"tcp://127.0.0.1:{port}"}
    ranks = [subprocess.Popen(program, env={**environ, "RANK": str(rank)}) for rank in range(2)]
    if [rank.wait() for rank in ranks] != [0, 0]:
        sys.exit(1)


if __name__ == "__main__":
    main()
