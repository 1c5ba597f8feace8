"""How often does `compare` raise a false alarm, and how often does it find a 5 % change? Launches of the fake backend.

Each trial makes two runs of K launches a side in this process: 16 rows (all_reduce and all_gather, 8 sizes, N = 8) with
the fake backend's cost and noise model, each row the median of 20 batches of 10 calls. Launches differ by
`launch_jitter` (the luck of a launch, shared by its rows) and `row_jitter` (that of each row in it). Printed, in per cent
of the trials:

    false      both runs are equal, and the verdict is slower, faster or mixed; the aim is at most 5
    all        all rows of B take 5 % more, and the exit status is 1
    curve      all_reduce takes 5 % more, all_gather does not, and the exit status is 1
    row        one row of 16 takes 5 % more, and that very row is called slower
    reach      the median row: a change below this would not have been called real

    python benchmarks/compare_power.py [--pairs 200] [--change 0.05] [--repeats 2,3,4,5,7,10] [--seed 0] [--only NAME]
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np

from busbw.bench.backends.fake import FakeOptions
from busbw.bench.backends.fake_noise import parse_noise
from busbw.comparing import Comparison, compare
from busbw.core.call import Call
from busbw.core.measurement import Measurement, Results, Run
from busbw.units import KIB

CALLS = tuple(
    Call(collective, 64 * KIB * 4**power, 8, "float32", redop)
    for collective, redop in (("all_reduce", "sum"), ("all_gather", None))
    for power in range(8)
)
BATCHES, CALLS_PER_BATCH = 20, 10
WITHIN = "jitter=5%,autocorrelation=0.5"

NOISE = {
    "launches 1 %": f"{WITHIN},launch_jitter=1%",
    "launches 2 %": f"{WITHIN},launch_jitter=2%",
    "rows 2 %": f"{WITHIN},row_jitter=2%",
    "launches 1.4 %, rows 1.4 %": f"{WITHIN},launch_jitter=1.4%,row_jitter=1.4%",
    "launches 3 %": f"{WITHIN},launch_jitter=3%",
    "rows 3 %": f"{WITHIN},row_jitter=3%",
    "launches of two speeds": (
        f"{WITHIN},launch_jitter=0.5%,second_mode=5us,second_mode_share=0.4,second_mode_persistence=0.9999999"
    ),
}


def run(noise: str, launches: int, seed: int, calls: Sequence[Call] = CALLS) -> Results:
    """One run of some launches, as `busbw bench --backend fake --repeats` would take it."""
    machine = FakeOptions()
    rows = []
    for launch in range(launches):
        model = parse_noise(noise, seed=seed, launch=launch)
        for call in calls:
            model.begin_row()
            base_s = machine.alpha_s + call.size_bytes * call.kind.bus_factor(call.world_size) / machine.bandwidth_Bps
            samples = model.draw(base_s, BATCHES * CALLS_PER_BATCH).reshape(BATCHES, CALLS_PER_BATCH).mean(axis=1)
            rows.append(Measurement(call, float(np.median(samples)), labels={"backend": "fake"}, repeat=launch))
    return Results(Run(), tuple(rows))


def slowed(results: Results, change: float, which: Callable[[Call], bool]) -> Results:
    """The same run, with some calls slower by a share."""
    rows = tuple(
        dataclasses.replace(row, time_s=row.time_s * (1 + change)) if which(row.call) else row
        for row in results.measurements
    )
    return Results(results.run, rows)


CHANGED_ROW = CALLS[5]


@dataclasses.dataclass(slots=True)
class Tally:
    """How many trials ended how."""

    trials: int = 0
    false_alarms: int = 0
    found_all: int = 0
    found_curve: int = 0
    found_row: int = 0
    reaches: list[float] = dataclasses.field(default_factory=list)

    def line(self) -> str:
        """The shares in per cent, and the median reach."""
        shares = (self.false_alarms, self.found_all, self.found_curve, self.found_row)
        cells = " ".join(f"{count / self.trials:>8.1%}" for count in shares)
        return f"{cells} {float(np.median(self.reaches)):>8.1%}"


def campaign(noise: str, repeats: int, pairs: int, change: float = 0.05, seed: int = 0) -> Tally:
    """Compare `pairs` pairs of equal runs, and the same with three kinds of change."""
    tally = Tally()
    for pair in range(pairs):
        first = seed * 1_000_003 + 2 * pair
        a, b = run(noise, repeats, first), run(noise, repeats, first + 1)
        equal = compare(a, b)
        tally.trials += 1
        tally.false_alarms += equal.verdict not in ("same", "cannot tell")
        tally.reaches.append(equal.cannot_tell_below)
        tally.found_all += compare(a, slowed(b, change, lambda call: True)).exit_status()
        tally.found_curve += compare(a, slowed(b, change, lambda call: call.collective == "all_reduce")).exit_status()
        tally.found_row += _row_is_slower(compare(a, slowed(b, change, lambda call: call == CHANGED_ROW)))
    return tally


def _row_is_slower(comparison: Comparison) -> bool:
    return any(row.call == CHANGED_ROW and row.ratio.verdict == "slower" for row in comparison.rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="False alarms and power of `busbw compare` on simulated launches.")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--change", type=float, default=0.05)
    parser.add_argument("--repeats", default="1,2,3,4,5,7,10")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="settings whose name contains this")
    args = parser.parse_args()
    started = time.perf_counter()
    print(f"{args.pairs} pairs a line; changes of {args.change:.0%}; {len(CALLS)} rows")
    print(f"{'noise':28s} repeats    false      all    curve      row    reach")
    for name, noise in NOISE.items():
        if args.only not in name:
            continue
        for repeats in map(int, args.repeats.split(",")):
            tally = campaign(noise, repeats, args.pairs, args.change, args.seed)
            print(f"{name:28s} {repeats:7d} {tally.line()}", flush=True)
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
