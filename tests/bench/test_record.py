"""A results file on a disk that fills while it is written."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from busbw.bench.record import Record
from busbw.core.measurement import Run
from busbw.errors import FileError


class Full:
    """A file whose disk has no room: whatever flushes it fails, closing too."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    close = flush


def test_a_disk_that_fills_is_named_once_and_closing_says_nothing_else(tmp_path: Path) -> None:
    record = Record(str(tmp_path / "r.jsonl"), Run())
    record._file = Full(record._file)  # type: ignore[assignment]
    with pytest.raises(
        FileError, match=r"r\.jsonl: cannot be written any more: No space left on device; the rows before are kept"
    ):
        record.note("one more")
    record.close()


def test_what_only_closing_finds_out_is_said(tmp_path: Path) -> None:
    record = Record(str(tmp_path / "r.jsonl"), Run())
    record._file = Full(record._file)  # type: ignore[assignment]
    with pytest.raises(FileError, match=r"r\.jsonl: cannot be written any more"):
        record.close()
