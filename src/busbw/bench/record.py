"""The results file while it is written: opened and proven writable before anything is measured, flushed row by row."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TextIO

from busbw.core.measurement import Measurement, Results, Run
from busbw.errors import FileError, UsageError
from busbw.formats import busbw_jsonl

_LEAST_FREE_BYTES = 1 << 20
_MAY_DIFFER = (
    "sizes",
    "collectives",
    "dtypes",
    "redops",
    "roots",
    "time_budget_s",
    "row_budget_s",
    "max_bytes_by_default",
)
"""Settings that say which rows are wanted, not how a row is taken: a resumed run may change them."""


class Record:
    """Appends to one results file."""

    def __init__(self, path: str, run: Run, *, resume: bool = False, overwrite: bool = False) -> None:
        self.path = Path(path)
        self.earlier: Results | None = None
        if not self.path.parent.is_dir():
            raise FileError(
                f"{path}: there is no directory {self.path.parent}: make it first, or name another file with -o"
            )
        exists = self.path.exists() and self.path.stat().st_size > 0
        if exists and not resume and not overwrite:
            raise UsageError(
                f"{path} exists: add --resume to go on where it stopped, --overwrite, or name another file"
            )
        if exists and resume:
            self.earlier = busbw_jsonl.read(self.path.read_text(encoding="utf-8", errors="replace"), path)
            _same_way(path, self.earlier.run, run)
        try:
            self._file: TextIO = self.path.open("a" if exists and resume else "w", encoding="utf-8")
            if exists and resume:
                self._cut_partial_line()
            self._check_space()
            if self.earlier is None:
                self._write(busbw_jsonl.run_record(run))
        except OSError as error:
            raise FileError(f"{path}: cannot be written: {error.strerror}; name another file with -o") from error

    def launch(self, launch: dict[str, Any]) -> None:
        """The ranks of a launch have started."""
        self._append({"type": "launch", **launch})

    def row(self, measurement: Measurement) -> None:
        """A row was taken."""
        self._append(busbw_jsonl.measurement_record(measurement))

    def note(self, text: str) -> None:
        """Something happened beside the rows."""
        self._append({"type": "note", "text": text})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _append(self, record: dict[str, Any]) -> None:
        try:
            self._write(record)
        except OSError as error:
            raise FileError(
                f"{self.path}: cannot be written any more: {error.strerror}; the rows before are kept: make room, then --resume"
            ) from error

    def _write(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record, separators=(",", ":")) + "\n")
        self._file.flush()

    def _cut_partial_line(self) -> None:
        """A line that an earlier crash has cut goes, so that the next one starts at its own beginning."""
        data = self.path.read_bytes()
        if data and not data.endswith(b"\n"):
            self._file.truncate(data.rfind(b"\n") + 1)

    def _check_space(self) -> None:
        room = os.statvfs(self.path.parent)
        if room.f_bavail * room.f_frsize < _LEAST_FREE_BYTES:
            raise FileError(
                f"{self.path}: less than 1 MiB is free on its disk: make room, or name another file with -o"
            )


def _same_way(path: str, earlier: Run, now: Run) -> None:
    """Refuse to mix rows that were taken in different ways in one file."""
    for name, value in now.settings.items():
        before = earlier.settings.get(name)
        if name not in _MAY_DIFFER and json.dumps(before) != json.dumps(value):
            raise UsageError(
                f"{path} was taken with {name}={before!r} and this run has {value!r}: name another file with -o"
            )
