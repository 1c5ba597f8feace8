"""What building a schedule costs at N = 512, 4096 and 131072, and verifying it at N = 64 and 512.

    python benchmarks/schedules/build.py

Prints milliseconds, and the array entries that the schedule consists of.
"""

from __future__ import annotations

import time

from busbw.core.collective import COLLECTIVES
from busbw.core.schedule import ALGORITHMS
from busbw.core.verify import MOST_WORK, verify, work


def main() -> None:
    """One row an algorithm and collective."""
    print("| algorithm | collective | build N=512 | 4096 | 131072 | entries at 131072 | verify N=64 | 512 |")
    print("|---|---|---|---|---|---|---|---|")
    for algorithm in ALGORITHMS:
        for collective, builder in algorithm.builders.items():
            cells = []
            entries = ""
            for n in (512, 4096, 131072):
                try:
                    began = time.perf_counter()
                    schedule = algorithm.build(collective, n) if n == 131072 else builder(n)
                    cells.append(f"{(time.perf_counter() - began) * 1e3:.1f} ms")
                    entries = str(sum(len(p.source) for _, q in schedule.parts or ((1, schedule),) for p in q.phases))
                except Exception as error:
                    cells.append(type(error).__name__ if "lists every pair" not in str(error) else "refused")
                    entries = ""
            for n in (64, 512):
                schedule = None
                if not algorithm.supports(collective, n):
                    schedule = builder(n, root=n - 1 if COLLECTIVES.get(collective).rooted else 0)
                if schedule is None or work(schedule) > 4 * MOST_WORK:
                    cells.append("-")
                    continue
                began = time.perf_counter()
                verify(schedule)
                cells.append(f"{(time.perf_counter() - began) * 1e3:.0f} ms")
            print(
                f"| {algorithm.name} | {collective} | {' | '.join(cells[:3])} | {entries} | {' | '.join(cells[3:])} |"
            )


if __name__ == "__main__":
    main()
