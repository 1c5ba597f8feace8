"""Any table with a size and a time or a rate in it: CSV, TSV, markdown, or columns parted by blanks.

The header tells what the columns are, by the words that people use: op, size or bytes, time or latency, algbw, busbw,
bandwidth, ranks or world_size, dtype; units stand in the name (`time_ms`, `size (MB)`) or behind the number (`0.16ms`).
A column of times under a name that says something else (`NCCL`, `gloo`) is one result a row, with the name as a label;
other text columns become labels too. Lines of the form `name: value, name: value` are read as well.

What is not told is worked out where it is exact, and marked: a bandwidth is algbw or busbw by its ratio to size / time,
N and the operation by that ratio, whether KB is 1000 or 1024 bytes by the rates or by doubling across a unit.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from busbw.core.call import UNKNOWN_COLLECTIVE, UNKNOWN_WORLD_SIZE, Call
from busbw.core.file_format import FileFormat, ReadOptions
from busbw.core.log_text import LogText
from busbw.core.measurement import Mark, Printed, Results
from busbw.formats._lines import number
from busbw.formats._rows import (
    LARGEST_SIZE,
    LARGEST_TIME,
    RING_OPS,
    Implied,
    Rate,
    Ratio,
    RunRows,
    Size,
    best_rate,
    bus_factor,
    caveat,
    disagrees,
    dtype_name,
    find_op,
    half_step,
    implied,
    joined,
    op_in_file_name,
    ranks_number,
    ratio_of,
    read_rate,
    read_size,
)

_TIME_UNITS = {
    **{"ns": 1e-9, "nsec": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "usec": 1e-6, "usecs": 1e-6, "microseconds": 1e-6},
    **{"ms": 1e-3, "msec": 1e-3, "msecs": 1e-3, "milliseconds": 1e-3},
    **{"s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0},
}
_SIZE_UNIT = re.compile(r"[kmgt]?i?b|bytes?", re.IGNORECASE)
_RATE_UNIT = re.compile(r"[kmgt]?i?b(?:ps|/s(?:ec)?|s)", re.IGNORECASE)
_IN_BRACKETS = re.compile(r"[(\[]\s*([^)\]]{1,12}?)\s*[)\]]")
_ANY_TIME_UNIT = "|".join(_TIME_UNITS)
_AT_END = re.compile(rf"(?:^|[_\s./])({_ANY_TIME_UNIT}|[kmgt]?i?b(?:ps|/s|s)?|bytes)$", re.IGNORECASE)
_PER_CALL = re.compile(rf"({_ANY_TIME_UNIT})\s*(?:/|per )\s*(?:call|op|iter|iteration|step|collective)", re.IGNORECASE)
_TIME_CELL = re.compile(rf"([0-9][0-9.,]*(?:[eE][+-]?\d+)?)\s*({_ANY_TIME_UNIT})", re.IGNORECASE)
_VALUE_UNIT = re.compile(r"(?<=[\d.])\s+(?=(?:[kKMGTP]?i?B(?:ps|/s)?|G?[Bb]ps|[num]?s|µs|usec|msec|bytes)(?:\s|$))")
_KEY_VALUE = re.compile(r"([A-Za-z][\w #()/%.-]{0,40}?)\s*[:=]\s*(-?[0-9][\w./ %]*?)\s*(?=[,;|]|$)")
_RULE = re.compile(r"[\s|:+=_-]*")

_OP_NAMES = {"op", "operation", "collective", "coll", "primitive", "commop", "collop", "collectiveop", "function"}
_RANK_NAMES = {
    *("worldsize", "ranks", "nranks", "numranks", "ngpus", "gpus", "numgpus", "np", "nprocs", "processes", "nproc"),
    *("devices", "numdevices", "workers", "nworkers", "ws", "gpucount", "rankcount", "ngpu", "world", "procs", "n"),
}
_SIZE_NAMES = re.compile(
    r"(?:total|avg)?(?:size|bytes|message|msg|payload|data|nbytes|numbytes|tensor|buffer|volume|transfer)(?:size|bytes|volume|len"
    r"|length)?(?:total)?(?:atroot)?"
)
_TIME_NAMES = re.compile(
    r".*(?:time|latency|duration|elapsed|lat|per)(?:avg|mean|median|p50|(?:per)?(?:call|op|iter|iteration|collective))?"
)
_MEAN_NAMES = {"t", "tavg", "avg", "mean", "median", "p50", "average"}
_NOT_THE_MEAN = re.compile(
    r"min|max|std|dev(?!ice)|p(?!50)\d\d|var|cv|first|last|best|worst|jitter|compute|total(?=time|lat)"
)


@dataclass(frozen=True, slots=True)
class _Column:
    """What a column holds."""

    role: str
    """op, ranks, size, parts (of a rank), pair (part / whole), time, named_time, algbw, busbw, rate, dtype or other."""
    name: str
    unit: str = ""


def _column(text: str) -> _Column:
    """The column of a header cell."""
    name = " ".join(text.strip().strip("*`_# ").split())[:60]
    bracket = _IN_BRACKETS.search(name)
    ending = None if bracket else _AT_END.search(name)
    unit = bracket[1] if bracket else ending[1] if ending else ""
    per_call = _PER_CALL.fullmatch(name)
    if per_call is not None:
        return _Column("time", name, per_call[1])
    if not (unit.lower() in _TIME_UNITS or _SIZE_UNIT.fullmatch(unit) or _RATE_UNIT.fullmatch(unit)):
        unit = ""
    base = _IN_BRACKETS.sub(" ", name) if bracket else name[: ending.start(1)] if ending and unit else name
    plain = re.sub(r"[^a-z0-9]", "", base.lower())
    if plain in ("gb", "") and unit:
        plain = ""
    role = _role(plain, unit)
    return _Column(role, name, unit)


def _role(plain: str, unit: str) -> str:
    is_time, is_size, is_rate = unit.lower() in _TIME_UNITS, _SIZE_UNIT.fullmatch(unit), _RATE_UNIT.fullmatch(unit)
    if plain in _OP_NAMES:
        return "op"
    if plain in _RANK_NAMES and not unit:
        return "ranks"
    if plain in ("dtype", "datatype", "type"):
        return "dtype"
    if re.search(r"bw|bandwidth|throughput|tput", plain) or is_rate:
        if _NOT_THE_MEAN.search(plain):
            return "other"
        return "busbw" if "bus" in plain else "algbw" if "alg" in plain else "rate"
    if "perrank" in plain or "pergpu" in plain:
        return "pair" if "total" in plain else "parts" if not is_time else "time"
    if _NOT_THE_MEAN.search(plain):
        return "other"
    if not is_time and (_SIZE_NAMES.fullmatch(plain) or (is_size and plain in ("", "s", "size"))):
        return "size"
    if not is_size and (_TIME_NAMES.fullmatch(plain) or (is_time and plain in {"", *_MEAN_NAMES}) or plain == "tavg"):
        return "time"
    return "named_time" if is_time else "other"


def _cells(line: str, style: str) -> list[str]:
    """The cells of a line in the header's style: "|", a delimiter, or " " for blanks."""
    if style == "|":
        return [cell.strip().strip("*`").strip() for cell in line.strip().strip("|").split("|")]
    if style == ",":
        try:
            return [cell.strip() for cell in next(csv.reader([line]), [])]
        except csv.Error:
            return [cell.strip() for cell in line.split(",")]
    if style != " ":
        return [cell.strip() for cell in line.rstrip("\n").split(style)]
    return _VALUE_UNIT.sub("", line.strip()).split()


