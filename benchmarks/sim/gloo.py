"""Schedules executed on this machine's gloo, against what the simulator predicts after calibrating on other collectives.

python benchmarks/sim/gloo.py [--world 2,4] [--sizes 4KiB,64KiB,1MiB,16MiB] [--row-budget 2s] [--repeats 3] [--results DIR]

Measured: scatter, gather, all-gather, reduce-scatter, broadcast and all-to-all as point-to-point calls, on which a machine
is calibrated; then all-reduce by ring, tree and the centralised way, which the calibrated machine predicts without having
seen any all-reduce. Every row's error is printed, beside how far the launches lie apart; and whether the algorithms
come in the predicted order.

The machine: processes that talk through loopback are limited by the CPU time of copying, on either side. So a core is
written as a switch whose uplink has a budget of both ways together, which all flows of its processes use (those between
processes of one core twice), and calibrate's own descriptions of such switches are fitted. Processes are not pinned. Each
N is calibrated by itself: where processes wait for a core a message costs something else, which no wire explains.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from busbw import read_results
from busbw.bench.work import SCHEDULE_LABEL
from busbw.core.measurement import Measurement
from busbw.core.topology import Device, Link, Topology, TopologyBuilder
from busbw.sim import simulate
from busbw.sim.calibrating import calibrate
from busbw.units import format_size, format_time

KNOWN = (("scatter,gather,all_to_all", "direct"), ("all_gather,reduce_scatter", "ring"), ("broadcast", "tree"))
ASKED = ("ring", "tree", "centralised")
GB = 1e9


def machine(ranks: int) -> Topology:
    """Processes by turns on the cores that we may run on."""
    cores = max(1, min(ranks, len(os.sched_getaffinity(0))))
    builder = TopologyBuilder("this machine's processes")
    builder.add(Device("cpu", "cpu", "host"))
    builder.add(Device("memory", "memory", "host"))
    builder.link(Link("cpu", "memory", "memory", 100 * GB, 100 * GB))
    for core in range(cores):
        builder.add(Device(f"core{core}", "pcie_switch", "host"))
        builder.link(Link(f"core{core}", "cpu", "pcie", 5 * GB, 5 * GB, basis="assumed"))
    for rank in range(ranks):
        builder.add(Device(f"process{rank}", "process", "host"))
        builder.link(Link(f"process{rank}", f"core{rank % cores}", "pcie", 100 * GB, 100 * GB, basis="assumed"))
    return builder.build()


def bench(op: str, algorithms: str, path: Path, args: argparse.Namespace) -> None:
    command = [sys.executable, "-m", "busbw", "bench", "--backend", "gloo", "--world", args.world, "--op", op]
    command += ["--algorithm", algorithms, "--sizes", args.sizes, "--row-budget", args.row_budget]
    command += ["--repeats", str(args.repeats), "-o", str(path), "-q"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"busbw bench: {done.stderr.strip()}")


def measured(folder: Path, args: argparse.Namespace) -> tuple[list[Measurement], list[Measurement]]:
    """(rows to calibrate on, rows to predict); those that lie in the folder are taken as they are."""
    rows: list[list[Measurement]] = []
    for name, work in (("known", KNOWN), ("asked", (("all_reduce", ",".join(ASKED)),))):
        rows.append([])
        for number, (op, algorithms) in enumerate(work):
            path = folder / f"{name}{number}.jsonl"
            if not path.exists():
                bench(op, algorithms, path, args)
            rows[-1] += read_results(str(path)).measurements
    return rows[0], rows[1]


def spread(rows: Sequence[Measurement]) -> str:
    """How far launches lie apart, or the width of the one row's interval: half of it, relative."""
    middle = statistics.median(row.time_s for row in rows)
    if len(rows) > 1:
        times = [row.time_s for row in rows]
        return f"{(max(times) - min(times)) / 2 / middle:.0%}"
    summary = rows[0].summary
    if summary is None or summary.low_s is None or summary.high_s is None:
        return "?"
    return f"{(summary.high_s - summary.low_s) / 2 / middle:.0%}"


def report(known: Sequence[Measurement], asked: Sequence[Measurement]) -> None:
    n = asked[0].call.world_size
    found = calibrate(machine(n), known)
    print(
        f"# N={n}: calibrated on {found.rows} rows of {len({row.call.collective for row in known})} collectives, without all-reduce"
    )
    for rival in found.rivals:
        print(f"#   {rival.verdict:<8} {rival.rival.name}: median error of its plateaus {rival.median_error:.0%}")
    for parameter in found.best.parameters:
        print(f"#   {parameter.name} {parameter.text}")
    print(f"{'N':>2} {'size':>8} {'algorithm':<12} {'measured':>10} {'+-':>6} {'predicted':>10} {'error':>7}")
    errors: dict[tuple[int, bool], list[float]] = {}
    order: list[bool] = []
    by_way: dict[tuple[int, int, str], list[Measurement]] = {}
    by_call: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for row in asked:
        by_way.setdefault((row.call.world_size, row.call.size_bytes, row.labels[SCHEDULE_LABEL]), []).append(row)
    for (n, size, name), rows in sorted(by_way.items()):
        call = rows[0].call
        took = statistics.median(row.time_s for row in rows)
        predicted = simulate(name, found.machine, [size], call.collective, world_size=n, dtype=call.dtype)[0].time_s
        error = predicted / took - 1
        errors.setdefault((n, size >= found.plateau_bytes), []).append(abs(error))
        by_call.setdefault((n, size), []).append((took, predicted))
        print(
            f"{n:>2} {format_size(size):>8} {name:<12} {format_time(took):>10} {spread(rows):>6} "
            f"{format_time(predicted):>10} {error:>+7.0%}"
        )
    for (n, large), each in sorted(errors.items()):
        what = f"{'from' if large else 'below'} {format_size(found.plateau_bytes)}"
        print(
            f"# N={n}, {what}: median error {statistics.median(each):.0%}, largest {max(each):.0%} ({len(each)} rows)"
        )
    for each in by_call.values():
        order.append(min(each)[1] == min(predicted for _, predicted in each))
    print(f"# the fastest algorithm is the predicted one in {sum(order)} of {len(order)} cases")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="2,4", help="world sizes (default: %(default)s)")
    parser.add_argument("--sizes", default="4KiB,64KiB,1MiB,16MiB", help="(default: %(default)s)")
    parser.add_argument("--row-budget", default="2s", help="time for a row (default: %(default)s)")
    parser.add_argument(
        "--repeats", type=int, default=3, help="launches, of which medians are taken (default: %(default)s)"
    )
    parser.add_argument("--results", metavar="DIR", help="keep results there, and use those that are there already")
    args = parser.parse_args()
    print(f"# gloo on {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(args.results or folder)
        path.mkdir(parents=True, exist_ok=True)
        known, asked = measured(path, args)
    for n in sorted({row.call.world_size for row in asked}):
        report(*([row for row in rows if row.call.world_size == n] for rows in (known, asked)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
