"""What a measured call costs beside the call: the timed loop on the fake backend, against an empty loop.

    python benchmarks/measure/bookkeeping.py

Prints microseconds a call. The limit is 1 us.
"""

from __future__ import annotations

import statistics
import time

from busbw.bench.backends.base import Backend, Group, Progress, Seat
from busbw.bench.backends.fake import FakeBackend
from busbw.bench.work import Item
from busbw.core.call import Call

CALLS = 200_000
ROUNDS = 21


def empty_loop(calls: int) -> float:
    """Seconds of a loop over a function that does nothing."""

    def nothing() -> None:
        pass

    start = time.perf_counter()
    for _ in range(calls):
        nothing()
    return time.perf_counter() - start


def main() -> None:
    """Interleave both loops, and print medians and their difference."""
    backend = FakeBackend("fake", "alpha=5us")
    backend.start(Seat(0, 1, 0, 1, lambda *_: None, str, lambda value: [value]), 1.0)
    item = Item(Call("all_reduce", 4096, 1, "float32", "sum", None, False), 1024)
    issue = backend.prepare(item, backend.allocate(1024, "float32"), backend.allocate(1024, "float32"), Group((0,), 0))
    progress = Progress()
    ours, empty = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        Backend.time_batch(backend, issue, CALLS, progress)
        ours.append((time.perf_counter() - start) / CALLS * 1e6)
        empty.append(empty_loop(CALLS) / CALLS * 1e6)
    print(
        f"measured loop  {statistics.median(ours):.3f} us a call (the fake call, the loop, the place of the heartbeat)"
    )
    print(f"empty loop     {statistics.median(empty):.3f} us a call")
    print(f"bookkeeping    {statistics.median(ours) - statistics.median(empty):.3f} us a call; the limit is 1 us")


if __name__ == "__main__":
    main()