def _header(line: str) -> tuple[str, list[_Column]] | None:
    """The style and the columns of a line that can be a header."""
    body = line.strip().lstrip("#").strip()
    for style in ("|", "\t", ",", ";"):
        if style in body:
            texts = _cells(body, style)
            break
    else:
        style = " "
        texts = re.split(r"\s{2,}", re.sub(r"\s+(?=[(\[])", "", body))
        if len(texts) < 2:
            texts = re.sub(r"\s+(?=[(\[])", "", body).split()
    if not 2 <= len(texts) <= 60 or any(number(text) is not None for text in texts):
        return None
    columns = [_column(text) for text in texts]
    roles = {column.role for column in columns}
    if not roles & {"size", "pair", "parts"}:
        return None
    told = bool(roles & {"time", "algbw", "busbw", "rate", "named_time"})
    return (style, columns) if told or (roles == {"size", "other"} and len(columns) <= 8) else None


@dataclass(slots=True)
class _Row:
    """One result before N, the operation and the units are known."""

    line: int
    text: str
    size_text: str
    time_text: str = ""
    time_unit: str = ""
    algbw: Rate | None = None
    busbw: Rate | None = None
    rate: Rate | None = None
    op: str = ""
    ranks: int = 0
    dtype: str | None = None
    parts_text: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    size: Size | None = None
    time_s: float = 0.0
    time_error: float = 0.0


