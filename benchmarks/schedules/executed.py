"""Schedules run as point-to-point calls against the backend's own collective, on this machine.

    python benchmarks/schedules/executed.py [--backends gloo,mpi] [--worlds 2,4] [--sizes 4KiB,256KiB,16MiB] [--repeats 3]

Prints, for all-reduce, the median time over launches of each way and its ratio to the backend's own, with the lowest
and the highest ratio of a launch; and the ratio that the bytes alone would give (busiest rank's bytes, and rounds). All ways
run in the same launches, one after the other.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict

import busbw
from busbw.bench.settings import OWN
from busbw.bench.work import SCHEDULE_LABEL
from busbw.units import format_size, parse_size

WAYS = (
    "ring",
    "centralised",
    "tree",
    "double_binary_tree",
    "recursive_doubling",
    "recursive_halving_doubling",
    "bruck",
)
ORDERS = ("ring(order=0-1-2-3)", "ring(order=0-2-1-3)", "ring(order=0-1-3-2)")


def main() -> None:
    """Measure and print one table for each backend and N."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backends", default="gloo,mpi")
    parser.add_argument("--worlds", default="2,4")
    parser.add_argument("--sizes", default="4KiB,256KiB,16MiB")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--row-budget", type=float, default=1.0)
    args = parser.parse_args()
    sizes = [parse_size(size) for size in args.sizes.split(",")]
    for backend in args.backends.split(","):
        for world in map(int, args.worlds.split(",")):
            ways = (OWN, *WAYS, *(ORDERS if world == 4 else ()))
            results = busbw.measure(
                ["all_reduce"],
                sizes,
                [world],
                backend=backend,
                repeats=args.repeats,
                algorithms=ways,
                row_budget_s=args.row_budget,
            )
            print(f"\n{backend}, N={world}: all-reduce, {args.repeats} launches; us, and times the backend's own\n")
            show(results.measurements, ways, sizes, world)


def show(rows: tuple[busbw.Measurement, ...], ways: tuple[str, ...], sizes: list[int], world: int) -> None:
    times: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    for row in rows:
        assert row.wrong == 0, f"{row.call} by {row.labels.get(SCHEDULE_LABEL, OWN)}: {row.wrong} elements are wrong"
        times[row.labels.get(SCHEDULE_LABEL, OWN), row.call.size_bytes][row.repeat] = row.time_s
    print("| way | rounds | sent by the busiest | " + " | ".join(format_size(size) for size in sizes) + " |")
    print("|---|---|---|" + "---|" * len(sizes))
    for way in ways:
        schedule = None if way == OWN else busbw.parse_algorithm(way).build("all_reduce", world)
        about = "| | " if schedule is None else f"| {schedule.round_count} | {schedule.sent_share().max():.4g} S "
        cells = []
        for size in sizes:
            mine, own = times[way, size], times[OWN, size]
            ratios = [mine[launch] / own[launch] for launch in mine]
            middle = statistics.median(mine.values()) * 1e6
            spread = f" x{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
            cells.append(f"{middle:.0f}" + ("" if way == OWN else spread))
        print(f"| {way} {about}| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
