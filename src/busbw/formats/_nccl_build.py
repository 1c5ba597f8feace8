"""A table of nccl-tests, read from text or JSON -> a run: its op, its N, its rows, and what is to be said of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from busbw.core.call import UNKNOWN_COLLECTIVE, UNKNOWN_WORLD_SIZE, Call
from busbw.core.collective import COLLECTIVES
from busbw.core.file_format import ReadOptions
from busbw.core.measurement import Average, Mark, Measurement, Printed, Results, Run, Samples, Source
from busbw.formats._lines import UnreadableLines
from busbw.formats._nccl_info import NcclInfo
from busbw.formats._nccl_ops import (
    PER_RANK,
    SIGNATURES,
    TESTS,
    Evidence,
    Signature,
    fitting,
    fitting_columns,
    fitting_somewhere,
    gather_evidence,
    ops_of,
    possible_world_sizes,
)
from busbw.formats._nccl_rows import Half

LARGEST_DIFFERENCE = 1e-2
"""The "error" column of old tables is a largest difference; above this it counts as wrong."""


@dataclass(slots=True)
class Table:
    """One run as it stands in the file, before anything is concluded from it."""

    file: str
    first_line: int
    halves: list[Half] = field(default_factory=list)
    has_redop: bool | None = None
    has_root: bool | None = None
    is_nccl1: bool = False
    tests: list[str] = field(default_factory=list)
    """Names of tests (`all_reduce`) that stand where a title or command of this run would; the best evidence last."""
    titled: str | None = None
    """The test named by the tool itself, in its title or its closing line."""
    ranks: int = 0
    """From the device list: the largest rank + 1, or the ranks of one group."""
    ranks_of_command: int = 0
    tool: str = "nccl-tests"
    version: str = ""
    started: str = ""
    settings: dict[str, object] = field(default_factory=dict)
    environment: dict[str, object] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    """Of every row."""
    info: NcclInfo = field(default_factory=NcclInfo)
    unreadable: UnreadableLines = field(init=False)
    notes: list[str] = field(default_factory=list)
    average: float | None = None
    out_of_bounds: tuple[int, str] | None = None
    concluded: bool = False
    failure: str | None = None
    samples: dict[int, Samples] = field(default_factory=dict)
    """Of single halves, by their index."""

    def __post_init__(self) -> None:
        self.unreadable = UnreadableLines(self.file)

    @property
    def complete(self) -> bool:
        """It came to its own end."""
        return self.concluded or self.average is not None


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The op and N of a run, and what is to be said about how they are known."""

    collective: str = UNKNOWN_COLLECTIVE
    world_size: int = UNKNOWN_WORLD_SIZE
    era: str = ""
    test: str | None = None
    marks: tuple[Mark, ...] = ()
    notes: tuple[str, ...] = ()


def conclude(table: Table, options: ReadOptions, likely_world_sizes: Iterable[int] = ()) -> Conclusion:
    """Op and N, from what the user says, else the tool, else the columns and numbers; doubt becomes marks.

    `likely_world_sizes`: those of other runs in the same file, for where the numbers leave several.
    """
    was_validated = table.settings.get("validation") not in (None, 0)
    seen = gather_evidence(table.halves, table.has_redop, table.has_root, table.is_nccl1, was_validated)
    test = _test(table, options, seen)
    named = options.op or (TESTS[test] if test else None)
    among = tuple(one for one in SIGNATURES if named is None or one.op == named)
    if named == "all_gather" and test == "hypercube":
        among = tuple(one for one in among if one.era == "hypercube")
    elif test is not None:
        among = tuple(one for one in among if one.era != "hypercube")
    if named is not None and not among:  # an op that nccl-tests does not have
        return Conclusion(named, options.world_size or table.ranks or UNKNOWN_WORLD_SIZE)
    columns = fitting_columns(seen, among) or (among if named else ())
    marks: list[Mark] = []
    notes: list[str] = []
    world_size = _world_size(table, options, seen, columns, likely_world_sizes, marks, notes)
    fits = fitting(seen, world_size, among) if world_size else fitting_somewhere(seen, columns)
    if not fits:
        fits = tuple(one for one in columns if one.sharded or not named) or columns
        if table.halves and named and world_size:
            notes.append(f"the columns do not look like {named} on {world_size} ranks")
            marks.append(Mark("op_disagrees", f"the rates in the file are not those of {named} on {world_size} ranks"))
    ops = ops_of(fits)
    if named is not None:
        chosen = named
        if options.op is None and table.titled is None:
            notes.append(f"op {named}: from the command line in the log")
    elif table.halves and ops:
        chosen = ops[0]
        if len(ops) > 1:
            several = ", ".join(ops)
            marks.append(Mark("op_ambiguous", f"the file does not name the op and several fit: {several}; use --op"))
            notes.append(f"op: {chosen} is one of {several}, which look alike here; say which with --op")
        else:
            notes.append(f"op {chosen}: not named in the file, but no other has these columns and rates")
    else:
        chosen = UNKNOWN_COLLECTIVE
        if table.halves:
            marks.append(Mark("op_unknown", "the file does not tell the operation; name it with --op"))
    era = next((one.era for one in fits if one.op == chosen), "")
    if era == "2.0":
        notes.append("printed before June 2020: its algbw of this op is (N-1)/N S/t; ours is S/t")
    if era == PER_RANK:
        notes.append("printed by NCCL 1: its sizes of this op are one rank's part; ours are N times that")
    if not world_size and table.halves:
        marks.append(Mark("world_size_unknown", "the file does not tell N; give it with -N"))
    return Conclusion(chosen, world_size, era, test, tuple(marks), tuple(notes))


