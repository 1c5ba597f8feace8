"""Reading with what the user asks for: which rows, and what the file itself does not tell."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from busbw.core.call import UNKNOWN_COLLECTIVE, UNKNOWN_WORLD_SIZE
from busbw.core.log_text import LogText
from busbw.core.measurement import Measurement, Results
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
        return read_text(text, op, world_size)  # what is told may be what was missing
    told_op = op if not any(map(_knows_op, results.measurements)) else None
    if told_op is not None:
        results = read_text(text, told_op)  # which may take away the N that another operation implied
    if world_size is not None and not any(map(_knows_n, results.measurements)):
        results = read_text(text, told_op, world_size)
    return results


def _knows_op(row: Measurement) -> bool:
    """A row that could be of several operations does not know its own."""
    return row.call.collective != UNKNOWN_COLLECTIVE and not any(mark.code == "op_ambiguous" for mark in row.marks)


def _knows_n(row: Measurement) -> bool:
    return row.call.world_size != UNKNOWN_WORLD_SIZE and not any(
        mark.code == "world_size_estimated" for mark in row.marks
    )


def keep(rows: Iterable[Measurement], ops: Collection[str], world_sizes: Collection[int]) -> tuple[Measurement, ...]:
    """The rows with one of these operations and numbers of ranks; empty: any."""
    return tuple(
        row
        for row in rows
        if (not ops or row.call.collective in ops) and (not world_sizes or row.call.world_size in world_sizes)
    )


def _only(results: Results, ops: Collection[str], world_sizes: Collection[int]) -> Results:
    if not ops and not world_sizes:
        return results
    parts = tuple(_only(part, ops, world_sizes) for part in results.parts)
    return replace(results, measurements=keep(results.measurements, ops, world_sizes), parts=parts)
