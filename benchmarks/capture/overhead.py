"""What a capture costs: microseconds added to a call, and the share of a real DDP step.

Calls go to torch's fake process group, which does nothing, so the difference is the capture alone; captured and plain
batches alternate, and the least of each is compared, because other work on the machine only ever adds. A step is of a
small GPT under DDP on gloo, captured and plain runs of steps alternated; its share has a 95 % interval over the pairs.

    python benchmarks/capture/overhead.py [--steps 8] [--pairs 12]
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import busbw

TARGET_US, TARGET_SHARE = 8.0, 0.01
WARM, CALLS = 64, 2048  # one block in sixteen is timed, as one step in sixteen of a job is


def calls() -> dict[str, Callable[[], object]]:
    """What is called, by where it stands: at the top of a program, five modules deep, inside an optimizer."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    tensor, shards = torch.ones(1024), torch.ones(8 * 1024)

    class Caller(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            dist.all_reduce(tensor)
            return x

    deep: nn.Module = Caller()
    for _ in range(4):
        deep = nn.Sequential(deep)
    nobody: Callable[[], object] = lambda: deep(tensor)  # noqa: E731
    return {
        "all_reduce, at the top": lambda: dist.all_reduce(tensor),
        "all_gather_into_tensor, at the top": lambda: dist.all_gather_into_tensor(shards, tensor),
        "all_reduce, five modules deep": nobody,
    }


def per_call(rounds: int) -> list[tuple[str, float, float]]:
    """(what, plain us, added us) of each."""
    rows = []
    for what, call in calls().items():
        least = {"plain": 1e9, "memory": 1e9, "file": 1e9}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(rounds):
                for how in random.sample(sorted(least), 3):
                    capture = None if how == "plain" else busbw.capture(folder if how == "file" else None)
                    if capture is not None:
                        capture.start()
                    for _ in range(WARM):  # timed all, as a job's first calls are
                        call()
                    start = time.perf_counter()
                    for _ in range(CALLS):
                        call()
                    least[how] = min(least[how], (time.perf_counter() - start) / CALLS * 1e6)
                    if capture is not None:
                        capture.stop()
        rows += [(f"{what}, {how}", least["plain"], least[how] - least["plain"]) for how in ("memory", "file")]
    return rows


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _train(rank: int, world: int, port: int, steps: int, pairs: int, result: str) -> None:
    import torch
    import torch.distributed as dist
    from torch import nn

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    layer = nn.TransformerEncoderLayer(192, 6, 768, batch_first=True, dropout=0.0)
    net = nn.Sequential(
        nn.Embedding(4096, 192), nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Linear(192, 4096)
    )
    model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 4096, (4, 128))

    def run() -> float:
        dist.barrier()
        start = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            model(tokens).float().mean().backward()
            optimizer.step()
        return (time.perf_counter() - start) / steps

    run()
    shares, plains = [], []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(pairs):
            times = {}
            for captured in (pair % 2 == 0, pair % 2 == 1):
                if captured:
                    with busbw.capture(folder):
                        times[captured] = run()
                else:
                    times[captured] = run()
            shares.append(times[True] / times[False] - 1)
            plains.append(times[False])
    if rank == 0:
        mean, error = statistics.mean(shares), statistics.stdev(shares) / len(shares) ** 0.5
        Path(result).write_text(
            f"{statistics.median(plains) * 1e3:.1f} {statistics.median(shares)} {mean} {1.96 * error}"
        )
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    import torch.multiprocessing as mp

    with tempfile.NamedTemporaryFile() as result:
        mp.start_processes(
            _train, (2, _free_port(), options.steps, options.pairs, result.name), 2, start_method="spawn"
        )
        plain_ms, median, mean, half = map(float, result.read().split())
    worst = 0.0
    print(f"{'a call on the fake process group':<48} {'plain us':>9} {'added us':>9}")
    for what, plain, added in per_call(options.rounds):
        worst = max(worst, added)
        print(f"{what:<48} {plain:>9.2f} {added:>9.2f}")
    print(
        f"a DDP step of {plain_ms} ms on gloo, N = 2: median {100 * median:+.2f} %, mean {100 * mean:+.2f} +- {100 * half:.2f} %"
    )
    print(f"targets: {TARGET_US} us a call, {100 * TARGET_SHARE:.0f} % of a step")
    return int(worst > TARGET_US or mean - half > TARGET_SHARE)


if __name__ == "__main__":
    sys.exit(main())
