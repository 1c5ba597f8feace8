"""The running capture of one process: a recorder that sees all calls, its file, and what comes of it."""

from __future__ import annotations

import atexit
import os
import platform
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from busbw._version import __version__
from busbw.core.bill import Bill, Bills, Line
from busbw.core.trace import Trace
from busbw.errors import MissingDependency, UsageError
from busbw.traces.bills import bills_of
from busbw.traces.reader import read_file
from busbw.traces.writer import Writer

_OLD_NS = 1_000_000_000  # a line is written when it is this old


class Capture:
    """Records every collective call of this process between `start` and `stop` (or inside `with`).

    `output` is a folder for this rank's file; without it everything stays in memory. `steps` keeps only those training
    steps, counted from 0. `times` says which calls are timed: "sampled" (the first steps, then each 32nd), "all" or
    "none". After the end, `bills` and `lines` have this rank's bill; while it runs, what was seen so far.
    """

    def __init__(self, output: str | Path | None = None, steps: range | None = None, times: str = "sampled") -> None:
        try:
            from busbw.traces.live.recorder import Recorder
        except ImportError as error:
            raise MissingDependency("torch", "torch", "capturing a program's collectives") from error

        self._writer = None if output is None else Writer(output, _header())
        self._steps = steps
        self._times = times
        self._recorder = Recorder(self._writer, steps, times)
        self._running = False
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> Capture:
        """Begin to record."""
        from busbw.traces.live._times import MODES
        from busbw.traces.live.intercept import attach

        if self._times not in MODES:
            raise UsageError(f"times {self._times!r}: choose from {', '.join(MODES)}")
        if self._running:
            raise UsageError("this capture is running already: make another one, or stop it first")
        self._running = True
        attach(self._recorder)
        atexit.register(self._at_exit)
        if self._writer is not None:
            self._run(self._flush_old)
            self._recorder.when_job_is_met(self._align_clocks)
        return self

    def stop(self, why: str = "stopped") -> None:
        """Stop recording, and finish the file."""
        from busbw.traces.live.intercept import detach

        if not self._running:
            return
        self._running = False
        self._stopping.set()
        detach(self._recorder)
        for thread in self._threads:  # one that is still inside torch when Python ends takes the process down
            thread.join(timeout=2)
        atexit.unregister(self._at_exit)
        self._recorder.close(why)

    def step(self) -> None:
        """Say that a training step begins here: for programs whose steps do not end with an optimizer of torch."""
        self._recorder.mark("step")

    @property
    def trace(self) -> Trace:
        """Every call of this rank, in order."""
        path = None if self._writer is None else self._writer.path
        if path is None:
            return self._recorder.trace()
        self._recorder.flush()
        return read_file(path)[-1]

    @property
    def bills(self) -> Bills:
        """This rank's bills, by step."""
        return bills_of(self.trace, steps=self._steps)

    @property
    def steady(self) -> Bill:
        """The bill of a usual step: the most frequent one after the second, or the last that there is."""
        return self.bills.steady

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines of that bill."""
        return self.steady.lines

    def __enter__(self) -> Capture:
        return self.start()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.stop("stopped" if kind is None else f"stopped by {kind.__name__}")

    def _at_exit(self) -> None:
        self.stop("exit")

    def _align_clocks(self, rank: int, world_size: int) -> None:
        from busbw.traces.live._clocks import align

        self._run(align, rank, world_size, _boot_id(), self._recorder.note_clock, self._stopping)

    def _run(self, work: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=work, args=args, name="busbw-capture", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _flush_old(self) -> None:
        while not self._stopping.wait(_OLD_NS / 2e9):
            self._recorder.flush_if_old(_OLD_NS // 2)


def _header() -> dict[str, Any]:
    """What the file says of the process. Nothing of its arguments or environment, which may hold secrets."""
    import torch

    return {
        "busbw": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "host": platform.node(),
        "pid": os.getpid(),
        "boot_id": _boot_id(),
        "started_unix_s": time.time(),
        "started_ns": time.perf_counter_ns(),
    }


def _boot_id() -> str:
    """The same for all processes that share this kernel's monotonic clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()