class _Table:
    def __init__(self, text: LogText, line: int, style: str, columns: Sequence[_Column]) -> None:
        self.run = RunRows(text, "csv_table", line)
        self.style, self.columns = style, list(columns)
        self.framed = False
        """Whether the header begins with a bar: then every row does."""
        self.rows: list[_Row] = []
        self.misses = 0
        size = next((column for column in columns if column.role in ("size", "pair", "parts")), _Column("size", ""))
        self.size_unit = size.unit if size.role != "pair" else ""
        self.base = 1000
        self.unclear_unit = False

    def take(self, at: int, line: str) -> bool:
        """Read a line as a row; False if it cannot be one."""
        cells = _cells(line, self.style)
        if len(cells) < 2 or not any(char.isdigit() for char in line) or (self.framed and line.lstrip()[:1] != "|"):
            return False
        if self.style == " " and number(cells[0]) is None and not cells[0][:1].isdigit():
            return False
        if len(cells) > len(self.columns):
            cells = cells[: len(self.columns)] if not any(cells[len(self.columns) :]) else cells
        if len(cells) > len(self.columns):
            self.run.skip(at, line, f"{len(cells)} cells under {len(self.columns)} columns")
            return True
        row, times = self.row(at, line, cells)
        if not row.size_text or (not times and row.algbw is None and row.busbw is None and row.rate is None):
            if row.size_text and read_size(row.size_text, unit=self.size_unit) is not None:
                self.run.skip(at, line, "a size without a time or a rate")
                return True
            return False
        if not times:
            self.rows.append(row)
        for name, text, unit in times:
            labels = {**row.labels, **({"series": name} if name else {})}
            copy = _Row(at, line, row.size_text, text, unit, None, None, None, row.op, row.ranks, row.dtype)
            copy.parts_text, copy.labels, copy.columns, copy.cut = row.parts_text, labels, row.columns, row.cut
            if not name:
                copy.algbw, copy.busbw, copy.rate = row.algbw, row.busbw, row.rate
            self.rows.append(copy)
        return True

    def row(self, at: int, line: str, cells: list[str]) -> tuple[_Row, list[tuple[str, str, str]]]:
        """The cells by their roles, and each time with the name of its series ("" for the plain time) and unit."""
        row = _Row(at, line, "", cut=len(cells) < len(self.columns))
        times: list[tuple[str, str, str]] = []
        for column, cell in zip(self.columns, cells, strict=False):
            if not cell or cell in ("-", "N/A", "n/a", "nan"):
                continue
            match column.role:
                case "size":
                    row.size_text = row.size_text or cell
                case "parts":
                    row.parts_text = cell
                case "pair":
                    first, _, second = cell.partition("/")
                    row.size_text, row.parts_text = second.strip() or first, first.strip() if second else ""
                case "time":
                    if any(not name for name, _, _ in times):
                        row.columns[column.name] = cell
                    elif _time_of(cell, column.unit) is not None or (not column.unit and number(_digits(cell))):
                        times.append(("", cell, column.unit))
                case "named_time":
                    times.append((_series(column), cell, column.unit))
                case "op":
                    row.op = cell
                case "ranks":
                    row.ranks = ranks_number(cell.removesuffix(".0")) or 0
                case "dtype":
                    row.dtype = dtype_name(cell)
                    row.columns[column.name] = cell
                case "algbw" | "busbw" | "rate":
                    rate = read_rate(cell, _rate_unit(column.unit))
                    if rate is not None and getattr(row, column.role) is None:
                        setattr(row, column.role, rate)
                case _:
                    if _TIME_CELL.fullmatch(cell) and not _NOT_THE_MEAN.search(column.name.lower()):
                        times.append((column.name, cell, ""))
                    elif number(cell) is not None:
                        row.columns[column.name] = cell
                    elif column.name:
                        row.labels[column.name] = cell[:100]
        if not row.size_text and row.parts_text:
            row.size_text = row.parts_text
        plain = [time for time in times if not time[0]]
        return row, plain or times

    def finish(self, options: ReadOptions, file_name: str) -> RunRows:
        run = self.run
        self.find_base()
        ready = []
        for row in self.rows:
            row.size = _size_of(row.size_text, self.base, self.size_unit)
            if row.size is None or row.size.size_bytes > LARGEST_SIZE // 2**24:
                run.skip(row.line, row.text, "the size is not one")
            elif row.time_text and not self.read_time(row):
                run.skip(row.line, row.text, "the time is not a number above zero, or has no unit")
            else:
                ready.append(row)
        rate_is_busbw = self.sort_rate(ready)
        groups: dict[str, list[_Row]] = {}
        for row in ready:
            groups.setdefault(row.op, []).append(row)
        for op_text, rows in groups.items():
            self.add_group(op_text, rows, rate_is_busbw, options, file_name)
        run.rows.sort(key=lambda row: 0 if row.source is None else row.source.line)
        return run

    def find_base(self) -> None:
        """Whether K, M and G are 1000 or 1024: by the rates, else by doubling across a unit, else by the numbers."""
        texts = [row.size_text for row in self.rows]
        unit = self.size_unit
        if not any(re.search(r"[kKMGT](?:B|bytes)?\b", f"{text} {unit}") for text in texts):
            return
        if any("i" in text.lower().replace("bit", "") for text in texts) or "i" in unit.lower():
            return
        votes = {1000: 0, 1024: 0}
        for row in self.rows:
            rate = row.algbw or row.rate
            time_s = _time_of(row.time_text, row.time_unit) if row.time_text else None
            for base in votes:
                size = _size_of(row.size_text, base, unit)
                if rate is not None and time_s and size is not None and size.size_bytes:
                    error = half_step(_digits(row.time_text)) / max(float(_digits(row.time_text)), 1e-300)
                    relative = size.slack_bytes / size.size_bytes
                    votes[base] += not disagrees(rate, size.size_bytes / time_s, min(error, 1.0), relative)
        if votes[1000] != votes[1024]:
            self.base = max(votes, key=lambda base: votes[base])
            return
        doublings = {}
        for base in votes:
            sizes = [size.size_bytes for size in (_size_of(text, base, unit) for text in texts) if size is not None]
            doublings[base] = sum(later == 2 * earlier for earlier, later in itertools.pairwise(sizes))
        if doublings[1024] != doublings[1000]:
            self.base = 1024 if doublings[1024] > doublings[1000] else 1000
            return
        numbers = [number(re.sub(r"[^\d.].*", "", text.strip())) for text in texts]
        powers = all(value and value == int(value) and int(value) & (int(value) - 1) == 0 for value in numbers)
        self.base = 1024 if powers and len(numbers) > 1 else 1000
        self.unclear_unit = True

    def read_time(self, row: _Row) -> bool:
        """Seconds of a row; without a unit, the one that agrees with its rate."""
        time_s = _time_of(row.time_text, row.time_unit)
        digits = _digits(row.time_text)
        value = number(digits)
        if value is None or value <= 0 or row.size is None:
            return False
        if time_s is None:
            rate = row.algbw or row.busbw or row.rate
            seen = rate.rate_Bps * value / row.size.size_bytes if rate is not None and row.size.size_bytes else 0.0
            fits = [unit for unit in (1e-6, 1e-3, 1.0) if 0.4 < seen * unit < 2.1]
            if len(fits) != 1:
                return False
            time_s = value * fits[0]
        row.time_s, row.time_error = time_s, half_step(digits) / value
        return 0 < time_s < LARGEST_TIME

    def sort_rate(self, rows: Sequence[_Row]) -> bool:
        """Whether a column that is only called bandwidth is a busbw: it is no size / time, but by a bus factor."""
        known = [row for row in rows if row.rate is not None and row.time_s and row.algbw is None and row.busbw is None]
        ratios = [_against_time(row, row.rate) for row in known]
        if not known or all(ratio is None or ratio.low <= 1 <= ratio.high for ratio in ratios):
            return False
        return bool(implied(ratios).ops)

    def add_group(
        self, op_text: str, rows: Sequence[_Row], rate_is_busbw: bool, options: ReadOptions, file_name: str
    ) -> None:
        """The rows of one operation."""
        for row in rows:
            if row.rate is not None and row.algbw is None and row.busbw is None:
                setattr(row, "busbw" if rate_is_busbw else "algbw", row.rate)
        ratios = [_ratio(row) for row in rows]
        marks: list[Mark] = []
        op = options.op or find_op(op_text)
        known = implied(ratios, (op,) if op else ())
        if not known.ops and any(ratios):
            # Rows of several N: each has its own.
            ops = set.intersection(*(set(implied([ratio]).ops) for ratio in ratios if ratio is not None))
            known = Implied(tuple(sorted(ops)))
        if op is None and op_text:
            self.run.note(f"{op_text[:40]} is none of the collectives here")
        elif op is None:
            named = op_in_file_name(file_name)
            if len(known.ops) == 1:
                op = known.ops[0]
                marks.append(caveat("op_from_factor"))
            elif named is not None and (named in known.ops or not any(ratios)):
                op = named
                marks.append(caveat("op_from_file_name"))
            elif known.ops:
                self.run.note(f"the operation is not named; busbw/algbw is that of {', '.join(known.ops)}")
        collective = op or UNKNOWN_COLLECTIVE
        for row, ratio in zip(rows, ratios, strict=True):
            self.add(row, collective, self.ranks_of(row, ratio, collective, known, options), marks)

    def ranks_of(
        self, row: _Row, ratio: Ratio | None, op: str, known: Implied, options: ReadOptions
    ) -> tuple[int, list[Mark]]:
        """N of a row, and a mark where it was worked out."""
        if options.world_size or row.ranks:
            return options.world_size or row.ranks, []
        size, parts = row.size, read_size(row.parts_text, self.base, self.size_unit) if row.parts_text else None
        if size is not None and "/" not in row.parts_text and row.parts_text and row.parts_text != row.size_text:
            unit = re.sub(r"^[\d.,\s]+", "", row.size_text) or self.size_unit
            parts = read_size(row.parts_text, self.base, unit)
            if parts is not None and parts.size_bytes and abs(size.size_bytes / parts.size_bytes % 1) < 1e-3:
                ranks = round(size.size_bytes / parts.size_bytes)
                if 2 <= ranks <= 2**24:
                    return ranks, []
        from_factor = known.world_size
        if not from_factor and ratio is not None and op != UNKNOWN_COLLECTIVE:
            from_factor = implied([ratio], (op,)).world_size
        return from_factor, [caveat("world_size_from_factor")] if from_factor else []

    def add(self, row: _Row, op: str, ranks: tuple[int, list[Mark]], marks: list[Mark]) -> None:
        world, more = ranks
        found = [*marks, *more]
        size = row.size
        if size is None:
            return
        size_bytes = size.size_bytes
        factor = bus_factor(op, world)
        time_s = row.time_s
        if not time_s:
            rate = best_rate(row.algbw, row.busbw, factor)
            if rate is None or not size_bytes or size_bytes / rate >= LARGEST_TIME:
                self.run.skip(row.line, row.text, "no time, and no rate from which it follows")
                return
            time_s = size_bytes / rate
            found.append(caveat("time_from_rate"))
        elif size_bytes:
            relative = size.slack_bytes / size_bytes
            plain = size_bytes / time_s
            if disagrees(row.algbw, plain, row.time_error, relative) or (
                row.algbw is None and factor and disagrees(row.busbw, plain * factor, row.time_error, relative)
            ):
                found.append(caveat("rate_contradicts_time"))
        if row.parts_text and row.parts_text == row.size_text and op in (*RING_OPS, "all_to_all_v"):
            if world == UNKNOWN_WORLD_SIZE:
                found.append(caveat("size_per_rank_unknown_n"))
            else:
                size_bytes *= world
        if self.unclear_unit:
            found.append(caveat("size_unit_assumed", f"{self.base} here"))
        elif size.slack_bytes and "." in row.size_text and size.slack_bytes > 0.01 * size.size_bytes:
            found.append(caveat("size_rounded"))
        if row.time_error > 0.05 and row.time_s:
            found.append(caveat("time_rounded"))
        if row.cut:
            found.append(caveat("row_cut"))
            self.run.complete = False
        labels = {**row.labels, **({"op": row.op} if row.op and find_op(row.op) != row.op else {})}
        rates = [None if rate is None else rate.rate_GBps for rate in (row.algbw, row.busbw)]
        printed = Printed(rates[0], rates[1], row.size_text, row.columns)
        call = Call(op, 0 if op == "barrier" else size_bytes, world, row.dtype)
        self.run.add(call, time_s, row.line, found, labels, printed)


