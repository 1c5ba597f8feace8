"""All-reduce times against SimGrid's, on random connected machines drawn from a seed and on presets, up to 64 ranks.

python benchmarks/sim/oracle.py [--seed 1] [--cases 60] [--sizes 1MiB,64MiB] [--only TEXT] [-v]

Two comparisons a case: our finest rung (dependencies) with SimGrid's actors, who wait for their data and their turn alone;
and our steps (pattern, max-min) with SimGrid running round by round. A third, where all latencies are equal: the same
with SimGrid's own latency of links. SimGrid weighs flows by latency otherwise, as TCP does; max-min does not, so there
the latency stands in the replaying program. The launch of a call is not compared.

Ends with status 1 where a time differs by more than 0.5 %. Needs libsimgrid-dev; without it, says so and ends with 0.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from _machines import random_machine
from _simgrid import build, replay

from busbw.algorithms.spec import parse_algorithm
from busbw.core.schedule import Schedule
from busbw.core.topology import Topology
from busbw.errors import UsageError
from busbw.sim import simulate
from busbw.sim.patterns import patterns
from busbw.sim.steps import Steps
from busbw.sim.wires import Wires
from busbw.topologies import read_topology
from busbw.units import format_size, format_time, parse_size

MOST_RANKS = 64
MOST_DIFFERENCE = 0.005
ALWAYS = ("ring", "recursive_halving_doubling", "tree")
OTHERS = (
    "double_binary_tree",
    "recursive_doubling",
    "direct",
    "centralised",
    "multi_ring(channels=2)",
    "hierarchical",
    "bruck",
)
PRESETS = (
    "switch(gpus=8, bandwidth=50GiB/s, latency=0.5us)",
    "switch(gpus=64, bandwidth=50GiB/s, latency=0.5us)",
    "pcie-8gpu",
    "workstation(gpus=2)",
    "workstation(gpus=4)",
    "dgx-a100",
    "dgx-h100",
    "dgx-b200",
    "gb200-nvl72",
    "mi300x",
    "cluster(hosts=8, host=dgx-h100, nic=400Gb/s, oversubscription=2)",
    "cluster(hosts=4, host=pcie-8gpu(nics=4), nic=200Gb/s, oversubscription=2)",
    "fat-tree(hosts=64, host=gpu, nic=200Gb/s, oversubscription=4)",
    "fat-tree(hosts=64, levels=3, radix=8)",
    "rail(hosts=8)",
    "ring(gpus=16)",
    "torus(shape=4x4x4)",
    "mesh(shape=6x6)",
    "dragonfly(groups=4, switches=2, gpus=4, global_links=2)",
)


@dataclass(frozen=True)
class Case:
    """One schedule on one machine at one size."""

    name: str
    algorithm: str
    schedule: Schedule
    machine: Topology
    size_bytes: int


@dataclass(frozen=True)
class Row:
    """One comparison."""

    case: Case
    how: str
    ours_s: float
    simgrid_s: float

    @property
    def difference(self) -> float:
        """Of SimGrid's time."""
        return self.ours_s / self.simgrid_s - 1


def random_cases(seed: int, count: int, sizes: list[int]) -> Iterator[Case]:
    """Case k has a generator of its own, so that it is the same however many there are."""
    for k in range(count):
        rng = random.Random(f"{seed}/{k}")
        machine = random_machine(rng, MOST_RANKS, one_latency=rng.random() < 0.25)
        name = ALWAYS[k % 4] if k % 4 < 3 else rng.choice(OTHERS)
        yield from _case(f"random {seed}/{k} {machine.name}", name, machine, rng.choice(sizes))


def preset_cases(size: int) -> Iterator[Case]:
    """Every preset with up to 64 of its ranks."""
    for spec in PRESETS:
        whole = read_topology(spec)
        machine = whole.with_ranks(min(MOST_RANKS, whole.world_size))
        for name in ALWAYS:
            yield from _case(spec, name, machine, size)