def _test(table: Table, options: ReadOptions, seen: Evidence) -> str | None:
    """The test by name; of several names the last that the columns allow."""
    if options.op is not None:
        return None
    if table.titled is not None:
        return table.titled
    if not table.halves:
        return table.tests[-1] if table.tests else None
    possible = set(ops_of(fitting_columns(seen)))
    return next((test for test in reversed(table.tests) if TESTS[test] in possible), None)


def _world_size(
    table: Table,
    options: ReadOptions,
    seen: Evidence,
    columns: Sequence[Signature],
    likely: Iterable[int],
    marks: list[Mark],
    notes: list[str],
) -> int:
    """N, or UNKNOWN_WORLD_SIZE; where the sources disagree the rates win, since they were computed with it."""
    if options.world_size is not None:
        return options.world_size
    possible = possible_world_sizes(seen, columns) if table.halves else ()
    stated = [(table.ranks, "the device list"), (table.ranks_of_command, "the command line")]
    for ranks, where in stated:
        if not ranks:
            continue
        if not possible or ranks in possible or fitting(seen, ranks, columns):
            return ranks
        if where == "the device list":
            told = f"{where} has {ranks} ranks, but sizes and rates are those of {_some(possible)}"
            marks.append(Mark("world_size_disagrees", told))
            notes.append(told)
    if not possible:
        return next((ranks for ranks, _ in stated if ranks), UNKNOWN_WORLD_SIZE)
    chosen = next((ranks for ranks in likely if ranks in possible), possible[0])
    notes.append(f"N = {chosen}: from sizes and rates, the file has no list of ranks")
    if len(possible) > 1:
        marks.append(Mark("world_size_estimated", f"N is one of {_some(possible)} by the rates; say which with -N"))
    return chosen


def _some(sizes: Sequence[int]) -> str:
    ordered = sorted(sizes)
    return ", ".join(map(str, ordered)) if len(ordered) < 5 else f"{ordered[0]} to {ordered[-1]}"