def _series(column: _Column) -> str:
    return _IN_BRACKETS.sub("", column.name).strip(" _") or column.name


def _digits(text: str) -> str:
    return re.sub(r",(?=\d{3})", "", re.sub(r"[^0-9.,eE+-].*", "", text.strip())).rstrip("eE+-")


def _time_of(text: str, unit: str) -> float | None:
    """Seconds of a cell with its own unit or the column's, or None."""
    match = _TIME_CELL.fullmatch(text.strip()[:40])
    value = number(_digits(match[1] if match else text))
    factor = _TIME_UNITS.get((match[2] if match else unit).lower())
    if value is None or factor is None or (match is None and number(text.strip().replace(",", "")) is None):
        return None
    time_s = value / round(1 / factor)
    return time_s if 0 < time_s < LARGEST_TIME else None


def _size_of(text: str, base: int, unit: str) -> Size | None:
    """Bytes of a size cell."""
    size = read_size(text, base, unit)
    if size is None and number(text.strip()) is not None:
        value = float(text)
        scale = read_size("1", base, unit)
        if scale is not None and 0 <= value * scale.size_bytes <= LARGEST_SIZE:
            size = Size(round(value * scale.size_bytes), half_step(text.strip()) * scale.size_bytes)
    return size


def _rate_unit(unit: str) -> str:
    """GB/s where the header has none; `gbps` in small letters beside algbw or busbw is taken for GB/s."""
    if not unit or unit.lower() in ("gbs", "gb/s"):
        return "GB/s"
    plain = unit.replace("/sec", "/s")
    return "GB/s" if plain == "gbps" else plain