def _case(name: str, algorithm: str, machine: Topology, size: int) -> Iterator[Case]:
    try:
        schedule = parse_algorithm(algorithm).build("all_reduce", machine.world_size, 0)
    except UsageError:  # not at this N
        schedule, algorithm = parse_algorithm("ring").build("all_reduce", machine.world_size, 0), "ring"
    yield Case(name, algorithm, schedule, machine, size)


def compare(case: Case) -> Iterator[Row]:
    """All comparisons of one case."""
    machine = case.machine
    found = {exact: simulate(case.schedule, machine, [case.size_bytes], exact=exact)[0] for exact in (False, True)}
    ours = {exact: each.time_s - machine.costs.launch_s for exact, each in found.items()}
    size = found[True].call.size_bytes
    yield Row(case, "dependencies", ours[True], replay(case.schedule, machine, size)[0])
    steps = ours[False]
    if found[False].rung == "dependencies":  # steps differ, so the rung was changed: ask for the steps themselves
        steps = Steps(case.schedule, machine).predict([found[False].call], "")[0].time_s - machine.costs.launch_s
    if not _pipelined(case.schedule):
        yield Row(case, "steps", steps, replay(case.schedule, machine, size, barrier=True)[0])
    if not _pipelined(case.schedule) and _one_latency(case.schedule, machine):
        theirs = replay(case.schedule, machine, size, barrier=True, latency_in_links=True)[0]
        yield Row(case, "own latency", steps, theirs)


def _pipelined(schedule: Schedule) -> bool:
    """Its steps overlap their latencies, so they are no rounds with a barrier."""
    parts = [part for _, part in schedule.parts] or [schedule]
    return any(phase.begin is not None or phase.end is not None for part in parts for phase in part.phases)


def _one_latency(schedule: Schedule, machine: Topology) -> bool:
    """Every message has the same latency, which is not 0."""
    wires = Wires(machine)
    latencies = np.concatenate([wires.routes(pattern).latency_s for pattern in patterns(schedule)])
    return bool(latencies.max() > 0 and np.ptp(latencies) <= 1e-12)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="(default: drawn)")
    parser.add_argument("--cases", type=int, default=60, help="random machines (default: %(default)s)")
    parser.add_argument("--sizes", default="64KiB,1MiB,64MiB", help="of the random cases (default: %(default)s)")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--no-presets", action="store_true")
    args = parser.parse_args()
    reason = build()
    if reason:
        print(f"skipped: {reason}")
        return 0
    print(f"# all-reduce, ours against SimGrid; seed {args.seed}, {args.cases} random machines")
    print(
        f"{'case':<46} {'algorithm':<27} {'N':>3} {'links':>5} {'size':>7} {'rung':<12} {'ours':>10} {'SimGrid':>10}  difference"
    )
    cases = list(random_cases(args.seed, args.cases, [parse_size(text) for text in args.sizes.split(",")]))
    cases += [] if args.no_presets else list(preset_cases(parse_size("64MiB")))
    rows = []
    for case in cases:
        if args.only not in case.name:
            continue
        for row in compare(case):
            rows.append(row)
            print(_line(row), flush=True)
    for how in ("dependencies", "steps", "own latency"):
        chosen = [abs(row.difference) for row in rows if row.how == how]
        if chosen:
            print(f"# {how}: {len(chosen)} comparisons, largest difference {max(chosen):.2e}")
    wrong = [row for row in rows if not abs(row.difference) <= MOST_DIFFERENCE]
    print(f"# {len(wrong)} of {len(rows)} differ by more than {MOST_DIFFERENCE:.1%}")
    return 1 if wrong or not rows else 0


def _line(row: Row) -> str:
    case = row.case
    return (
        f"{case.name[:46]:<46} {case.algorithm:<27} {case.machine.world_size:>3} {case.machine.link_count:>5} "
        f"{format_size(case.size_bytes):>7} {row.how:<12} {format_time(row.ours_s):>10} {format_time(row.simgrid_s):>10}  "
        f"{row.difference:+.1e}{'' if abs(row.difference) <= MOST_DIFFERENCE else '  <-- beyond 0.5 %'}"
    )


if __name__ == "__main__":
    sys.exit(main())
