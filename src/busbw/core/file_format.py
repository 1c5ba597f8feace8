"""An input format: how to recognise it by content, and how to read it into Results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from busbw.core.log_text import LogText
from busbw.core.measurement import Results
from busbw.registry import Registry


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the user knows better than the file: each None means "as the file says"."""

    op: str | None = None
    """The collective's name in core's spelling (`all_reduce`)."""
    world_size: int | None = None


@dataclass(frozen=True, slots=True)
class FileFormat:
    """One format. Each file of `busbw.formats` defines one, named FORMAT.

    There are three kinds. A *document* is the whole file (JSON, CSV): the first that recognises it reads it, alone. A
    *log* format looks for its rows between anything else; several may each find theirs in one file, and what they find
    is merged by line. A *fallback* is a log format that is asked only when no other found a row.

    `recognises(text)` is cheap, also in 100 MB: it looks at `text.head`, or asks `text.contains(b"...")`.
    `read(text, options)` returns what is there: each row with its line, one part for each run (see `Results`), rows
    that it could not read in `Run.unreadable`, and for a run without rows the reason in `Run.failure`. None means that it is
    not this format after all. FileError only when a document contradicts itself.
    """

    name: str
    summary: str
    recognises: Callable[[LogText], bool]
    read: Callable[[LogText, ReadOptions], Results | None]
    kind: str = "log"
    """document, log or fallback."""


FORMATS: Registry[FileFormat] = Registry("busbw.formats", "FORMAT", "format")
"""Every input format by name."""
