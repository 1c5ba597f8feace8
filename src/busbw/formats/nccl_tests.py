"""nccl-tests and rccl-tests text, every layout since NCCL 1, between whatever else a log holds.

The tool names its test only since 2.17, and seldom its N: both are concluded from the whole table (`_nccl_ops`), and
what stays ambiguous is marked on the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw.core.file_format import FileFormat, ReadOptions
from busbw.core.log_text import LogText, clean_line
from busbw.core.measurement import Results
from busbw.formats._failures import failure_between, find_failures
from busbw.formats._nccl_build import Conclusion, Table, build, conclude, merge_runs
from busbw.formats._nccl_reader import NOTHING, SETTINGS, TITLE, OpenRun, Reader
from busbw.formats._nccl_rows import ASSUMED, START, is_known_type, read_row

_SIGNS = (b"algbw", b"Avg bus bandwidth", b"Out of bounds values", b"nThread ", b"Collective test", b"_perf")


def _recognises(text: LogText) -> bool:
    return text.contains(*_SIGNS) or any(_is_row(clean_line(raw)[1]) for raw in text.head.split("\n"))


def _is_row(line: str) -> bool:
    start = START.match(line)
    return start is not None and is_known_type(start[3]) and isinstance(read_row(line, 1, ASSUMED), list)


def _read(text: LogText, options: ReadOptions) -> Results | None:
    reader = Reader(text)
    reader.read()
    runs = _with_meaning(reader.runs)
    if not runs:
        return _never_started(text, reader.tests)
    failures = find_failures(text) if any(not run.table.complete for run in runs) else []
    ends = [*(run.table.first_line - 1 for run in runs[1:]), 2**63]
    for run, end in zip(runs, ends, strict=True):
        _rescale(run)
        if not run.table.complete:
            run.table.failure = failure_between(failures, run.table.first_line, end)
    parts = []
    for run, found in zip(runs, _conclusions(runs, options), strict=True):
        parts.append(build(run.table, found))
        run.table.halves = []  # what was printed is in the rows now; long files need the memory
    return merge_runs(parts)


def _with_meaning(runs: Sequence[OpenRun]) -> list[OpenRun]:
    """Without titles that opened nothing: an empty section counts only beside filled ones of the same kind."""
    filled = {run.section for run in runs if run.section is not None and run.table.halves}

    def counts(run: OpenRun) -> bool:
        if run.table.halves or run.table.unreadable.count or run.part == TITLE or run.part >= SETTINGS:
            return True
        return run.part == NOTHING and run.section in filled

    return [run for run in runs if counts(run)]


def _rescale(run: OpenRun) -> None:
    """Rows without a header whose times turn out to be milliseconds."""
    halves = run.table.halves
    if run.layout is not ASSUMED:
        return
    factors = [
        half.algbw * 1e9 * half.time_s / half.size
        for half in halves
        if half.size and half.algbw is not None and half.algbw > 10 * half.algbw_slack
    ]
    if factors and sorted(factors)[len(factors) // 2] < 0.01:
        run.table.halves = [
            replace(half, time_s=half.time_s * 1e3, time_slack_s=half.time_slack_s * 1e3) for half in halves
        ]
        run.table.notes.append("its times are milliseconds, by its rates")


def _conclusions(runs: Sequence[OpenRun], options: ReadOptions) -> list[Conclusion]:
    found = [conclude(run.table, options) for run in runs]
    certain = [
        each.world_size
        for each in found
        if each.world_size and not any(mark.code.startswith("world_size") for mark in each.marks)
    ]
    for index, run in enumerate(runs):
        if any(mark.code == "world_size_estimated" for mark in found[index].marks):
            found[index] = conclude(run.table, options, certain)
    filled = {(each.collective, each.world_size) for each, run in zip(found, runs, strict=True) if run.table.halves}
    for index, run in enumerate(runs):
        if run.section is not None and not run.table.halves and len(filled) == 1:
            collective, world_size = next(iter(filled))
            found[index] = Conclusion(
                collective, world_size, notes=("op and N: as in the other sections of this file",)
            )
    return found


def _never_started(text: LogText, tests: list[str]) -> Results | None:
    """A log that only shows the command and why it failed."""
    failures = find_failures(text) if tests else []
    if not failures:
        return None
    table = Table(text.name, failures[0].line, tests=tests, failure=failures[0].reason)
    return build(table, conclude(table, ReadOptions()))


FORMAT = FileFormat("nccl_tests", "nccl-tests and rccl-tests text (all_reduce_perf ...)", _recognises, _read)
