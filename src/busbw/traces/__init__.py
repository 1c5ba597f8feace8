"""What a real job calls: a live capture, or files of one, become Traces; a Trace becomes a Bill."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.core.bill import Bills
from busbw.core.trace import Trace
from busbw.errors import UsageError
from busbw.traces.bills import bills_of
from busbw.traces.reader import read_file, read_traces
from busbw.traces.waiting import align_by_ends, compare_ranks

if TYPE_CHECKING:
    from busbw.traces.live.capture import Capture

__all__ = ["bills_of", "capture", "compare_ranks", "job_bills", "read_file", "read_traces"]


def capture(output: str | Path | None = None, steps: str | range | None = None, times: str = "sampled") -> Capture:
    """Record every collective call of this program, whoever makes it: `with busbw.capture() as bill: train()`.

    Afterwards `bill.lines` are the lines of a usual step as this rank pays it, `bill.bills` has every step. `output`
    is a folder in which each rank appends to its own file (`busbw capture FOLDER` prints it, all ranks together).
    `steps` keeps only those, such as "10:20". `times` says which calls are timed: "sampled" (the first steps, then each
    32nd), "all" or "none". Needs torch.
    """
    from busbw.traces.live.capture import Capture

    return Capture(output, parse_steps(steps) if isinstance(steps, str) else steps, times)


def job_bills(paths: Iterable[str | Path], steps: range | None = None) -> dict[int, Bills]:
    """The bills of every rank of a saved capture, with waiting apart from moving where all ranks are there."""
    return bills_of_traces(read_traces(paths), steps)


def bills_of_traces(traces: Iterable[Trace], steps: range | None = None) -> dict[int, Bills]:
    """The bills by rank of a job's traces."""
    job = tuple(traces)
    if any(trace.facts.get("clock") == "profiler" for trace in job):
        job = align_by_ends(job)
    timings, notes = compare_ranks(job)
    return {trace.rank: bills_of(trace, timings[trace.rank], steps, notes) for trace in job}


def parse_steps(text: str) -> range:
    """Steps 10 to 19 of "10:20", step 10 of "10", all from 10 on of "10:"; UsageError for what is not that."""
    first, colon, last = text.partition(":")
    try:
        start = int(first or (0 if colon else ""))
        stop = (2**31 if not last else int(last)) if colon else start + 1
    except ValueError:
        start, stop = 0, 0
    if not 0 <= start < stop:
        raise UsageError(
            f"steps {text!r}: must be FIRST:END such as 10:20 (steps 10 to 19, counted from 0), or one number"
        )
    return range(start, stop)
