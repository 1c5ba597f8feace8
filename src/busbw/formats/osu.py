"""OSU micro-benchmarks: collective, point-to-point and one-sided tests, of MPI, NCCL and OpenSHMEM.

A test prints its title ("# OSU MPI Allreduce Latency Test v7.5"), the names of its columns and one row a size. The
title tells the operation, the columns what the numbers are; options add columns (-f: minimum, maximum, iterations;
-c: validation; -z: tail percentiles) and non-blocking tests have their own.

- Collectives print a latency: the mean over the ranks of their mean times, `Min` and `Max` being over the ranks too.
- The size is one rank's part for all-gather, all-to-all, gather and scatter; the whole vector for all-reduce, reduce,
  reduce-scatter and broadcast. N is not printed: it comes from the launch line, where the log has one.
- `osu_latency` is half of a ping-pong; `osu_bw` sends one way, 64 calls in flight; `osu_bibw` adds up both directions;
  `osu_mbw_mr` adds up its pairs. MB/s is 1e6 bytes a second.

Source: OMB 7.4, c/util/osu_util_mpi.c and c/mpi.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.core.call import UNKNOWN_WORLD_SIZE, Call
from busbw.core.file_format import FileFormat, ReadOptions
from busbw.core.log_text import LogText
from busbw.core.measurement import Mark, Printed, Results
from busbw.formats._lines import number
from busbw.formats._rows import (
    RunRows,
    caveat,
    dtype_name,
    find_op,
    joined,
    ranks_of_command,
    seconds,
    size_number,
)
from busbw.units import GB, MICROSECOND

MB = 1e6

_TITLE = re.compile(
    r"\s*#?\s*(?:OSU|OMB(?:-Py)?)\s+(?P<title>\S.*?(?:Test|Benchmark))(?:\s+v?(?P<version>\d[\w.]*))?(?=\s|$)"
)
_DATATYPE = re.compile(r"\s*#?\s*Datatype:\s*(\w+)")
_PAIRS = re.compile(r"\[\s*pairs:\s*(\d{1,8})\s*\]")
_OSU_PROGRAM = re.compile(r"\bosu_(?:xccl_|nccl_|upcxx_|upc_|oshm_)?(\w+)")
_COLUMN = re.compile(
    r"Transmit\s+Size|Size|(?P<tail>P(?P<percent>\d{1,2}(?:\.\d+)?)\s+Tail\s+(?:Lat|BW)\s*\([^)]*\))|Avg\s+Lat(?:ency)?\s*\(us\)"
    r"|Min\s+Lat(?:ency)?\s*\(us\)|Max\s+Lat(?:ency)?\s*\(us\)|(?:Avg\.?\s+)?Latency\s*\(us\)|Iterations|Validation"
    r"|(?:Bi-?)?Bandwidth\s*\(MB/s(?:ec)?\)|MB/s(?:ec)?|Messages/s(?:ec)?|Overall\s*\(us\)|Compute\s*\(us\)"
    r"|Coll\.?\s*Init\s*\(us\)|(?:MPI_)?(?:Test|Wait)\s*(?:avg\s*)?\(us\)|Init\s+avg\s*\(us\)|Pure\s+Comm\.?\s*\(us\)"
    r"|Min\s+Comm\.?\s*\(us\)|Max\s+Comm\.?\s*\(us\)|Overlap\s*\(%\)",
    re.IGNORECASE,
)
_PER_RANK = {"all_gather", "all_to_all", "all_to_all_v", "gather", "scatter"}
_ROOTED = {"broadcast", "reduce", "gather", "scatter"}
_BOTH_WAYS = re.compile(r"\bbi-?(?:directional|bandwidth)|\bbibw", re.IGNORECASE)
_ONE_SIDED = re.compile(
    r"one sided|\bMPI_(?:get|put|accumulate|compare|fetch)|\b(?:get|put|mem(?:get|put))(?:_nbi?)?\b", re.IGNORECASE
)
_TEST_WORDS = re.compile(
    r"\bPersonalized\s+Exchange\b|\b(?:Latency|Test|(?:MPI|[NRX]CCL)(?:-\w+)?|MANAGED|OpenSHMEM|UPC\+*|Python"
    r"|Persistent|Non-?Blocking)(?![\w+])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Test:
    """What a title says of a test."""

    collective: str | None
    """Ours; None where it is none of ours."""
    kind: str
    """collective, pair or one_sided."""
    both_ways: bool = False
    non_blocking: bool = False


def _test_of(title: str) -> _Test:
    words = title.replace("_", " ")
    non_blocking = re.search(r"non-?blocking", title, re.IGNORECASE) is not None
    if re.search(r"neighbo", title, re.IGNORECASE):
        return _Test(None, "collective", non_blocking=non_blocking)
    if _ONE_SIDED.search(title):
        both = _BOTH_WAYS.search(title) is not None
        return _Test("send_recv" if both else "send_recv_one_way", "one_sided", both)
    name = re.sub(r"[^a-z]", "", _TEST_WORDS.sub(" ", words).lower())
    collective = find_op(name)
    if collective is not None:
        return _Test(collective, "collective", non_blocking=non_blocking)
    if _BOTH_WAYS.search(title):
        return _Test("send_recv", "pair", True)
    if re.search(r"latency|bandwidth|message rate", title, re.IGNORECASE):
        plain = re.sub(r"bandwidth|messagerate|multi(?:ple|process|threaded)?|fan(?:in|out)|[^a-z]", "", name)
        return _Test("send_recv_one_way" if not plain else None, "pair")
    return _Test(None, "collective")


def _columns(line: str) -> list[str]:
    """The columns' names in lower case, no blanks, no units (`size`, `avglatency`, `p99`); [] if it is no header."""
    body = line.strip().lstrip("#").strip()
    matches = list(_COLUMN.finditer(body))
    if not matches or _COLUMN.sub("", body).strip() or matches[0].start() != 0:
        return []
    names = []
    for match in matches:
        plain = re.sub(r"\(.*?\)|[^a-z/]", "", match[0].lower())
        tail = f"p{match['percent']}_bw" if "bw" in plain else f"p{match['percent']}"
        names.append(tail if match["tail"] else plain)
    return names


