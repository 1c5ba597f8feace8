"""Seconds and peak memory of simulating an all-reduce: a warm call, and the whole command from a cold start.

    python benchmarks/sim/speed.py [--json]

Each case runs in a process of its own. "Warm" is the second call in it, on a machine that is there; "cold" is the command
`busbw simulate ... --json` as a user types it (compiled code is kept between runs, so one run before is not counted). Exit 1
where a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

SWITCH = "switch(gpus={n}, bandwidth=50GiB/s, latency=0.5us)"
TREE = "cluster(hosts=131072, host=gpu, nic=400Gb/s, levels=3, radix=64)"
DGX = "cluster(hosts=16384, host=dgx-h100, nic=400Gb/s, levels=3, oversubscription=2)"

WARM = """
import resource, sys, time
from busbw.sim import simulate
from busbw.topologies import read_topology
machine = read_topology(sys.argv[1])
options = {"exact": True} if sys.argv[4] == "exact" else {}
simulate(sys.argv[2], machine, [int(sys.argv[3])], **options)
start = time.perf_counter()
found = simulate(sys.argv[2], machine, [int(sys.argv[3])], **options)[0]
seconds = time.perf_counter() - start
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, found.time_s, found.rung, sep="|")
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One simulation, with what it may take; None: no target."""

    name: str
    topology: str
    algorithm: str
    size_bytes: int
    warm_s: float | None = None
    cold_s: float | None = None
    mib: float | None = None
    exact: bool = False


CASES = (
    Case("ring N=512", SWITCH.format(n=512), "ring", 2**26, 0.05, 2.0),
    Case("ring N=4096", SWITCH.format(n=4096), "ring", 2**26, 0.5, 3.0),
    Case("ring N=131072, 3-level fat tree", TREE, "ring", 2**30, 1.0, 5.0, 1024),
    Case("halving-doubling N=131072, 3-level fat tree", TREE, "recursive_halving_doubling", 2**30, 10.0, 15.0, 1024),
    Case("ring N=131072, DGX hosts, 2:1", DGX, "ring", 2**30, 1.0, 5.0, 1024),
    Case("halving-doubling N=131072, DGX hosts, 2:1", DGX, "recursive_halving_doubling", 2**30, 10.0, 15.0, 1024),
    Case("ring N=512, by dependencies", SWITCH.format(n=512), "ring", 2**26, exact=True),
    Case(
        "halving-doubling N=1024, by dependencies",
        SWITCH.format(n=1024),
        "recursive_halving_doubling",
        2**26,
        exact=True,
    ),
)


def measure(case: Case) -> dict[str, object]:
    kind = "exact" if case.exact else ""
    words = [case.topology, case.algorithm, str(case.size_bytes), kind]
    done = subprocess.run([sys.executable, "-c", WARM, *words], capture_output=True, text=True, check=True)
    warm, mib, predicted, rung = done.stdout.strip().split("|")
    command = [sys.executable, "-m", "busbw", "simulate", "--topology", case.topology, "--algorithm", case.algorithm]
    command += ["--sizes", str(case.size_bytes), "--json", *(["--exact"] if case.exact else [])]
    subprocess.run(command, capture_output=True, check=True)  # compiled code is kept from here on
    start, cpu = time.perf_counter(), os.times()
    subprocess.run(command, capture_output=True, check=True)
    cold, after = time.perf_counter() - start, os.times()
    return {
        "warm_s": float(warm),
        "cold_s": cold,
        "cold_cpu_s": after.children_user + after.children_system - cpu.children_user - cpu.children_system,
        "mib": float(mib),
        "predicted_us": float(predicted) * 1e6,
        "rung": rung,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows, missed = [], []
    if not args.json:
        print(f"{'':<44} {'predicted':>12} {'warm':>8} {'cold':>8} {'(CPU)':>8} {'memory':>9}  rung")
    for case in CASES:
        row = measure(case)
        rows.append({**asdict(case), "measured": row})
        missed += [
            f"{case.name}: {name} {row[name]:.3g} > {most:g}"
            for name, most in (("warm_s", case.warm_s), ("cold_s", case.cold_s), ("mib", case.mib))
            if most is not None and row[name] > most  # type: ignore[operator]
        ]
        if not args.json:
            print(
                f"{case.name:<44} {row['predicted_us']:>9.1f} us {row['warm_s']:>6.3f} s {row['cold_s']:>6.2f} s "
                f"{row['cold_cpu_s']:>6.2f} s {row['mib']:>5.0f} MiB  {row['rung']}",
                flush=True,
            )
    if args.json:
        print(json.dumps({"rows": rows, "missed": missed}, indent=1))
    else:
        print("all targets met" if not missed else f"missed: {'; '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
