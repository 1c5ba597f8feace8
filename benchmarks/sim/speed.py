"""Seconds and peak memory of simulating an all-reduce, against what they may take: a warm call, and the whole command.

python benchmarks/sim/speed.py [--runs 5] [--all] [--json]

Each figure is the median of several runs. Warm: a call in a process that made one before, on a machine that is there.
Cold: the command `busbw simulate ... --json` as a user types it, a new process each time. First: the same with an empty
folder for compiled code, so that whatever needs compiling is compiled. Memory is the peak of the command's process.

Where libsimgrid-dev is installed, SimGrid runs the ring of 512 ranks in the same run, written as its users write it (C++,
an actor a rank), and the ratios are printed. Ends with status 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

SWITCH = "switch(gpus={n}, bandwidth=50GiB/s, latency=0.5us)"
TREE = "cluster(hosts=131072, host=gpu, nic=400Gb/s, levels=3, radix=64)"
DGX = "cluster(hosts=16384, host=dgx-h100, nic=400Gb/s, levels=3, oversubscription=2)"

WARM = """
import sys, time
from busbw.sim import simulate
from busbw.topologies import read_topology
machine = read_topology(sys.argv[1])
options = {"exact": True} if sys.argv[4] == "exact" else {}
simulate(sys.argv[2], machine, [int(sys.argv[3])], **options)
for _ in range(int(sys.argv[5])):
    start = time.perf_counter()
    found = simulate(sys.argv[2], machine, [int(sys.argv[3])], **options)[0]
    print(time.perf_counter() - start)
print(found.time_s, found.rung)
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One simulation, with what it may take; None: no limit."""

    name: str
    topology: str
    algorithm: str
    size_bytes: int
    warm_s: float | None = None
    cold_s: float | None = None
    exact: bool = False

    def command(self) -> list[str]:
        """As a user types it."""
        words = ["simulate", "--topology", self.topology, "--algorithm", self.algorithm]
        words += ["--sizes", str(self.size_bytes), "--json", *(["--exact"] if self.exact else [])]
        return [sys.executable, "-m", "busbw", *words]


HD = "recursive_halving_doubling"
MOST_MIB = 1024
CASES = (
    Case("ring N=512", SWITCH.format(n=512), "ring", 2**26, 0.05, 2.0),
    Case("ring N=4096", SWITCH.format(n=4096), "ring", 2**26, 0.5, 3.0),
    Case("ring N=131072, 3-level fat tree", TREE, "ring", 2**30, 1.0, 5.0),
    Case("halving-doubling N=131072, 3-level fat tree", TREE, HD, 2**30, 10.0, 15.0),
)
MORE = (
    Case("ring N=131072, DGX hosts, 2:1", DGX, "ring", 2**30, 1.0, 5.0),
    Case("halving-doubling N=131072, DGX hosts, 2:1", DGX, HD, 2**30, 10.0, 15.0),
    Case("ring N=512, by dependencies", SWITCH.format(n=512), "ring", 2**26, exact=True),
    Case("halving-doubling N=1024, by dependencies", SWITCH.format(n=1024), HD, 2**26, exact=True),
)


@dataclass(frozen=True, slots=True)
class Took:
    """Medians of one case."""

    warm_s: float
    cold_s: float
    cold_cpu_s: float
    first_s: float
    mib: float
    predicted_s: float
    rung: str


def run(command: list[str], **environment: str) -> tuple[float, float, float]:
    """(seconds, CPU seconds, peak MiB) of a process and what it starts."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)}: status {child.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(case: Case, runs: int) -> Took:
    """All figures of one case."""
    words = [case.topology, case.algorithm, str(case.size_bytes), "exact" if case.exact else "", str(runs)]
    done = subprocess.run([sys.executable, "-c", WARM, *words], stdout=subprocess.PIPE, text=True, check=True)
    *warm, last = done.stdout.splitlines()
    predicted, rung = last.split()[0], " ".join(last.split()[1:])
    with tempfile.TemporaryDirectory() as empty:
        first = run(case.command(), NUMBA_CACHE_DIR=empty)
    cold = [run(case.command()) for _ in range(runs)]
    return Took(
        statistics.median(map(float, warm)),
        statistics.median(each[0] for each in cold),
        statistics.median(each[1] for each in cold),
        first[0],
        max(first[2], *(each[2] for each in cold)),
        float(predicted),
        rung,
    )


def simgrid(runs: int) -> tuple[float, float] | str:
    """(simulated seconds, median seconds of the process) of a ring of 512; or why there is none."""
    from _simgrid import HERE, build

    reason = build()
    if reason:
        return reason
    command = [str(HERE / "build" / "ring"), "512", str(2**26), repr(50 * 2.0**30), "0.5e-6"]
    simulated = float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return simulated, statistics.median(run(command)[0] for _ in range(runs))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="of which medians are taken (default: %(default)s)")
    parser.add_argument("--all", action="store_true", help="further cases: hosts of 8 GPUs, simulation by dependencies")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    say = (lambda text: None) if args.json else (lambda text: print(text, flush=True))
    say(f"# medians of {args.runs} runs on {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}; limits in brackets")
    say(f"{'':<44} {'predicted':>12} {'warm':>16} {'cold':>16} {'CPU':>7} {'first':>7} {'memory':>9}  rung")
    rows, missed = [], []
    for case in (*CASES, *(MORE if args.all else ())):
        took = measure(case, args.runs)
        rows.append({**asdict(case), "measured": asdict(took)})
        limits = (
            ("warm call", took.warm_s, case.warm_s),
            ("whole command", took.cold_s, case.cold_s),
            ("whole command, nothing compiled", took.first_s, case.cold_s),
            ("MiB", took.mib, MOST_MIB),
        )
        missed += [f"{case.name}: {name} {it:.3g} > {most:g}" for name, it, most in limits if most and it > most]
        say(
            f"{case.name:<44} {took.predicted_s * 1e6:>9.1f} us {_against(took.warm_s, case.warm_s)} "
            f"{_against(took.cold_s, case.cold_s)} {took.cold_cpu_s:>5.2f} s {took.first_s:>5.2f} s {took.mib:>5.0f} MiB  {took.rung}"
        )
    theirs = simgrid(args.runs)
    if isinstance(theirs, str):
        say(f"# SimGrid is left out: {theirs}")
    else:
        took = rows[0]["measured"]
        say(
            f"# SimGrid's ring N=512: {theirs[0] * 1e6:.1f} us, whole process {theirs[1]:.2f} s: {theirs[1] / took['cold_s']:.1f} times our "
            f"command, {theirs[1] / took['warm_s']:.0f} times our warm call"
        )
        for row in rows[1:]:
            if row["name"] == "ring N=512, by dependencies":
                say(
                    f"#   {theirs[1] / row['measured']['cold_s']:.1f} times our command that follows every message, as it does"
                )
        rows.append({"name": "SimGrid, ring N=512", "simulated_s": theirs[0], "process_s": theirs[1]})
    if args.json:
        print(json.dumps({"rows": rows, "missed": missed}, indent=1))
    else:
        print("all limits kept" if not missed else f"missed: {'; '.join(missed)}")
    return int(bool(missed))


def _against(seconds: float, limit: float | None) -> str:
    text = f"{seconds:.4f} s" if seconds < 0.1 else f"{seconds:.2f} s"
    return f"{text:>9} {'' if limit is None else f'({limit:g})':>6}"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
