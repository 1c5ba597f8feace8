"""`-o FILE`: what may be replaced is an older file of the same kind, never the measurements that were just read."""

from __future__ import annotations

from pathlib import Path

from busbw.errors import FileError, UsageError

HEAD_BYTES = 4096


def refuse_other_kinds(path: str, mark: bytes, kind: str) -> None:
    """UsageError when `path` is a file with something in it that is not of `kind`: its beginning does not hold `mark`."""
    if not path:
        raise UsageError("-o '': name a file")
    place = Path(path)
    try:
        if not place.is_file() or not place.stat().st_size:
            return
        with place.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}") from error
    if mark not in head:
        raise UsageError(f"-o {path}: exists and is no {kind}: name another file")
