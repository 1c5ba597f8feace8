"""Other tools' files -> Results, one file a format; recognised by content, never by name."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from busbw.core.collective import find_collective
from busbw.core.file_format import FORMATS, FileFormat, ReadOptions
from busbw.core.log_text import LogText
from busbw.core.measurement import Results, Run, Source
from busbw.errors import FileError, NoRows, UsageError
from busbw.formats._failures import find_failures

T = TypeVar("T")

MOST_UNREADABLE = 100


def read_results(path: str, op: str | None = None, world_size: int | None = None) -> Results:
    """Read one results file of any known format; `-` is standard input.

    `op` and `world_size` say what the file itself does not, and win over what is worked out from it.
    Raises FileError that names the file (and line), the rule and the formats that are known; NoRows, a FileError, when
    the kind of output is known and there is no row in it.
    """
    name = "<stdin>" if path == "-" else path
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    return read_text(LogText(data, name), op, world_size)


def read_text(text: LogText, op: str | None = None, world_size: int | None = None) -> Results:
    """As `read_results`, of a text that is in memory already."""
    if world_size is not None and world_size < 1:
        raise UsageError(f"world size {world_size}: the number of ranks is at least 1")
    options = ReadOptions(None if op is None else find_collective(op).name, world_size)
    if not text.data.strip(b" \t\r\n\0"):
        raise FileError(f"{text.name}: the file is empty")
    formats = list(FORMATS)
    for document in formats:
        if document.kind == "document" and document.recognises(text):
            results = document.read(text, options)
            if results is not None:
                return _with_rows(merge(results.runs), text.name)
    found: list[Results] = []
    for kind in ("log", "fallback")[: 1 if text.is_binary else 2]:
        for log in formats:
            if log.kind == kind and log.recognises(text):
                found += _new_parts(log.read(text, options), found)
        if any(part.measurements for part in found):
            break
    if not found:
        raise FileError(_not_known(text, formats))
    return _with_rows(merge(found), text.name)


def merge(parts: Sequence[Results]) -> Results:
    """Runs of one file as one Results, in the order of their lines; rows measured again get the next `repeat`."""
    ordered = sorted(parts, key=_first_line)
    if len(ordered) == 1:
        return ordered[0]
    seen: Counter[object] = Counter()
    numbered = []
    labels: dict[frozenset[tuple[str, str]], int] = {}
    for part in ordered:
        # Labels are few and long: a number stands for each kind of them.
        kinds = {id(row.labels): row.labels for row in part.measurements}
        numbers = {name: labels.setdefault(frozenset(of.items()), len(labels)) for name, of in kinds.items()}
        keys = [(row.call, numbers[id(row.labels)]) for row in part.measurements]
        again = [seen[key] for key in keys]
        pairs = zip(part.measurements, again, strict=True)
        rows = (
            [replace(row, repeat=times) if times else row for row, times in pairs] if any(again) else part.measurements
        )
        seen.update(set(keys))
        numbered.append(replace(part, measurements=tuple(rows)))
    runs = [part.run for part in numbered]
    run = Run(
        tool=_shared([run.tool for run in runs]) or "several",
        version=_shared([run.version for run in runs]) or "",
        notes=tuple(note for run in runs for note in run.notes),
        collective=_shared([run.collective for run in runs]),
        world_size=_shared([run.world_size for run in runs]),
        complete=False if any(run.complete is False for run in runs) else _shared([run.complete for run in runs]),
        failure=next((run.failure for run in runs if run.failure), None),
        unreadable=tuple(line for run in runs for line in run.unreadable)[:MOST_UNREADABLE],
        unreadable_count=sum(run.unreadable_count for run in runs),
    )
    return Results(run, tuple(row for part in numbered for row in part.measurements), tuple(numbered))


def _new_parts(results: Results | None, found: Sequence[Results]) -> list[Results]:
    """Its runs, without the rows on lines that another format has read already."""
    if results is None:
        return []
    taken = {_line(row.source) for part in found for row in part.measurements}
    if not taken:
        return list(results.runs)
    parts = []
    for part in results.runs:
        rows = tuple(row for row in part.measurements if _line(row.source) not in taken)
        if rows or not part.measurements:
            parts.append(replace(part, measurements=rows))
    return parts


def _first_line(part: Results) -> int:
    lines = [_line(part.run.source), *(_line(row.source) for row in part.measurements[:1])]
    return min((line for line in lines if line), default=0)


def _line(source: Source | None) -> int:
    return 0 if source is None else source.line


def _shared(values: list[T]) -> T | None:
    return values[0] if all(value == values[0] for value in values) else None


def _with_rows(results: Results, file_name: str) -> Results:
    if results.measurements:
        return results
    reasons = []
    for part in results.runs:
        run = part.run
        what = " of ".join(word for word in (run.tool, run.collective) if word)
        ranks = f" on {run.world_size} ranks" if run.world_size else ""
        unread = f"; {run.unreadable_count} such lines could not be read" if run.unreadable_count else ""
        where = f"{run.source.file}:{run.source.line}: " if run.source else f"{file_name}: "
        why = run.failure or "the output ends before the first one"
        reasons.append(f"{where}{what}{ranks} has no row: {why}{unread}")
    more = [f"and {len(reasons) - 3} more such runs"] if len(reasons) > 3 else []
    raise NoRows("; ".join(reasons[:3] + more), results)


def _not_known(text: LogText, formats: Sequence[FileFormat]) -> str:
    known = ", ".join(file_format.name for file_format in formats)
    packer = next((name for start, name in _PACKED.items() if text.data.startswith(start)), None)
    if packer is not None:
        return f"{text.name}: packed with {packer}: {packer} -dc {text.name} | busbw ... -"
    hint = next((f"; {way}" for needles, way in _OTHERS if any(needle in text.head for needle in needles)), "")
    for failure in find_failures(text)[:1]:
        return f"{text.name}:{failure.line}: no results in it: {failure.reason}{hint} (formats that are known: {known})"
    if text.is_binary:
        return f"{text.name}: not a results file but a binary one (formats that are known here: {known})"
    return f"{text.name}: not a results file of a format that is known here{hint} ({known})"


_PACKED = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\0": "xz", b"(\xb5/\xfd": "zstd", b"BZh": "bzip2"}
"""The first bytes of a packed file -> the command that unpacks it."""

_OTHERS = (
    (("<system", "<graphs", "CPU Affinity", "busbw_topology"), "it describes a machine: busbw topo FILE"),
    (('"traceEvents"', '"ph":'), "it is a trace: busbw capture FILE"),
    (("NCCL INFO",), "for NCCL's own lines: busbw explain --nccl-log FILE, busbw topo FILE"),
)
"""What the beginning of a file that is no result holds, and the command that reads it."""
