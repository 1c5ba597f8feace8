"""busbw's finest rung against SimGrid, an exact simulator of max-min fair flows, on machines drawn from a seed.

    apt-get install libsimgrid-dev        # Debian; g++ too
    python benchmarks/sim/simgrid/compare.py [--seed 7] [--random 60] [--json]

The program next to this file is built against libsimgrid in a temporary folder; where there is none, nothing is compared and that
is said (exit 0). All-reduce by several algorithms runs on random connected machines and on presets of up to 64 ranks. Exit 1
where a time differs by more than 0.5 %.

What SimGrid gets is the machine's wires, routes and latencies, and each message with the slots that it reads and writes: what it
waits for, and how the wires are shared, it finds by itself.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tests" / "sim"))

from machines import random_machine  # noqa: E402

from busbw.algorithms.spec import parse_algorithm  # noqa: E402
from busbw.core.schedule import Schedule  # noqa: E402
from busbw.core.topology import Topology  # noqa: E402
from busbw.sim import simulate  # noqa: E402
from busbw.topologies import read_topology  # noqa: E402

WITHIN = 0.005
ALGORITHMS = (
    "ring",
    "recursive_halving_doubling",
    "recursive_doubling",
    "double_binary_tree",
    "tree",
    "direct",
    "pairwise",
    "bruck",
    "centralised",
    "multi_ring",
)
PRESETS = (
    ("pcie-8gpu", "ring"),
    ("pcie-8gpu", "multi_ring(channels=4)"),
    ("pcie-8gpu", "double_binary_tree"),
    ("dgx-a100", "ring"),
    ("mi300x", "multi_ring(channels=6)"),
    ("switch(gpus=64, bandwidth=50GiB/s, latency=0.5us)", "ring"),
    ("switch(gpus=64, bandwidth=50GiB/s, latency=0.5us)", "double_binary_tree"),
    ("torus(shape=4x4x4)", "ring"),
    ("torus(shape=8x8)", "recursive_halving_doubling"),
    ("mesh(shape=6x6)", "double_binary_tree"),
    ("dragonfly", "recursive_halving_doubling"),
    ("cluster(hosts=8, host=dgx-h100, nic=400Gb/s)", "ring"),
    ("cluster(hosts=8, host=dgx-h100, nic=400Gb/s)", "hierarchical"),
    ("cluster(hosts=4, host=pcie-8gpu(nics=4), nic=200Gb/s, oversubscription=2)", "recursive_halving_doubling"),
    ("rail(hosts=4)", "double_binary_tree"),
    ("fat-tree(hosts=64, host=gpu, nic=200Gb/s, oversubscription=4)", "pairwise"),
)


def build(folder: Path) -> Path | None:
    """The compiled program; None where g++ or libsimgrid is missing."""
    program = folder / "oracle"
    command = ["g++", "-O2", "-std=c++17", str(HERE / "oracle.cpp"), "-o", str(program), "-lsimgrid"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        print("skipped: g++ is not installed")
        return None
    if done.returncode:
        missing = "simgrid/s4u.hpp" in done.stderr or "-lsimgrid" in done.stderr
        if not missing:
            raise SystemExit(done.stderr)
        print("skipped: libsimgrid is not installed (apt-get install libsimgrid-dev)")
        return None
    return program


def written(schedule: Schedule, machine: Topology, size_bytes: int) -> str:
    """The input of the program."""
    parts = schedule.parts or ((1.0, schedule),)
    lines, messages, pairs = [], [], {}
    for channel, (share, part) in enumerate(parts):
        for number, one in enumerate(part.rounds()):
            together: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
            columns = (one.source, one.target, one.source_slot, one.target_slot, one.length)
            for source, target, read, write, length in zip(*(c.tolist() for c in columns), strict=True):
                assert min(source, target) >= 0, "switches that reduce are not compared"
                if source != target:
                    together.setdefault((source, target), []).append((read, write, length))
            for (source, target), runs in together.items():
                pairs[source, target] = None
                reads = [slot for read, _, length in runs for slot in range(read, read + length)]
                writes = [slot for _, write, length in runs for slot in range(write, write + length)]
                amount = round(share * size_bytes / part.chunks * len(reads))
                words = [source, target, channel, number, amount, len(reads), *reads, len(writes), *writes]
                messages.append(" ".join(map(str, words)))
    source, target = np.array(list(pairs)).T
    routes = machine.routes(source, target)
    capacities = machine.capacities()
    used = np.unique(routes.resources)
    place = {int(resource): i for i, resource in enumerate(used)}
    rates = [capacities[resource] for resource in used]
    told = []
    for i in range(len(source)):
        wires = [place[int(resource)] for resource in routes.of(i)]
        if np.isfinite(routes.cap_Bps[i]):
            wires.append(len(rates))
            rates.append(routes.cap_Bps[i])
        latency_us = (routes.latency_s[i] + machine.costs.message_s) * 1e6
        told.append(" ".join(map(str, [source[i], target[i], repr(float(latency_us)), len(wires), *wires])))
    lines.append(f"wires {len(rates)} " + " ".join(repr(float(rate) * 1e-6) for rate in rates))
    lines.append(f"ranks {machine.world_size}")
    lines += [f"routes {len(told)}", *told, f"messages {len(messages)}", *messages]
    return "\n".join(lines) + "\n"


def compare(program: Path, machine: Topology, algorithm: str, size_bytes: int) -> tuple[float, float]:
    """(ours, SimGrid's) in seconds."""
    schedule = parse_algorithm(algorithm).build("all_reduce", machine.world_size)
    found = simulate(schedule, machine, [size_bytes], exact=True)[0]
    text = written(schedule, machine, found.call.size_bytes)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return found.time_s - machine.costs.launch_s, float(done.stdout) * 1e-6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="(default: a new one, printed)")
    parser.add_argument("--random", type=int, default=60, help="random machines (default: 60)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    cases = [(read_topology(spec), algorithm) for spec, algorithm in PRESETS]
    for _ in range(args.random):
        cases.append((random_machine(rng, most=rng.choice([4, 8, 16, 32])), rng.choice(ALGORITHMS)))
    rows, worst = [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        if program is None:
            return 0
        for number, (machine, algorithm) in enumerate(cases):
            size = machine.world_size * 4 * round(2 ** rng.uniform(8, 22))
            ours, theirs = compare(program, machine, algorithm, size)
            error = ours / theirs - 1
            worst = max(worst, abs(error))
            name = machine.name if number < len(PRESETS) else f"random, {machine.link_count} links"
            rows.append(
                {
                    "machine": name,
                    "n": machine.world_size,
                    "algorithm": algorithm,
                    "bytes": size,
                    "ours_s": ours,
                    "simgrid_s": theirs,
                }
            )
            if not args.json:
                print(
                    f"{name[:60]:<60} N={machine.world_size:<3} {algorithm:<28} {ours * 1e6:12.3f} {theirs * 1e6:12.3f} us {error:+.4%}"
                )
    if args.json:
        print(json.dumps({"seed": args.seed, "within": WITHIN, "largest_error": worst, "rows": rows}, indent=1))
    else:
        print(f"seed {args.seed}: {len(rows)} all-reduces, largest difference {worst:.4%} (at most {WITHIN:.1%})")
    return int(worst > WITHIN)


if __name__ == "__main__":
    sys.exit(main())
