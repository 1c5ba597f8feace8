"""Rows -> lines: which rows make one line, and which make one point of it.

One line is one collective at one N. Two rows with the same collective, N and S are different work, or the same work
measured again:

- Different work differs in dtype, redop, root, in_place, origin, a label (group, algorithm, ...) or the file that it
  was read from. Such a field splits a line, but only where it has to: the rows of one collective and N are split
  by the fewest fields, in that order, that tell apart rows of the same S. A dtype that never varies at one size splits
  nothing.
- What is left is the same work measured again (repeats): one point at the median time, whose interval is the range of
  the repeats. A single row keeps the interval of its own samples.

Rates are derived from that time, so a point at the median time is at the median rate (of an odd number of repeats).
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from busbw.core.call import Call
from busbw.core.collective import PRIMITIVES
from busbw.core.measurement import Mark, Measurement
from busbw.plots.chart import MarkedPoint, Series
from busbw.plots.figure import FigureOptions
from busbw.units import format_size


@dataclass(frozen=True, slots=True)
class Point:
    """One size of a line: seconds a call, the interval around it where one is known, and what speaks against it."""

    size_bytes: int
    time_s: float
    low_s: float | None = None
    high_s: float | None = None
    marks: tuple[Mark, ...] = ()
    rows: int = 1
    """How many rows it stands for."""


@dataclass(frozen=True, slots=True)
class Line:
    """The points of one collective at one N, by size. `variant` tells apart lines of the same collective and N."""

    collective: str
    world_size: int
    points: tuple[Point, ...]
    variant: str = ""
    variant_index: int = 0

    @property
    def name(self) -> str:
        """The collective, with the variant where there are several."""
        return f"{self.collective} {self.variant}".rstrip()

    def busbw_Bps(self, size_bytes: int, time_s: float) -> float:  # noqa: N802 - the unit's own capitals
        """Bytes a second on the wires, of a call of this line."""
        rate = Call(self.collective, size_bytes, self.world_size).busbw_Bps(time_s)
        assert rate is not None, "lines hold only rows that have a busbw"
        return rate

    def algbw_Bps(self, size_bytes: int, time_s: float) -> float:  # noqa: N802
        """Bytes a second that the user sees, of a call of this line."""
        rate = Call(self.collective, size_bytes, self.world_size).algbw_Bps(time_s)
        assert rate is not None, "lines hold only rows that have a busbw"
        return rate


Measure = Callable[[int, float], float]
"""(size in bytes, seconds a call) -> the number on the y axis."""


def to_series(line: Line, measure: Measure, by_world_size: bool = False) -> Series:
    """The series of a line, named and coloured by its collective, or by its N.

    A measure that falls with time (a rate) turns the interval around.
    """
    points = line.points
    bounds: list[tuple[float | None, float | None]] = []
    for point in points:
        if point.low_s is None or point.high_s is None:
            bounds.append((None, None))
        else:
            ends = (measure(point.size_bytes, point.low_s), measure(point.size_bytes, point.high_s))
            bounds.append((min(ends), max(ends)))
    known = any(low is not None for low, _ in bounds)
    y = tuple(measure(point.size_bytes, point.time_s) for point in points)
    return Series(
        label=f"N = {line.world_size} {line.variant}".rstrip() if by_world_size else line.name,
        x=tuple(float(point.size_bytes) for point in points),
        y=y,
        colour=f"N={line.world_size}" if by_world_size else line.collective,
        low=tuple(low for low, _ in bounds) if known else (),
        high=tuple(high for _, high in bounds) if known else (),
        marked=tuple(MarkedPoint(float(p.size_bytes), at, p.marks) for p, at in zip(points, y, strict=True) if p.marks),
        variant=line.variant_index,
    )


def select(rows: Iterable[Measurement], options: FigureOptions) -> list[Measurement]:
    """The rows of the collectives and world sizes that the user asked for; all of them where nothing was asked."""
    return [
        row
        for row in rows
        if (not options.collectives or row.call.collective in options.collectives)
        and (not options.world_sizes or row.call.world_size in options.world_sizes)
    ]


def has_bandwidth(row: Measurement) -> bool:
    """The row has a busbw above zero: bytes move between ranks."""
    return (row.busbw_GBps or 0.0) > 0.0


def left_out(rows: Iterable[Measurement]) -> tuple[str, ...]:
    """The note that says which rows have no busbw and are therefore not drawn; empty when there are none."""
    undrawn = [row for row in rows if not has_bandwidth(row)]
    alone = sum(row.call.kind.moves_data and row.call.world_size < 2 for row in undrawn)
    still = len(undrawn) - alone
    reasons = [f"{count(alone, 'row')} at N = 1"] * bool(alone)
    reasons += [f"{count(still, 'row')} without data to move (barrier, S = 0)"] * bool(still)
    return (f"Left out, having no busbw: {', '.join(reasons)}.",) if reasons else ()


def collective_order(name: str) -> tuple[int, str]:
    """Sort key: the six primitives first, in the order of the tables, then the others by name."""
    return (PRIMITIVES.index(name) if name in PRIMITIVES else len(PRIMITIVES), name)


def make_lines(rows: Iterable[Measurement]) -> tuple[Line, ...]:
    """The lines of all rows that have a busbw, by collective, N and variant."""
    return tuple(line for line, _ in make_groups(rows))


def make_groups(rows: Iterable[Measurement]) -> tuple[tuple[Line, tuple[Measurement, ...]], ...]:
    """The same, each line with the rows that it is made of."""
    groups: dict[tuple[str, int], list[Measurement]] = defaultdict(list)
    for row in rows:
        if has_bandwidth(row):
            groups[row.call.collective, row.call.world_size].append(row)
    lines: list[tuple[Line, tuple[Measurement, ...]]] = []
    variants: dict[str, dict[str, int]] = defaultdict(dict)  # one variant of a collective looks the same at every N
    for collective, world_size in sorted(groups, key=lambda group: (collective_order(group[0]), group[1])):
        members = groups[collective, world_size]
        fields = _splitting_fields(members)
        same: dict[str, list[Measurement]] = defaultdict(list)
        for row in members:
            same[" ".join(part for part in (get(row) for get in fields) if part)].append(row)
        for variant in same:
            index = variants[collective].setdefault(variant, len(variants[collective])) if variant else 0
            line = Line(collective, world_size, _points(same[variant]), variant, index)
            lines.append((line, tuple(same[variant])))
    return tuple(lines)


def pick_collectives(lines: Sequence[Line], options: FigureOptions) -> tuple[Line, ...]:
    """The lines of a figure that shows one collective: those asked for, or all_reduce, or else the first there is."""
    if options.collectives or not lines:
        return tuple(lines)
    names = {line.collective for line in lines}
    shown = "all_reduce" if "all_reduce" in names else lines[0].collective
    return tuple(line for line in lines if line.collective == shown)


def marks_notes(lines: Iterable[Line]) -> tuple[str, ...]:
    """What the marked points suffer from: the reason while there are few kinds of marks, else how often each occurs."""
    by_code: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        for point in line.points:
            for mark in point.marks:
                where = f"{line.name}, N = {line.world_size}, {format_size(point.size_bytes)}"
                by_code[mark.code].append(f"{where}: {mark.reason}")
    start = "\N{WHITE CIRCLE} Read with care: "
    if len(by_code) > 2:
        often = sorted(by_code, key=lambda code: -len(by_code[code]))
        counts = ", ".join(f"{code} ({count(len(by_code[code]), 'point')})" for code in often)
        return (f"{start}{counts}; busbw show gives the reasons.",)
    return tuple(
        f"{start}{points[0]}" + (f" (and {count(len(points) - 1, 'more point')})." if len(points) > 1 else ".")
        for points in by_code.values()
    )


def repeats_note(lines: Iterable[Line]) -> tuple[str, ...]:
    """The note that says what a point with several rows is; empty when every point is one row."""
    if all(point.rows == 1 for line in lines for point in line.points):
        return ()
    return ("Points measured more than once are medians; their bars span all repeats.",)


def _points(rows: Sequence[Measurement]) -> tuple[Point, ...]:
    by_size: dict[int, list[Measurement]] = defaultdict(list)
    for row in rows:
        by_size[row.call.size_bytes].append(row)
    return tuple(_point(size, by_size[size]) for size in sorted(by_size))


def _point(size_bytes: int, rows: Sequence[Measurement]) -> Point:
    marks = tuple(dict.fromkeys(mark for row in rows for mark in _marks(row)))
    if len(rows) == 1:
        summary = rows[0].summary
        low, high = (None, None) if summary is None else (summary.low_s, summary.high_s)
        return Point(size_bytes, rows[0].time_s, low, high, marks)
    times = [row.time_s for row in rows]
    return Point(size_bytes, statistics.median(times), min(times), max(times), marks, len(rows))


def _marks(row: Measurement) -> tuple[Mark, ...]:
    if not row.wrong or any("wrong" in mark.code for mark in row.marks):
        return row.marks
    return (*row.marks, Mark("wrong", f"{count(row.wrong, 'element')} came out wrong"))


def _splitting_fields(rows: Sequence[Measurement]) -> list[Callable[[Measurement], str]]:
    """The fewest fields, in order of preference, that tell apart rows of the same N and S."""
    chosen: list[Callable[[Measurement], str]] = []
    cells: dict[tuple[int, int], list[Measurement]] = defaultdict(list)
    for row in rows:
        cells[row.call.world_size, row.call.size_bytes].append(row)
    crowded = [cell for cell in cells.values() if len(cell) > 1]
    if not crowded:
        return chosen

    def told_apart(fields: Sequence[Callable[[Measurement], str]]) -> int:
        return sum(len({tuple(get(row) for get in fields) for row in cell}) for cell in crowded)

    best = told_apart(chosen)
    for get in _fields(rows):
        count = told_apart([*chosen, get])
        if count > best:
            chosen.append(get)
            best = count
    return chosen


def _fields(rows: Sequence[Measurement]) -> list[Callable[[Measurement], str]]:
    def label(name: str) -> Callable[[Measurement], str]:
        return lambda row: _described(name, row.labels.get(name, ""))

    names = sorted({name for row in rows for name in row.labels})
    stems = {row.source.file: PurePath(row.source.file).stem for row in rows if row.source is not None}
    unique = len(set(stems.values())) == len(stems)

    def file(row: Measurement) -> str:
        if row.source is None:
            return ""
        return stems[row.source.file] if unique else row.source.file

    return [
        # First, because a backend often brings its own place or dtype along: "mpi" says more than "out of place".
        label("backend"),
        lambda row: row.call.dtype or "",
        lambda row: row.call.redop or "",
        lambda row: "" if row.call.root is None else f"root {row.call.root}",
        lambda row: "" if row.call.in_place is None else "in place" if row.call.in_place else "out of place",
        lambda row: row.origin,
        *(label(name) for name in names),
        file,
    ]


def _described(name: str, value: str) -> str:
    """`Ring` speaks for itself; `0-3` needs its name."""
    return value if not value or any(char.isalpha() for char in value) else f"{name} {value}"


def count(number: int, word: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
