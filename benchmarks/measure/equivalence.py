"""Does measuring change what is measured? Our timed batch against a bare loop around the same call.

    python benchmarks/measure/equivalence.py [gloo|mpi] [--batches 150] [--sizes 8,65536,1048576]

Two ranks alternate short batches of both loops on the same buffers under the same scheduling policy, with the order
drawn by lot for each pair. The estimator of both is the slowest rank's mean of a batch. Printed: the ratio ours / bare,
the median of the pairs' ratios with a 95 % interval (bootstrap over blocks of pairs, since neighbours are correlated),
and whether it lies inside +-3 %.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from typing import Any

import numpy as np

from busbw.bench import processes
from busbw.bench.backends.base import Backend, Progress, Seat
from busbw.bench.run import find_mpiexec
from busbw.bench.work import Item
from busbw.core.call import Call

BATCH_S = 0.02


def bare(backend: Backend, buffer: Any) -> Any:
    """The same all_reduce as a user would write it, timed by a plain loop."""
    if backend.name == "gloo":
        import torch.distributed as dist

        def loop(calls: int) -> float:
            start = time.perf_counter()
            for _ in range(calls):
                dist.all_reduce(buffer)
            return time.perf_counter() - start

        return loop
    from mpi4py import MPI

    comm, out = MPI.COMM_WORLD, np.ones_like(buffer)

    def loop_mpi(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            comm.Allreduce(buffer, out, MPI.SUM)
        return time.perf_counter() - start

    return loop_mpi


def run_rank(name: str, batches: int, sizes: list[int]) -> None:
    """One rank of the comparison."""
    processes.set_policy("batch")
    if name == "gloo":
        import torch.distributed as dist

        from busbw.bench.backends.torch_distributed import TorchBackend

        dist.init_process_group(
            "gloo", init_method=os.environ["BENCH_INIT"], rank=int(os.environ["RANK"]), world_size=2
        )
        backend: Backend = TorchBackend("gloo")
        rank, world = dist.get_rank(), dist.get_world_size()
    else:
        from busbw.bench.backends.mpi import MpiBackend

        backend = MpiBackend("mpi", "python")
        rank, world = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
    seat = Seat(rank, world, rank, world, lambda *_: None, str, lambda value: [value])
    backend.locate(seat)
    backend.start(seat, 60.0)
    (group,) = backend.make_groups([range(world)])
    group.rank = rank
    progress = Progress()
    for size in sizes:
        in_place = name == "gloo"
        item = Item(Call("all_reduce", size, world, "float32", "sum", None, in_place), size // 4)
        send = backend.allocate(item.count, "float32")
        recv = send if in_place else backend.allocate(item.count, "float32")
        issue, other = backend.prepare(item, send, recv, group), bare(backend, send)
        calls = 4
        while True:  # a batch of BATCH_S on the slowest rank
            took = float(backend.gather([backend.time_batch(issue, calls, progress)]).max())
            if took > BATCH_S / 2:
                break
            calls *= 2
        calls = max(int(calls * BATCH_S / took), 1)
        order = np.random.default_rng(7).integers(0, 2, batches)
        pairs = np.empty((batches, 2))
        for index in range(batches):
            for which in (order[index], 1 - order[index]):
                backend.barrier()
                seconds = backend.time_batch(issue, calls, progress) if which == 0 else other(calls)
                pairs[index, which] = backend.gather([seconds]).max() / calls
        if rank == 0:
            report(name, size, calls, pairs)
    backend.close()


def report(name: str, size: int, calls: int, pairs: np.ndarray) -> None:
    """Print the ratio with its interval and the verdict."""
    ratios = np.log(pairs[:, 0] / pairs[:, 1])
    random = np.random.default_rng(1)
    block = 5
    starts = random.integers(0, len(ratios) - block + 1, (4000, len(ratios) // block))
    index = (starts[:, :, None] + np.arange(block)).reshape(4000, -1)
    low, high = np.exp(np.quantile(np.median(ratios[index], axis=1), (0.025, 0.975)))
    middle = float(np.exp(np.median(ratios)))
    verdict = (
        "equal within 3 %" if low > 0.97 and high < 1.03 else "differs" if low > 1.03 or high < 0.97 else "cannot tell"
    )
    print(
        f"{name:5s} {size:>9d} B  {calls:>6d} calls x {len(pairs)} pairs  bare {np.median(pairs[:, 1]) * 1e6:9.3f} us  "
        f"ours {np.median(pairs[:, 0]) * 1e6:9.3f} us  ratio {middle:.4f} [{low:.4f}, {high:.4f}]  {verdict}",
        flush=True,
    )


def main() -> None:
    """Start two ranks of this program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("backend", nargs="?", choices=("gloo", "mpi"), help="default: both")
    parser.add_argument("--batches", type=int, default=150)
    parser.add_argument("--sizes", default="8,65536,1048576")
    parser.add_argument("--rank", action="store_true")
    args = parser.parse_args()
    if args.backend is None:
        for name in ("mpi", "gloo"):
            subprocess.run([sys.executable, __file__, name, *sys.argv[1:]], check=True)
        return
    if args.rank:
        run_rank(args.backend, args.batches, [int(size) for size in args.sizes.split(",")])
        return
    program = [sys.executable, __file__, args.backend, "--batches", str(args.batches), "--sizes", args.sizes, "--rank"]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    if args.backend == "mpi":
        subprocess.run([*find_mpiexec(), "-n", "2", *program], check=True, env=environ)
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ |= {"BENCH_INIT": f"tcp://127.0.0.1:{port}", "WORLD_SIZE": "2"}
    ranks = [subprocess.Popen(program, env={**environ, "RANK": str(rank)}) for rank in range(2)]
    statuses = [rank.wait() for rank in ranks]
    if any(statuses):
        sys.exit(1)


if __name__ == "__main__":
    main()