_TIME_COLUMNS = ("avglatency", "latency", "avglat", "purecomm")
_RATE_COLUMNS = ("bandwidth", "bibandwidth", "mb/s", "mb/sec")


class _Reader:
    """Walks through the lines of one log."""

    def __init__(self, text: LogText, options: ReadOptions) -> None:
        self.text, self.options = text, options
        self.runs: list[RunRows] = []
        self.columns: list[str] = []
        self.test = _Test(None, "collective")
        self.labels: dict[str, str] = {}
        self.command_ranks: int | None = None
        self.pairs = 1
        self.dtype: str | None = None
        self.lines: list[tuple[int, str]] = []
        """The rows under the present header, as they stand."""
        self.last_line = 0
        self.program = ""

    def read(self) -> Results | None:
        for at, line in self.text.lines():
            if line:
                self.last_line = at
            self.take(at, line)
        self.drop_cut_row()
        return joined(self.runs)

    def take(self, at: int, line: str) -> None:
        # Most lines of a long log are none of ours: they are told by plain comparisons first.
        body = line.strip()
        if body[:1].isdigit():
            if self.columns:
                self.row(at, line, body.split())
            return
        if "Test" in body or "Benchmark" in body:
            title = _TITLE.match(line)
            if title is not None:
                self.start(at, title["title"].strip(), title["version"] or "")
                return
        if "osu_" in body:
            self.command(body)
        elif "(us)" in body or "MB/s" in body:
            self.header(at, body)
        elif "pairs:" in body:
            pairs = _PAIRS.search(body)
            self.pairs = self.pairs if pairs is None else max(int(pairs[1]), 1)
        elif "Datatype:" in body:
            datatype = _DATATYPE.match(body)
            self.dtype = self.dtype if datatype is None else _mpi_type(datatype[1])
        if "DATA VALIDATION ERROR" in body and self.runs:
            self.runs[-1].failure = f"the data was wrong (line {at})"

    def command(self, body: str) -> None:
        """A line that names a test's program: it may tell the number of ranks."""
        program = _OSU_PROGRAM.search(body)
        if program is not None and "DATA VALIDATION" not in body:
            self.program = program[0]
            self.command_ranks = ranks_of_command(body) or self.command_ranks

    def header(self, at: int, body: str) -> None:
        columns = _columns(body)
        if not any(column in columns for column in (*_TIME_COLUMNS, *_RATE_COLUMNS)):
            return
        if not self.runs:
            self.start(at, "", "")
        self.drop_cut_row()
        self.columns = columns
        if not self.labels.get("test"):
            self.guess_test()

    def start(self, at: int, title: str, version: str) -> None:
        """A new test begins."""
        self.drop_cut_row()
        self.test = _test_of(title)
        self.columns, self.pairs, self.dtype = [], 1, None
        self.labels = {"test": title} if title else {}
        run = RunRows(self.text, "osu", at, version)
        run.settings = {"title": title, "version": version}
        run.collective = self.test.collective
        run.world_size = self.ranks() or None
        self.runs.append(run)
        if title and self.test.collective is None:
            run.failure = f"{title} is none of the collectives here"
        if re.search(r"-CUDA|-ROCM|-OPENACC|NCCL|RCCL", title):
            self.labels["memory"] = "device"
        if self.test.kind == "one_sided":
            self.labels["one_sided"] = "put" if re.search("put", title, re.IGNORECASE) else "get"
            if not re.search("put|get", title, re.IGNORECASE) or re.search("accumulate", title, re.IGNORECASE):
                self.labels["one_sided"] = title.split()[0].lower().removeprefix("mpi_")
        if self.test.non_blocking:
            self.labels["mode"] = "non_blocking"

    def guess_test(self) -> None:
        """The title was lost: the program on the launch line tells the test, or nothing does."""
        name = _OSU_PROGRAM.fullmatch(self.program)
        collective = find_op(re.sub(r"^i(?=all|b|g|r|s)|_persistent$", "", name[1])) if name else None
        self.test = _Test(self.options.op or collective, "collective", non_blocking="overall" in self.columns)
        if self.test.collective is None and any(column in self.columns for column in _RATE_COLUMNS):
            self.test = _Test("send_recv_one_way", "pair")
        if self.test.collective is None:
            self.runs[-1].failure = "the title of the test is missing, so its operation is not known; name it with --op"

    def ranks(self) -> int:
        if self.options.world_size is not None:
            return self.options.world_size
        if self.test.kind != "collective":
            return 2 * self.pairs
        return self.command_ranks or UNKNOWN_WORLD_SIZE

    def row(self, at: int, line: str, tokens: list[str]) -> None:
        """A line that begins with a digit under a header."""
        run = self.runs[-1]
        if len(tokens) > len(self.columns):
            if all(_is_cell(token) for token in tokens):
                run.skip(at, line, f"{len(tokens)} values under {len(self.columns)} columns")
            elif size_number(tokens[0]) is not None and len(tokens) > 1 and number(tokens[1]) is not None:
                run.skip(at, line, "other text behind the row")
            return
        if not all(_is_cell(token) for token in tokens):
            if size_number(tokens[0]) is not None and len(tokens) > 1 and _is_cell(tokens[1]):
                run.skip(at, line, "a value is not a number")
            return
        collective = self.options.op or self.test.collective
        cells = dict(zip(self.columns, tokens, strict=False))
        if collective is None:
            run.skip(at, line, run.failure or "the operation is not one of the collectives here")
            return
        size = size_number(cells.get("size", "0"))
        if size is None:
            run.skip(at, line, "the size is not a whole number of bytes")
            return
        if "size" in self.columns and len(tokens) == 1:
            run.skip(at, line, "a size without a time")
            run.complete = False
            return
        marks: list[Mark] = []
        if len(tokens) < len(self.columns):
            marks.append(caveat("row_cut"))
            run.complete = False
        time_s, rate = self.time(size, cells, marks)
        if time_s is None:
            run.skip(at, line, "no time above zero in it")
            return
        self.lines.append((at, line))
        call = self.call(collective, size, marks)
        whole = len(tokens) if len(tokens) == len(self.columns) else len(tokens) - 1
        others = _others(dict(list(cells.items())[:whole]))
        printed = Printed(rate, None, cells.get("size", ""), others)
        run.add(call, time_s, at, marks, self.labels, printed, self.validated(cells, marks))

    def time(self, size: int, cells: dict[str, str], marks: list[Mark]) -> tuple[float | None, float | None]:
        """Seconds of one call, and the printed rate in GB/s."""
        column = next((column for column in _TIME_COLUMNS if column in cells), None)
        if column is not None:
            if column == "purecomm":
                marks.append(caveat("overlapped"))
            return seconds(cells[column], MICROSECOND), None
        rates = [number(cells[column]) for column in _RATE_COLUMNS if column in cells]
        rate = rates[0] if rates else None
        if rate is None or rate <= 0 or size <= 0 or rate > 1e12:
            return None, None
        each = rate / self.pairs / (2 if self.test.both_ways else 1)
        marks.append(caveat("time_from_rate", "many calls in flight"))
        if self.test.both_ways:
            marks.append(caveat("both_directions"))
        return size / (each * MB), rate * MB / GB

    def call(self, collective: str, size: int, marks: list[Mark]) -> Call:
        ranks = self.ranks()
        if collective in _PER_RANK:
            if ranks == UNKNOWN_WORLD_SIZE:
                marks.append(caveat("size_per_rank_unknown_n"))
            else:
                size *= ranks
        if self.test.kind == "one_sided":
            marks.append(caveat("one_sided", self.labels.get("one_sided", "")))
        if self.test.kind == "collective" and collective in _ROOTED:
            marks.append(caveat("mean_over_ranks"))
        return Call(collective, size, ranks, self.dtype)

    def validated(self, cells: dict[str, str], marks: list[Mark]) -> int | None:
        """Elements that were wrong, as far as Pass or Fail tell."""
        verdict = cells.get("validation", "").lower()
        if verdict == "fail":
            marks.append(caveat("validation_failed"))
            return 1
        return 0 if verdict == "pass" else None

    def drop_cut_row(self) -> None:
        """A run's last row that ends inside a number is none: it is shorter than the others, with fewer decimals.

        Numbers are printed with two decimals into columns of one width. At the end of a file without a newline the
        width alone tells.
        """
        lines, self.lines = self.lines, []
        if len(lines) < 2:
            return
        at, last = lines.pop()
        run = self.runs[-1]
        others = {len(line) for _, line in lines}
        column = len(last.split()) - 1
        decimals = [len(line.split()[column].partition(".")[2]) for _, line in lines if len(line.split()) > column]
        fewer = decimals and len(last.split()[column].partition(".")[2]) < min(decimals)
        at_end = not self.text.data.endswith(b"\n") and self.last_line == at and len(others) == 1
        if len(last) < min(others) and (fewer or at_end):
            run.rows.pop()
            run.skip(at, last, "the row ends inside a number")
            run.complete = False


