"""Reads saved captures: files of ranks, or folders of them, whole or as a killed job left them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from busbw.core.call import is_whole
from busbw.core.trace import FORMAT_VERSION, CallKind, ClockPoint, Group, KindsBySize, Mark, RecordedCall, Trace
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
    by_rank: dict[int, list[Trace]] = {}
    for path in find_files(paths):
        for trace in read_file(path):
            by_rank.setdefault(trace.rank, []).append(trace)
    chosen: list[Trace] = []
    for rank in sorted(by_rank):
        trace = max(by_rank[rank], key=_started)
        if len(by_rank[rank]) > 1:
            note = f"rank {rank} was captured {len(by_rank[rank])} times: only its last start counts"
            trace = replace(trace, notes=(*trace.notes, note))
        chosen.append(trace)
    return tuple(chosen)


def read_file(path: str | Path) -> tuple[Trace, ...]:
    """The traces of one file: a capture of one rank, or of several merged; a profiler's trace; a flight recorder's dump.

    FileError names what is wrong with it, and the line of a capture.
    """
    from busbw.traces import flight_recorder, kineto

    name = str(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    data = kineto.unpack(data, name)
    if data[:1] == b"\x80":
        raise FileError(f"{path}: {flight_recorder.PICKLE}")
    head = data[:4096].lstrip()
    if head.startswith((b"{", b"[")) and not head.startswith(b'{"type"'):
        if flight_recorder.is_dump(data):
            return (flight_recorder.read(data, name),)
        if b'"type": "capture"' not in head:
            return (kineto.read(data, name),)
    return parse_traces(data.decode("utf-8", "replace"), name)


def parse_traces(text: str, file_name: str) -> tuple[Trace, ...]:
    """The captures in a text. Each begins with its first line; a cut line is a note at the end of any of them."""
    lines = text.split("\n")
    found: list[_Parts] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            if isinstance(data, dict) and data["type"] == "capture":
                found.append(_Parts(_header(data)))
            elif not found:
                raise ValueError('the first line must be {"type": "capture", ...}')
            else:
                found[-1].add(data)
        except FileError as error:
            raise FileError(f"{file_name}:{number}: {error}") from error
        except _NOT_A_LINE as error:
            next_begins = number < len(lines) and lines[number].startswith('{"type":"capture"')
            if found and (number == len(lines) or next_begins):  # no newline behind it: the write was cut
                found[-1].notes.append(f"{file_name}:{number}: the last line was cut and is not counted")
                continue
            why = f"{type(error).__name__}: {str(error)[:200]}"
            raise FileError(f"{file_name}:{number}: not a line of a capture ({why})") from error
    if not found:
        raise FileError(f'{file_name}: not a capture: it has no line with "type": "capture"')
    return tuple(parts.trace(file_name) for parts in found)


def _header(line: dict[str, Any]) -> dict[str, Any]:
    if line["format"] != FORMAT_VERSION:
        raise FileError(f"capture format {line['format']!r} is not known here (only {FORMAT_VERSION})")
    if not 0 <= int(line["rank"]) < int(line["world_size"]):
        raise ValueError(f"rank {line['rank']} is not below the world size {line['world_size']}")
    return line


def _started(trace: Trace) -> float:
    started = trace.facts.get("started_unix_s", 0)
    return float(started) if isinstance(started, int | float) else 0.0


class _Parts:
    """What the lines of one rank hold so far."""

    def __init__(self, header: dict[str, Any]) -> None:
        self.header = header
        self.groups: dict[int, Group] = {}
        self.kinds: dict[int, CallKind] = {}
        self.calls: dict[int, list[int | None]] = {}
        self.marks: list[Mark] = []
        self.end: dict[str, Any] | None = None
        self.clock: list[ClockPoint] = []
        self.notes: list[str] = []

    def add(self, line: Any) -> None:
        if isinstance(line, list):
            self._add_call(line)
            return
        kind = line["type"]
        if kind == "group":
            self.groups[line["id"]] = Group.from_json(line)
        elif kind == "kind":
            self.kinds[line["id"]] = CallKind.from_json(line, self.groups[line["group_id"]])
        elif kind == "mark":
            self.marks.append(_mark(line))
        elif kind == "clock":
            at, offset, uncertainty = (int(line[key]) / 1e9 for key in ("at_ns", "offset_ns", "uncertainty_ns"))
            if not self.clock or at > self.clock[-1].at_s:
                self.clock.append(ClockPoint(at, offset, uncertainty))
        elif kind == "end":
            self.end = line
        elif kind == "note":
            self.notes.append(str(line["text"]))

    def _add_call(self, line: Sequence[Any]) -> None:
        if not all(each is None or (isinstance(each, int) and not isinstance(each, bool)) for each in line):
            raise TypeError("a call's numbers must be whole")
        if len(line) < 4:
            sequence, end, *start = line
            self.calls[sequence][3] = end
            if start:
                self.calls[sequence][2] = start[0]
        else:
            sequence, kind, segment, start, end, *sizes = line
            self.kinds[kind], int(segment), int(start), int(sequence)
            if sizes:
                size, sent = sizes
                if not (is_whole(size) and is_whole(sent)):
                    raise ValueError(f"S {size!r} and bytes sent {sent!r} must be whole numbers of 0 or more")
            self.calls[sequence] = [kind, segment, start, end, *sizes]

    def trace(self, file_name: str) -> Trace:
        header, kinds = self.header, KindsBySize(self.kinds)
        calls = []
        for sequence in sorted(self.calls):
            kind, segment, start, end, *sizes = self.calls[sequence]
            assert kind is not None
            assert segment is not None
            assert start is not None
            ended = None if end is None else end / 1e9
            words = kinds.get(kind, [size for size in sizes if size is not None])
            calls.append(RecordedCall(sequence, words, segment, start / 1e9, ended))
        notes = list(self.notes)
        if self.end is None:
            notes.append(
                f"rank {header['rank']} was killed or still runs: calls of its last second may be missing (at most 512)"
            )
        return Trace(
            rank=int(header["rank"]),
            world_size=int(header["world_size"]),
            calls=tuple(calls),
            marks=tuple(self.marks),
            facts={key: value for key, value in header.items() if key not in ("type", "format", "rank", "world_size")},
            complete=self.end is not None,
            lost=0 if self.end is None else int(self.end.get("lost", 0)),
            clock=tuple(self.clock),
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
