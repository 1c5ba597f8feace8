"""Executed schedules on gloo against a prediction: how far off is a calibrated machine, on operations that it has not seen?

    python benchmarks/sim/gloo.py [--world 2,4] [--row-budget 1s] [--keep DIR]

1. `busbw bench --algorithm ring` measures all_gather, reduce_scatter and broadcast as point-to-point calls on gloo.
2. A machine of as many processes, which share this host's memory and cores, is calibrated on these rows alone.
3. all_reduce by ring, tree and the centralised way is measured in the same manner, and compared with its prediction.

Errors are predicted / measured time - 1, by size. They mean something on a quiet machine only, and with as many cores as ranks.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from busbw.core.measurement import Measurement
from busbw.core.topology import Device, Link, Topology, TopologyBuilder
from busbw.formats import read_results
from busbw.sim import simulate
from busbw.sim.calibrating import calibrate
from busbw.units import GB, format_size, format_time

SEEN = "all_gather,reduce_scatter,broadcast"
ALGORITHMS = ("ring", "tree", "centralised")
SIZES = "4KiB,64KiB,1MiB,4MiB,16MiB,64MiB"


def shape(processes: int) -> Topology:
    """Processes on one host, each beside its CPU's memory."""
    builder = TopologyBuilder(f"{processes} processes")
    builder.add(Device("cpu0", "cpu", "host0"))
    builder.add(Device("memory0", "memory", "host0"))
    builder.link(Link("cpu0", "memory0", "memory", 100 * GB, 100 * GB, 100 * GB, basis="assumed"))
    for rank in range(processes):
        builder.add(Device(f"process{rank}", "process", "host0"))
        builder.link(Link(f"process{rank}", "cpu0", "local", 10 * GB, 10 * GB, basis="assumed"))
    return builder.build()


def bench(folder: Path, name: str, ops: str, algorithms: str, world: str, budget: str) -> list[Measurement]:
    path = folder / f"{name}.jsonl"
    command = [sys.executable, "-m", "busbw", "bench", "--backend", "gloo", "--op", ops, "--algorithm", algorithms]
    command += ["--world", world, "--sizes", SIZES, "--row-budget", budget, "-o", str(path), "-q", "--overwrite"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[1:])}\n{done.stdout}{done.stderr}")
    return list(read_results(str(path)).measurements)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="2,4")
    parser.add_argument("--row-budget", default="1s")
    parser.add_argument("--keep", metavar="DIR", help="where the results files stay")
    args = parser.parse_args()
    worlds = [int(word) for word in args.world.split(",")]
    with tempfile.TemporaryDirectory() as temporary:  # busbw bench writes the rows there as it takes them
        folder = Path(args.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        seen = bench(folder, "seen", SEEN, "ring", args.world, args.row_budget)
        asked = bench(folder, "asked", "all_reduce", ",".join(ALGORITHMS), args.world, args.row_budget)
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f}")
    found = calibrate(shape(max(worlds)), seen)
    print(
        f"calibrated on {found.rows} rows as {found.best.rival.name}: plateaus off by {found.best.median_error:.1%} (median)"
    )
    for parameter in found.best.parameters:
        print(f"  {parameter.name}: {parameter.text}")
    for n in worlds:
        for algorithm in ALGORITHMS:
            rows = [r for r in asked if r.call.world_size == n and r.labels.get("schedule") == algorithm]
            errors = []
            for row in rows:
                made = simulate(algorithm, found.machine, [row.call.size_bytes], world_size=n)[0]
                errors.append(made.time_s / row.time_s - 1)
                told = f"{format_time(made.time_s)} for {format_time(row.time_s)}"
                print(f"N={n} {algorithm:<12} {format_size(row.call.size_bytes):>8}  {told:<24} {errors[-1]:+.0%}")
            if errors:
                print(
                    f"N={n} {algorithm}: median error {median(map(abs, errors)):.0%}, largest {max(map(abs, errors)):.0%}"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
