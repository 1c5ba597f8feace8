"""An input format: how to recognise it by content, and how to read it into Results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from busbw.core.measurement import Results
from busbw.registry import Registry


@dataclass(frozen=True, slots=True)
class FileFormat:
    """One format. Each file of `busbw.formats` defines one, named FORMAT.

    `recognises(head)` looks at the first 64 KiB of text and says whether this is the format; `read(text, file_name)`
    returns what the file holds, each row with its line, and raises FileError naming the line when it cannot.
    """

    name: str
    summary: str
    recognises: Callable[[str], bool]
    read: Callable[[str, str], Results]


FORMATS: Registry[FileFormat] = Registry("busbw.formats", "FORMAT", "format")
"""Every input format by name."""