def build(table: Table, found: Conclusion) -> Results:
    """The run of a table."""
    moves = found.collective != UNKNOWN_COLLECTIVE and COLLECTIVES.get(found.collective)
    has_in_place = not moves or moves.in_place_offset is not None
    largest = max((half.size for half in table.halves), default=0)
    logged_per_rank = found.world_size > 1 and table.info.largest(found.collective) * found.world_size == largest > 0
    labels = {"backend": "rccl" if table.tool == "rccl-tests" else "nccl", **table.labels}
    if found.test == "hypercube":
        labels.setdefault("algorithm", "hypercube")
    shared: dict[tuple[str, ...], dict[str, str]] = {}
    source = Source(table.file, table.first_line)
    rows = []
    for index, half in enumerate(table.halves):
        if source.line != half.line:
            source = Source(table.file, half.line)
        marks = found.marks
        if half.dtype is None or half.extras or half.check is not None or half.in_place:
            marks = (*marks, *_row_marks(half, found.collective, has_in_place))
        size = half.size * found.world_size if found.era == PER_RANK and found.world_size else half.size
        of_row = labels
        if half.extras or table.info:
            logged = size // found.world_size if logged_per_rank else size
            of_row = {**table.info.labels(found.collective, logged), **labels, **_row_labels(half)}
            of_row = shared.setdefault((*of_row, *of_row.values()), of_row)
        call = Call(
            found.collective,
            size,
            found.world_size,
            half.dtype,
            half.redop if half.redop not in ("", "none") else None,
            half.root if half.root is not None and half.root >= 0 else None,
            half.in_place,
        )
        as_printed = "" if size == half.size else str(half.size)
        columns = _columns(half) if half.extras else _NO_COLUMNS
        rows.append(
            Measurement(
                call,
                half.time_s,
                samples=table.samples.get(index),
                wrong=_wrong(half),
                marks=marks,
                labels=of_row,
                source=source,
                origin="read",
                printed=Printed(half.algbw, half.busbw, as_printed, columns),
            )
        )
    printed = [half.busbw for half in table.halves if half.busbw is not None]
    mean = sum(printed) / len(printed) if printed else None
    run = Run(
        tool=table.tool,
        version=table.version,
        started=table.started,
        environment=table.environment,
        settings=table.settings,
        notes=(*table.notes, *found.notes, *_average_notes(table, mean)),
        source=Source(table.file, table.first_line),
        collective=None if found.collective == UNKNOWN_COLLECTIVE else found.collective,
        world_size=found.world_size or None,
        complete=table.complete,
        failure=table.failure,
        average=Average(table.average, mean, len(printed)),
        out_of_bounds=table.out_of_bounds,
        unreadable=tuple(table.unreadable.kept),
        unreadable_count=table.unreadable.count,
    )
    return Results(run, tuple(rows))


_NO_COLUMNS: dict[str, str] = {}


def _wrong(half: Half) -> int | None:
    """Wrong elements; 1 stands for "some" where the file has the largest difference alone."""
    if half.check is None:
        return None
    if half.is_count:
        return int(min(half.check, 2.0**62))
    return int(half.check > LARGEST_DIFFERENCE)


def _row_marks(half: Half, collective: str, has_in_place: bool) -> Iterator[Mark]:
    if half.in_place and not has_in_place:
        yield Mark("not_in_place", f"{collective} has no in-place form: a second, unchecked run")
    if half.check is not None and not half.is_count and half.check > LARGEST_DIFFERENCE:
        more = "" if has_in_place or not half.in_place else ", but this op has no in-place form"
        yield Mark("difference", f"the largest difference is {half.check:g}{more}; elements are not counted")
    if "cputime" in half.extras:
        yield Mark("cpu_time", "the host's time to launch the call (-C), not the time until it is done")
    if half.dtype is None:
        yield Mark("dtype_unknown", "the element type is not one that is known here")


def _row_labels(half: Half) -> dict[str, str]:
    names = {"algo": "algorithm", "proto": "protocol", "nchannels": "channels"}
    return {names[name]: value for name, value in half.extras.items() if name in names}


def _columns(half: Half) -> dict[str, str]:
    """Other columns as printed: those of -I in microseconds, the HIP event's time, the timestamp of -S."""
    names = {"i_min": "iter_min_us", "i_max": "iter_max_us", "i_p99": "iter_p99_us", "i_cv%": "iter_cv_pct"}
    names |= {"hipevt": "hip_event_us", "timestamp": "timestamp"}
    return {names[name]: value for name, value in half.extras.items() if name in names}


def _average_notes(table: Table, mean: float | None) -> list[str]:
    """What the file's own average is made of."""
    if table.average is None or mean is None:
        return []
    numbers = [half for half in table.halves if half.busbw is not None]
    peak = max(half.busbw for half in numbers if half.busbw is not None)
    empty = sum(half.size == 0 for half in numbers)
    zeros = f", {empty} of them of 0 bytes" if empty else ""
    note = (
        f"its average bus bandwidth, {table.average:g} GB/s, is the plain mean of all {len(numbers)} printed{zeros}; "
        f"the largest is {peak:g}"
    )
    slack = max(0.005, 2e-5 * abs(mean)) + 5e-6 * abs(table.average)
    if abs(table.average - mean) > slack:
        note += f"; the rows here give {mean:.6g}, so it covers rows that are not in the file"
    return [note]


def merge_runs(parts: Sequence[Results]) -> Results:
    """Runs of one file, as parts of one Results."""
    if len(parts) == 1:
        return parts[0]
    rows = tuple(row for part in parts for row in part.measurements)
    return Results(Run(parts[0].run.tool), rows, tuple(parts))