def _against_time(row: _Row, rate: Rate | None) -> Ratio | None:
    """The rate over size / time, as an interval."""
    if rate is None or not row.time_s or row.size is None or not row.size.size_bytes or rate.rate_Bps <= rate.slack_Bps:
        return None
    plain = row.size.size_bytes / row.time_s
    error = (1 + row.time_error) * (1 + row.size.slack_bytes / row.size.size_bytes)
    return Ratio((rate.rate_Bps - rate.slack_Bps) / plain / error, (rate.rate_Bps + rate.slack_Bps) / plain * error)


def _ratio(row: _Row) -> Ratio | None:
    """Busbw over algbw, or over size / time where no algbw is printed."""
    if row.algbw is not None:
        return ratio_of(row.busbw, row.algbw)
    return _against_time(row, row.busbw)


_HINT = re.compile(r"size|bytes|payload|message|\bMi?B\b|data|buffer|volume", re.IGNORECASE)
_BARE_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d*)?(?![\w.])")
_LONGEST_HEADER = 1000
_MOST_TRIES = 50_000
"""Lines that hold a word for size and turn out to be no header; after so many the file is taken to be prose."""


class _Reader:
    def __init__(self, text: LogText, options: ReadOptions) -> None:
        self.text, self.options = text, options
        self.tables: list[_Table] = []
        self.tries = 0

    def read(self) -> Results | None:
        table: _Table | None = None
        for at, line in self.text.lines():
            if not line.strip() or (line[:1] in "|+-=: " and _RULE.fullmatch(line)):
                continue
            if self.tries < _MOST_TRIES and _HINT.search(line) is not None:
                self.tries += 1
                is_header = len(line) < _LONGEST_HEADER and _BARE_NUMBER.search(line) is None
                header = _header(line) if is_header else None
                weak = header is not None and {column.role for column in header[1]} == {"size", "other"}
                if header is not None and not (weak and table is not None and table.rows):
                    table = _Table(self.text, at, *header)
                    table.framed = line.lstrip()[:1] == "|"
                    self.tries = 0
                    self.tables.append(table)
                    continue
                if self.key_value(at, line):
                    table = None
                    continue
            if table is not None and not table.take(at, line):
                table.misses += 1
                if table.misses > 3:
                    table = None
            elif table is not None:
                table.misses = 0
        tables = [table for table in self.tables if table.rows or table.run.unreadable.count]
        runs = [table.finish(self.options, self.text.name) for table in tables]
        return joined([run for run in runs if run.rows or run.unreadable.count])

    def key_value(self, at: int, line: str) -> bool:
        """A line such as `Size (MB): 1, Elapsed time (s): 0.000176, Bandwidth (GB/s): 16.99`."""
        pairs = _KEY_VALUE.findall(line[:2000])
        if len(pairs) < 2:
            return False
        columns = [_column(name) for name, _ in pairs]
        roles = {column.role for column in columns}
        if "size" not in roles or not roles & {"time", "algbw", "busbw", "rate"}:
            return False
        table = self.tables[-1] if self.tables and self.tables[-1].style == ":" else None
        if table is None or table.columns != columns:
            table = _Table(self.text, at, ":", columns)
            self.tables.append(table)
        row, times = table.row(at, line, [value for _, value in pairs])
        if times:
            row.time_text, row.time_unit = times[0][1], times[0][2]
        table.rows.append(row)
        return True


def _recognises(text: LogText) -> bool:
    return text.contains(b"ize", b"IZE", b"ytes", b"YTES", b"ayload", b"essage", b"ata", b"MB", b"MiB")


FORMAT = FileFormat(
    "csv_table",
    "any CSV, TSV or markdown table with sizes and times or rates",
    _recognises,
    lambda text, options: _Reader(text, options).read(),
    "fallback",
)
