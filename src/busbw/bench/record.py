"""The results file while it is written: opened and proven writable before anything is measured, flushed row by row."""

from __future__ import annotations

import fcntl
import json
import os
import stat
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
    "worlds",
    "repeats",
    "sweep",
    "init_timeout_s",
    "timeout_s",
)
"""Settings that say which rows are wanted or how long to wait, not how a row is taken: a resumed run may change them."""


class Record:
    """Appends to one results file."""

    def __init__(self, path: str, run: Run, *, resume: bool = False, overwrite: bool = False) -> None:
        self.path = Path(path)
        self.earlier: Results | None = None
        self._failed = False
        if resume and overwrite:
            raise UsageError("--resume goes on with the results file and --overwrite replaces it: use one of them")
        try:
            if not self.path.parent.is_dir():
                raise FileError(
                    f"{path}: there is no directory {self.path.parent}: make it first, or name another file with -o"
                )
            self._file: TextIO = self.path.open("a", encoding="utf-8")
            self._lock()
            exists = os.fstat(self._file.fileno()).st_size > 0
            if exists and resume:
                self.earlier = busbw_jsonl.read(self.path.read_text(encoding="utf-8", errors="replace"), path)
                _same_way(path, self.earlier.run, run)
                self._end_last_line()
            elif exists and overwrite:
                self._file.truncate(0)
            elif exists:
                raise UsageError(
                    f"{path} exists: add --resume to go on where it stopped, --overwrite, or name another file"
                )
            self._check_space()
            if self.earlier is None:
                self._write(busbw_jsonl.run_record(run))
        except OSError as error:
            name = path or "-o ''"
            raise FileError(f"{name}: cannot be written: {error.strerror}; name another file with -o") from error

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
        """Close the file; what could not be written was said when it was tried."""
        try:
            self._file.close()
        except OSError as error:
            if not self._failed:
                raise self._full(error) from error

    def _append(self, record: dict[str, Any]) -> None:
        try:
            self._write(record)
        except OSError as error:
            self._failed = True
            raise self._full(error) from error

    def _full(self, error: OSError) -> FileError:
        return FileError(
            f"{self.path}: cannot be written any more: {error.strerror}; the rows before are kept: make room, then --resume"
        )

    def _write(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record, separators=(",", ":")) + "\n")
        self._file.flush()

    def _lock(self) -> None:
        """Keep a second run from writing the same file, until this process ends."""
        if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FileError(
                f"{self.path}: another run is writing it: wait for its end, or name another file with -o"
            ) from error
        except OSError:
            pass  # a file system without locks

    def _end_last_line(self) -> None:
        """Let the next line start at its own beginning: a whole last line gets its end, one that a crash has cut goes."""
        data = self.path.read_bytes()
        if data.endswith(b"\n"):
            return
        start = data.rfind(b"\n") + 1
        try:
            json.loads(data[start:])
        except ValueError:
            self._file.truncate(start)
        else:
            self._file.write("\n")

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
