"""busbw's MPI numbers against a C loop around the same calls, alternated, and matched by the host's state.

    python benchmarks/measure/mpi_vs_c.py [--rounds 12]

Each round runs, one right after the other and in an order drawn by lot, (a) a C program that times MPI_Allreduce in a
loop (MPI_THREAD_SINGLE, the slowest rank's mean of batches of 20 ms, their median) and (b) `busbw bench`. The host flips
between two speeds within minutes, so a pair counts only when the C program, run again after (b), agrees with itself
within 10 %. Printed: medians of both, the median of the pairs' differences, and what a call on a group of one costs.
Aims: within 10 % from 16 KiB up, at most 0.6 us more below.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from busbw.bench.run import find_mpiexec
from busbw.units import format_size

SIZES = (4, 64, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304)

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
int main(int argc, char **argv) {
  int provided, rank;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int a = 1; a < argc; a++) {
    int count = atoi(argv[a]) / 4, calls = 1, batches = 25;
    float *in = malloc(count * 4), *out = malloc(count * 4);
    for (int i = 0; i < count; i++) { in[i] = i % 7; out[i] = 1; }
    double took = 0, samples[64];
    for (;;) {
      MPI_Barrier(MPI_COMM_WORLD);
      double start = MPI_Wtime();
      for (int i = 0; i < calls; i++) MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      double mine = MPI_Wtime() - start;
      MPI_Allreduce(&mine, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      if (took > 0.01) break;
      calls *= 2;
    }
    calls = calls * 0.02 / took + 1;
    for (int b = 0; b < batches; b++) {
      MPI_Barrier(MPI_COMM_WORLD);
      double start = MPI_Wtime();
      for (int i = 0; i < calls; i++) MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      double mine = (MPI_Wtime() - start) / calls;
      MPI_Allreduce(&mine, &samples[b], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    qsort(samples, batches, sizeof(double), by_value);
    if (rank == 0) printf("%d %.9g\n", count * 4, samples[batches / 2]);
    free(in); free(out);
  }
  MPI_Finalize();
  return 0;
}
"""


def run_c(program: Path) -> dict[int, float]:
    """Seconds a call by size, from the C program."""
    command = [*find_mpiexec(), "-n", "2", str(program), *map(str, SIZES)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {int(size): float(seconds) for size, seconds in (line.split() for line in out.splitlines())}


def run_busbw(world: int = 2) -> dict[int, float]:
    """Seconds a call by size, from busbw."""
    command = [sys.executable, "-m", "busbw", "bench", "--backend", "mpi", "--world", str(world), "--op", "all_reduce"]
    command += ["--sizes", ",".join(map(str, SIZES)), "--out-of-place", "--row-budget", "0.6s", "--json", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {row["size_bytes"]: row["time_s"] for row in json.loads(done.stdout)}


def main() -> None:
    """Alternate, match, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=12)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "loop"
        (Path(folder) / "loop.c").write_text(PROGRAM)
        compiler = Path(sys.executable).parent / "mpicc"
        subprocess.run([str(compiler), "-O2", "-o", str(program), f"{folder}/loop.c"], check=True)
        pairs: dict[int, list[tuple[float, float]]] = {size: [] for size in SIZES}
        alone = run_busbw(1)
        for _ in range(rounds):
            if random.random() < 0.5:
                before, ours, after = run_c(program), run_busbw(), run_c(program)
            else:
                ours = run_busbw()
                before, again, after = run_c(program), run_busbw(), run_c(program)
                ours = {
                    size: (ours[size] + again[size]) / 2 if abs(ours[size] / again[size] - 1) < 0.1 else again[size]
                    for size in SIZES
                }
            for size in SIZES:
                if abs(after[size] / before[size] - 1) < 0.1:
                    pairs[size].append(((before[size] + after[size]) / 2, ours[size]))
    print(f"{'size':>8} {'matched':>8} {'C (us)':>9} {'busbw':>9} {'more (us)':>9} {'ratio':>6}   N=1 call (us)   aim")
    for size, found in pairs.items():
        if not found:
            print(f"{format_size(size):>8} {0:>8}   the host changed its speed within every round: cannot tell")
            continue
        more = statistics.median(b - a for a, b in found) * 1e6
        ratio = statistics.median(b / a for a, b in found)
        good = ratio <= 1.1 if size >= 16384 else more <= 0.6
        c, ours_us = (statistics.median(pair[k] for pair in found) * 1e6 for k in (0, 1))
        aim = "<= 10 %" if size >= 16384 else "<= 0.6 us"
        print(
            f"{format_size(size):>8} {len(found):>5}/{rounds:<2} {c:>9.2f} {ours_us:>9.2f} {more:>9.2f} {ratio:>6.3f} {alone[size] * 1e6:>12.2f}      "
            f"{aim}: {'reached' if good else 'not reached'}"
        )


if __name__ == "__main__":
    main()
