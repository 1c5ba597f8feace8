"""Reading with what the user asks for: which rows, and what the file itself does not tell."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from busbw.core.call import UNKNOWN_COLLECTIVE, UNKNOWN_WORLD_SIZE
from busbw.core.log_text import LogText
from busbw.core.measurement import Results
from busbw.errors import FileError, NoRows
from busbw.formats import read_text


def read_selected(path: str, ops: Collection[str] = (), world_sizes: Collection[int] = ()) -> Results:
    """The rows of a file with one of these operations and numbers of ranks (empty: any), read as by `read_told`."""
    return _only(read_told(path, ops, world_sizes), ops, world_sizes)


def read_told(path: str, ops: Collection[str] = (), world_sizes: Collection[int] = ()) -> Results:
    """All rows of a file; a single operation, or a single N, is taken for a file in which no row tells its own.

    Rows that know better are never renamed. `-` is standard input. Raises as `read_results`.
    """
    name = "<stdin>" if path == "-" else path
    try:
        text = LogText(sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes(), name)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    op = next(iter(ops)) if len(ops) == 1 else None
    world_size = next(iter(world_sizes)) if len(world_sizes) == 1 else None
    try:
        results = read_text(text)
    except NoRows:
        results = read_text(text, op, world_size)  # what is told may be what was missing
    told_op = op if _none_knows(results, "collective", UNKNOWN_COLLECTIVE) else None
    told_n = world_size if _none_knows(results, "world_size", UNKNOWN_WORLD_SIZE) else None
    if told_op is not None or told_n is not None:
        results = read_text(text, told_op, told_n)
    return results


def _none_knows(results: Results, field: str, unknown: object) -> bool:
    return all(getattr(row.call, field) == unknown for row in results.measurements)


def _only(results: Results, ops: Collection[str], world_sizes: Collection[int]) -> Results:
    if not ops and not world_sizes:
        return results
    rows = tuple(
        row
        for row in results.measurements
        if (not ops or row.call.collective in ops) and (not world_sizes or row.call.world_size in world_sizes)
    )
    return replace(results, measurements=rows, parts=tuple(_only(part, ops, world_sizes) for part in results.parts))
