"""Other tools' files -> Results, one file a format; recognised by content, never by name."""

from __future__ import annotations

import sys
from pathlib import Path

from busbw.core.file_format import FORMATS
from busbw.core.measurement import Results
from busbw.errors import FileError

HEAD_CHARACTERS = 65536


def read_results(path: str) -> Results:
    """Read one results file of any known format; `-` is standard input.

    Raises FileError that names the file (and line), the rule and the formats that are known.
    """
    name = "<stdin>" if path == "-" else path
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    if not text.strip():
        raise FileError(f"{name}: the file is empty")
    head = text[:HEAD_CHARACTERS]
    for file_format in FORMATS:
        if file_format.recognises(head):
            return file_format.read(text, name)
    known = "; ".join(f"{file_format.name}: {file_format.summary}" for file_format in FORMATS)
    raise FileError(f"{name}: not a results file of a format that is known here ({known})")
