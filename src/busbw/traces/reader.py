"""Reads saved captures: files of ranks, or folders of them, whole or as a killed job left them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from busbw.core.trace import FORMAT_VERSION, CallKind, Group, Mark, RecordedCall, Trace
from busbw.errors import BusbwError, FileError

_NOT_A_LINE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, BusbwError)


def find_files(paths: Iterable[str | Path]) -> list[Path]:
    """The capture files that the paths mean: a folder stands for its rank-*.jsonl. FileError where there is none."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(path.glob("rank-*.jsonl"))
            if not inside:
                raise FileError(
                    f"{path}: holds no capture (rank-*.jsonl); busbw capture -o {path} -- COMMAND makes one"
                )
            found += inside
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def read_traces(paths: Iterable[str | Path]) -> tuple[Trace, ...]:
    """The traces of a job, by rank. A rank that was started several times counts with its last start, and says so."""
    by_rank: dict[int, list[tuple[Path, Trace]]] = {}
    for path in find_files(paths):
        trace = read_trace(path)
        by_rank.setdefault(trace.rank, []).append((path, trace))
    chosen: list[Trace] = []
    for rank in sorted(by_rank):
        starts = sorted(by_rank[rank], key=lambda each: float(each[1].facts.get("started_unix_s", 0)))
        path, trace = starts[-1]
        if len(starts) > 1:
            note = f"rank {rank} was started {len(starts)} times: only its last start counts ({path.name})"
            trace = _with_note(trace, note)
        chosen.append(trace)
    return tuple(chosen)


def read_trace(path: str | Path) -> Trace:
    """One rank's file; FileError names the line that breaks the format."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    return parse_trace(text, str(path))


def parse_trace(text: str, file_name: str) -> Trace:
    """One rank's capture from its text."""
    lines = text.split("\n")
    parts = _Parts()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            parts.add(json.loads(line))
        except FileError as error:
            raise FileError(f"{file_name}:{number}: {error}") from error
        except _NOT_A_LINE as error:
            if number == len(lines):  # no newline behind it: the write was cut
                parts.notes.append(f"{file_name}:{number}: the last line was cut and is not counted")
                continue
            why = f"{type(error).__name__}: {str(error)[:200]}"
            raise FileError(f"{file_name}:{number}: not a line of a capture ({why})") from error
    if parts.header is None:
        raise FileError(f'{file_name}: not a capture: it has no line with "type": "capture"')
    return parts.trace(file_name)


class _Parts:
    """What the lines so far hold."""

    def __init__(self) -> None:
        self.header: dict[str, Any] | None = None
        self.groups: dict[int, Group] = {}
        self.kinds: dict[int, CallKind] = {}
        self.calls: dict[int, list[int | None]] = {}
        self.marks: list[Mark] = []
        self.end: dict[str, Any] | None = None
        self.clock: dict[str, Any] | None = None
        self.notes: list[str] = []

    def add(self, line: Any) -> None:
        if isinstance(line, list):
            self._add_call(line)
            return
        kind = line["type"]
        if kind == "capture":
            if line["format"] != FORMAT_VERSION:
                raise FileError(f"capture format {line['format']!r} is not known here (only {FORMAT_VERSION})")
            int(line["rank"]), int(line["world_size"])
            self.header = line
        elif self.header is None:
            raise ValueError('the first line must be {"type": "capture", ...}')
        elif kind == "group":
            self.groups[line["id"]] = Group.from_json(line)
        elif kind == "kind":
            self.kinds[line["id"]] = CallKind.from_json(line, self.groups[line["group_id"]])
        elif kind == "mark":
            self.marks.append(_mark(line))
        elif kind == "clock":
            int(line["offset_ns"]), int(line["uncertainty_ns"])
            self.clock = line
        elif kind == "end":
            self.end = line
        elif kind == "note":
            self.notes.append(str(line["text"]))

    def _add_call(self, line: Sequence[Any]) -> None:
        if self.header is None:
            raise ValueError('the first line must be {"type": "capture", ...}')
        if not all(each is None or (isinstance(each, int) and not isinstance(each, bool)) for each in line):
            raise TypeError("a call's numbers must be whole")
        if len(line) == 2:
            sequence, end = line
            self.calls[sequence][3] = end
        else:
            sequence, kind, segment, start, end = line
            self.kinds[kind], int(segment), int(start), int(sequence)
            self.calls[sequence] = [kind, segment, start, end]

    def trace(self, file_name: str) -> Trace:
        header = self.header or {}
        calls = []
        for sequence in sorted(self.calls):
            kind, segment, start, end = self.calls[sequence]
            assert kind is not None
            assert segment is not None
            assert start is not None
            ended = None if end is None else end / 1e9
            calls.append(RecordedCall(sequence, self.kinds[kind], segment, start / 1e9, ended))
        notes = list(self.notes)
        if self.end is None:
            notes.append(
                f"{file_name}: the job was killed or still runs: calls of its last second may be missing"
                " (at most 512 of them)"
            )
        clock = self.clock
        return Trace(
            rank=int(header["rank"]),
            world_size=int(header["world_size"]),
            calls=tuple(calls),
            marks=tuple(self.marks),
            facts={key: value for key, value in header.items() if key not in ("type", "format", "rank", "world_size")},
            complete=self.end is not None,
            lost=0 if self.end is None else int(self.end.get("lost", 0)),
            clock_offset_s=None if clock is None else clock["offset_ns"] / 1e9,
            clock_uncertainty_s=0.0 if clock is None else clock["uncertainty_ns"] / 1e9,
            notes=tuple(notes),
        )


def _mark(line: dict[str, Any]) -> Mark:
    optimizer = line.get("optimizer")
    return Mark(
        str(line["what"]),
        int(line["sequence"]),
        int(line["segment"]),
        int(line["at_ns"]) / 1e9,
        None if optimizer is None else int(optimizer),
    )


def _with_note(trace: Trace, note: str) -> Trace:
    from dataclasses import replace

    return replace(trace, notes=(*trace.notes, note))
