"""When a call was complete: events on a GPU's streams, the worker's completion on CPUs.

Neither is free, so calls are timed in some steps only (`Sampling`), the same ones on every rank:

- a call that the program waits for in Python (`dist.all_reduce(x)`, `irecv(...).wait()`): when its wait returns;
- a call that goes on while the program does (DDP's buckets, functional collectives): a thread of ours waits for the
  future of its work. A callback on the future would run in gloo's own thread, which then needs Python's lock before it
  can go on; a waiting thread delays nobody;
- on a GPU with NCCL: an event on the current stream before the call (its inputs are ready) and one on a stream of our
  own that waits for the work. Events are read when they are done, never waited for.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

_EVERY = 32
_FIRST = 5
_BLOCK = 64

_MOST_WAITING = 256
_MOST_EVENTS = 4096
MODES = ("sampled", "all", "none")


class Sampling:
    """Which calls are timed: those of the first steps (from `first` on) and then of each 32nd; without steps, blocks of 64 calls."""

    def __init__(self, mode: str, first: int = 0) -> None:
        self._mode, self._first = mode, first

    def timed(self, segment: int, sequence: int) -> bool:
        """Whether this call is; the same on all ranks, as they run the same steps."""
        if self._mode != "sampled":
            return self._mode == "all"
        if segment:
            return 0 <= segment - self._first < _FIRST or segment % _EVERY == 0
        return sequence < _BLOCK or (sequence // _BLOCK) % _EVERY == 0


class CpuTimes:
    """Fills in element 4 of a record, its end, when the call is complete. One for the process (`CPU_TIMES`).

    The program's waits are seen by putting our own in place of `Work.wait`, and only while some recorder times calls.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: set[int] = set()
        self._waiting: dict[int, tuple[Any, list[list[Any]]]] = {}
        self._queue: queue.SimpleQueue[tuple[Any, list[Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._original: Any = None

    def watch(self, user: object, on: bool) -> None:
        """See the program's waits from now on, or no longer, for one recorder."""
        from torch._C._distributed_c10d import Work

        with self._lock:
            (self._users.add if on else self._users.discard)(id(user))
            if self._users and self._original is None:
                self._original = Work.wait
                setattr(Work, "wait", self._waiter(self._original))  # noqa: B010 - torch's stubs call it read-only
            elif not self._users and self._original is not None:
                setattr(Work, "wait", self._original)  # noqa: B010
                self._original = None
                self._waiting.clear()

    def finish(self) -> None:
        """Give calls that are about to end a moment."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join(timeout=0.5)

    def issued(self, record: list[Any], work: Any, program_waits: bool) -> None:
        """Follow a call that has just been made. `work` is what the operator returned."""
        from torch._C._distributed_c10d import Work

        work = Work.unbox(work)
        if program_waits:
            waiting = self._waiting
            if len(waiting) >= _MOST_WAITING:  # works that nobody waits for; keeping them would keep their tensors
                with contextlib.suppress(StopIteration, KeyError, RuntimeError):
                    del waiting[next(iter(waiting))]
            held = waiting.get(id(work))
            waiting[id(work)] = (work, [*held[1], record] if held is not None and held[0] is work else [record])
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="busbw-capture-ends", daemon=True)
            self._thread.start()
        self._queue.put((work.get_future(), record))

    def _waiter(self, original: Any) -> Any:
        waiting, clock = self._waiting, time.perf_counter_ns

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            entry = waiting.pop(id(work), None) if waiting else None
            result = original(work, *args, **kwargs)
            if entry is not None and entry[0] is work:
                now = clock()
                for record in entry[1]:
                    record[4] = now
            return result

        return wait

    def _follow(self) -> None:
        clock = time.perf_counter_ns
        while (entry := self._queue.get()) is not None:
            future, record = entry
            with contextlib.suppress(Exception):  # a call that failed has no end; the program hears of it itself
                future.wait()
                record[4] = clock()
            del entry, future, record


CPU_TIMES = CpuTimes()


class CudaTimes:
    """Start and end of calls on a GPU, in nanoseconds of the host's clock.

    A pair of host time and event, taken on a stream that is otherwise idle, ties the two clocks; a new pair is taken
    every second, because they drift by some microseconds a second. Not for calls in a CUDA graph that is captured.
    `cuda` is torch.cuda, `unbox` takes an operator's work out of its box.
    """

    def __init__(self, cuda: Any, unbox: Callable[[Any], Any]) -> None:
        self._cuda = cuda
        self._unbox = unbox
        self._streams: dict[int, tuple[Any, Any]] = {}
        self._anchors: dict[int, tuple[Any, int]] = {}
        self._open: list[tuple[list[Any], Any, Any, tuple[Any, int]]] = []

    def arrived(self, device: int) -> Any:
        """An event on the current stream: what the call needs is ready. None where there can be none."""
        if self._cuda.is_current_stream_capturing() or len(self._open) >= _MOST_EVENTS:
            return None
        event = self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(device))
        return event

    def issued(self, record: list[Any], work: Any, device: int, begin: Any) -> None:
        """Follow the call: an event behind its work on a stream of our own."""
        work = self._unbox(work)
        ours, idle = self._streams.get(device) or self._new_streams(device)
        anchor = self._anchor(device, idle)
        end = self._cuda.Event(enable_timing=True)
        with self._cuda.stream(ours):
            work.wait()
        end.record(ours)
        self._open.append((record, begin, end, anchor))

    def collect(self) -> list[list[Any]]:
        """Read the events that are done into their records; returns those records."""
        done: list[list[Any]] = []
        while self._open and self._open[0][2].query():
            record, begin, end, (anchor, host_ns) = self._open.pop(0)
            record[3] = host_ns + round(anchor.elapsed_time(begin) * 1e6)
            record[4] = host_ns + round(anchor.elapsed_time(end) * 1e6)
            done.append(record)
        return done

    def finish(self) -> None:
        """Give what is still on its way half a second, and read it."""
        until = time.monotonic() + 0.5
        while self._open and not self._open[-1][2].query() and time.monotonic() < until:
            time.sleep(0.001)
        self.collect()

    def _new_streams(self, device: int) -> tuple[Any, Any]:
        pair = (self._cuda.Stream(device), self._cuda.Stream(device))
        self._streams[device] = pair
        return pair

    def _anchor(self, device: int, idle: Any) -> tuple[Any, int]:
        held = self._anchors.get(device)
        now = time.perf_counter_ns()
        if held is None or now - held[1] > 1_000_000_000:
            event = self._cuda.Event(enable_timing=True)
            event.record(idle)
            event.synchronize()  # of a stream without work: some microseconds
            held = self._anchors[device] = (event, time.perf_counter_ns())
        return held