def _is_cell(token: str) -> bool:
    return number(token) is not None or token.lower() in ("pass", "fail", "n/a", "-")


def _mpi_type(name: str) -> str | None:
    plain = name.lower().removeprefix("mpi_")
    return "int8" if plain == "char" else dtype_name(plain)


_OTHERS = {
    **{"minlatency": "time_min_us", "maxlatency": "time_max_us", "mincomm": "time_min_us", "maxcomm": "time_max_us"},
    **{"iterations": "iterations", "overall": "overall_us", "compute": "compute_us", "overlap": "overlap_percent"},
    **{"messages/s": "messages_per_s", "transmitsize": "transmit_size"},
}


def _others(cells: dict[str, str]) -> dict[str, str]:
    """Columns beside size and time, as printed."""
    others = {_OTHERS[column]: cell for column, cell in cells.items() if column in _OTHERS}
    tails = {column: cell for column, cell in cells.items() if re.fullmatch(r"p[\d.]+(?:_bw)?", column)}
    return {**others, **{f"{name}_MBps" if "bw" in name else f"time_{name}_us": cell for name, cell in tails.items()}}


def _read(text: LogText, options: ReadOptions) -> Results | None:
    return _Reader(text, options).read()


def _recognises(text: LogText) -> bool:
    titles = (b"OSU MPI", b"OSU NCCL", b"OSU RCCL", b"OSU Open", b"OSU UPC", b"# OSU ", b"OMB-Py", b"OMB MPI")
    columns = (b"Latency(us)", b"Latency (us)", b"MB/s", b"Overall(us)")
    return text.contains(*titles) or (text.contains(b"osu_", b"# Size") and text.contains(*columns))


FORMAT = FileFormat("osu", "OSU micro-benchmarks", _recognises, _read)
