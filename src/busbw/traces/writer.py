"""Appends what one rank records to its file, so that a job that dies leaves what it did.

Lines are kept in a buffer and written at the end of each step, when the buffer is full, or when its oldest line is a
second old (a thread looks), so a job that is killed loses at most that much; `docs/capturing.md` says so to users.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from busbw.core.trace import FORMAT_VERSION
from busbw.errors import FileError

FULL = 512
"""Calls that are buffered at most."""


class Writer:
    """One rank's file. It is made when the rank is known, with the first line that is written.

    `header` holds what the first line says beside rank and world size.
    """

    def __init__(self, directory: str | Path, header: Mapping[str, Any]) -> None:
        self._directory = Path(directory)
        self._header = dict(header)
        self._file: int | None = None
        self._lock = threading.Lock()
        self._failed = False
        self.path: Path | None = None

    def open(self, rank: int, world_size: int) -> None:
        """Create the file and write its first line; FileError when it cannot be."""
        restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        name = f"rank-{rank:05d}" + (f".restart-{restart}" if restart not in ("", "0") else "")
        first = {"type": "capture", "format": FORMAT_VERSION, "rank": rank, "world_size": world_size, **self._header}
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            for attempt in range(1000):
                self.path = self._directory / f"{name}{f'.{attempt}' if attempt else ''}.jsonl"
                try:
                    self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
                    break
                except FileExistsError:  # a second process group's life, or a second capture, of the same rank
                    continue
        except OSError as error:
            raise FileError(f"{self._directory}: the capture cannot be written there: {error.strerror}") from error
        self.write([json.dumps(first, separators=(",", ":"))])

    def write(self, lines: Sequence[str]) -> None:
        """Append lines at once. A full disk ends the capture, not the program."""
        if not lines or self._file is None or self._failed:
            return
        data = memoryview(("\n".join(lines) + "\n").encode())
        with self._lock:
            try:
                while data:
                    data = data[os.write(self._file, data) :]
            except OSError as error:
                self._failed = True
                os.write(2, f"busbw capture: {self.path}: {error.strerror}; no further call is recorded\n".encode())

    def close(self) -> None:
        """Close the file; what was written stays."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def call_line(record: Sequence[Any]) -> str:
    """`[sequence, kind, segment, start_ns, end_ns or null]`, and S and bytes sent where they are not the kind's."""
    if len(record) == 5:
        sequence, kind, segment, start, end = record
        return f"[{sequence},{kind},{segment},{start},{'null' if end is None else end}]"
    sequence, kind, segment, start, end, size, sent = record[:7]
    return f"[{sequence},{kind},{segment},{start},{'null' if end is None else end},{size},{sent}]"
