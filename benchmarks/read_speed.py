"""Seconds and peak memory of reading 100 MB of log with nccl-tests tables in it.

    python benchmarks/read_speed.py [MEGABYTES] [KIND ...]

Kinds: info (NCCL_DEBUG=INFO of 64 ranks with mpirun tags), training (a trainer's output around the tables), rows
(tables after tables), noise (text that is no format at all), binary. Each is read in a process of its own, so the peak
is that of reading it; the file is written to a temporary folder first. Target: under 5 s and 300 MB at 100 MB, of logs
whose rows are few beside the rest (`rows` holds nothing but results, and what they need is what they are).
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

KINDS = ("info", "training", "noise", "binary", "rows")

READ = """
import resource, sys, time
from busbw.errors import BusbwError
from busbw.formats import read_results
start, cpu = time.perf_counter(), time.process_time()
try:
    results = read_results(sys.argv[1])
    said = f"{len(results.measurements)} rows in {len(results.runs)} runs"
except BusbwError as error:
    said = f"{type(error).__name__}: {str(error)[-90:]}"
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
print(f"{seconds:6.2f} s ({cpu:5.2f} s of CPU)  {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:6.0f} MiB  {said}")
"""


def table(tag: str) -> Iterator[str]:
    """One run of all_reduce on 64 ranks."""
    yield f"{tag}# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20\n"
    yield f"{tag}# Using devices\n"
    for rank in range(64):
        yield f"{tag}#  Rank {rank:2} Group  0 Pid 123{rank:03} on host-{rank // 8:05} device {rank % 8:2} [0x0f] NVIDIA H100\n"
    yield f"{tag}#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    for power in range(3, 34):
        size = 2**power
        time_us = 30 + size / 2e5
        algbw = size / time_us / 1e3
        half = f"  {time_us:7.1f}  {algbw:6.2f}  {algbw * 126 / 64:6.2f}      0"
        yield f"{tag}{size:12}  {size // 4:12}     float     sum      -1{half}{half}\n"
    yield f"{tag}# Out of bounds values : 0 OK\n{tag}# Avg bus bandwidth    : 40.0\n{tag}#\n"


def filler(kind: str, rng: random.Random) -> Iterator[str]:
    """Lines between the tables."""
    step = 0
    while True:
        rank, step = rng.randrange(64), step + 1
        if kind == "info":
            yield (
                f"[1,{rank}]<stdout>:host-{rank // 8:05}:{1000 + rank}:{2000 + rank} [{rank % 8}] NCCL INFO Channel "
                f"{step % 32:02}/0 : {rank}[{rank % 8}] -> {(rank + 1) % 64}[{(rank + 1) % 8}] via P2P/CUMEM/read\n"
            )
        elif kind == "training":
            yield (
                f"2026-11-30 05:{step // 60 % 60:02}:{step % 60:02},123 INFO trainer.py:88 step {step} loss {rng.random():.4f} "
                f"lr 3.0e-04 grad_norm {rng.random():.3f} tokens/s {rng.randrange(10**6)} mem {rng.random() * 80:.1f} GB\n"
            )
        else:
            yield " ".join(f"{rng.random():.6f}" if word % 3 else "lorem" for word in range(9)) + "\n"


def write(path: Path, kind: str, size: int) -> None:
    """A file of about `size` bytes."""
    rng = random.Random(1)
    if kind == "binary":
        path.write_bytes(rng.randbytes(size))
        return
    tag = "[1,0]<stdout>:" if kind == "info" else ""
    lines = filler(kind, rng)
    block = "".join(next(lines) for _ in range(20000))
    written = 0
    with path.open("w") as out:
        while written < size:
            if kind != "noise":
                written += sum(map(out.write, table(tag)))
            if kind != "rows":
                written += out.write(block)


def main() -> None:
    words = sys.argv[1:]
    megabytes = int(words.pop(0)) if words and words[0].isdigit() else 100
    for kind in words or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{kind}.log"
            write(path, kind, megabytes * 10**6)
            done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=False)
            print(f"{kind:9}{megabytes:5} MB {done.stdout.strip() or done.stderr.strip()[-500:]}", flush=True)


if __name__ == "__main__":
    main()
