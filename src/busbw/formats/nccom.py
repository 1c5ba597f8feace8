"""AWS Neuron's nccom-test: columns close to nccl-tests', one placement, rates in GiB/s (old versions) or GB/s (new).

    nccom-test -r 32 --minbytes 1kb --maxbytes 1mb --stepfactor 8 --datatype fp32 allg
        size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)

Options add columns: --stats (time:p50(us), ...), --show-input-output-size, --show-algorithm. The size is that of the
whole tensor. The operation and N stand in the command only; without it they follow from busbw / (size / time), as far
as the digits go, and from the average at the end. Also read: the report that --report-to-json-file writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean

from busbw.core.call import UNKNOWN_COLLECTIVE, UNKNOWN_WORLD_SIZE, Call
from busbw.core.file_format import FileFormat, ReadOptions
from busbw.core.log_text import LogText
from busbw.core.measurement import Average, Mark, Printed, Results
from busbw.formats._rows import (
    Rate,
    Ratio,
    RunRows,
    caveat,
    disagrees,
    dtype_name,
    find_op,
    half_step,
    implied,
    joined,
    op_in_file_name,
    ranks_of_command,
    read_rate,
    seconds,
    size_number,
)
from busbw.units import GB, GIB, MICROSECOND

_COLUMN = re.compile(
    r"(?:total_(?:in|out)put_)?size\(B\)|count\(elems\)|type|time(?::\w+)?\(us\)|(?:alg|bus)bw\(GB/s\)|algorithm"
)
_AVERAGE = re.compile(r"#?\s*Avg bus bandwidth\s*:\s*([\d.]+)\s*GB/s")
_FAILURE = re.compile(r"Failure running.*|.*errors? found.*|.*test failed.*")
_OP_WORD = re.compile(
    r"(?:^|\s)(allr|allg|redsct|all_?reduce|all_?gather|reduce_?scatter|sendrecv|alltoallv?|permute)(?=\s|$)"
)


@dataclass(frozen=True, slots=True)
class _Found:
    line: int
    text: str
    size: int
    time_s: float
    time_error: float
    algbw: Rate | None
    busbw: Rate | None
    dtype: str | None
    algorithm: str
    columns: dict[str, str]
    cut: bool


@dataclass(slots=True)
class _Table:
    run: RunRows
    op_text: str = ""
    ranks: int = 0
    columns: list[str] = field(default_factory=list)
    rows: list[_Found] = field(default_factory=list)
    average: Rate | None = None

    def unit(self) -> float:
        """What the GB of the rates is: 1e9 or 2^30, whichever size / time agrees with on more rows."""
        votes = 0
        for row in self.rows:
            decimal, binary = (
                not disagrees(row.algbw, row.size / row.time_s * scale, row.time_error) for scale in (1.0, GB / GIB)
            )
            votes += int(decimal) - int(binary)
        return float(GIB) if votes < 0 else GB

    def ratios(self, unit: float) -> list[Ratio]:
        """Busbw over size / time of each row, and of the average over all."""
        found = []
        for row in self.rows:
            plain = row.size / row.time_s * GB / unit
            if (
                row.busbw is not None
                and row.busbw.rate_Bps > row.busbw.slack_Bps
                and not disagrees(row.algbw, plain, row.time_error)
            ):
                low, high = plain * (1 - row.time_error), plain * (1 + row.time_error)
                rate, slack = row.busbw.rate_Bps, row.busbw.slack_Bps
                if low > 0:  # no bytes have no rate
                    found.append(Ratio((rate - slack) / high, (rate + slack) / low))
        if self.average is not None and self.rows and not self.run.unreadable.count:
            mean = fmean(row.size / row.time_s * GB / unit for row in self.rows)
            error = max(self.rows, key=lambda row: row.size).time_error
            rate, slack = self.average.rate_Bps, self.average.slack_Bps
            if rate > slack and mean > 0:
                found.append(Ratio((rate - slack) / mean * (1 - error), (rate + slack) / mean * (1 + error)))
        return found

    def finish(self, options: ReadOptions, file_name: str) -> RunRows:
        run, unit = self.run, self.unit()
        marks: list[Mark] = []
        if unit != GB:
            marks.append(caveat("rate_is_gib"))
        ratios = self.ratios(unit)
        named = options.op or ("send_recv" if self.op_text == "permute" else find_op(self.op_text))
        known = implied(ratios, (named,) if named else ())
        op = named
        if op is None and len(known.ops) == 1:
            op = known.ops[0]
            marks.append(caveat("op_from_factor"))
        if op is None:
            hint = op_in_file_name(file_name)
            if hint is not None and (not ratios or hint in known.ops):
                op = hint
                marks.append(caveat("op_from_file_name"))
                known = implied(ratios, (op,))
            elif known.ops:
                run.note(f"the operation is not named; busbw/algbw is that of {', '.join(known.ops)}")
        world = options.world_size or self.ranks or UNKNOWN_WORLD_SIZE
        if not world and known.world_size:
            world = known.world_size
            marks.append(caveat("world_size_from_factor"))
        elif not world and known.least:
            run.note(f"busbw/algbw allows {known.least} to {known.most} ranks")
            run.settings["world_size_possible"] = (known.least, known.most)
        op = op or UNKNOWN_COLLECTIVE
        run.collective, run.world_size = (None if op == UNKNOWN_COLLECTIVE else op), world or None
        busbw = [row.busbw.rate_Bps for row in self.rows if row.busbw is not None]
        run.average = Average(
            None if self.average is None else self.average.rate_GBps,
            fmean(busbw) / GB if busbw else None,
            len(busbw),
        )
        run.complete = True if self.average is not None and run.complete is None else run.complete
        for row in self.rows:
            found = list(marks)
            if disagrees(row.algbw, row.size / row.time_s * GB / unit, row.time_error):
                found.append(caveat("rate_contradicts_time"))
            if row.cut:
                found.append(caveat("row_cut"))
            printed = Printed(
                None if row.algbw is None else row.algbw.rate_GBps,
                None if row.busbw is None else row.busbw.rate_GBps,
                str(row.size),
                row.columns,
            )
            labels = {"backend": "neuron", **({"algorithm": row.algorithm} if row.algorithm else {})}
            if self.op_text:
                labels["op"] = self.op_text
            run.add(Call(op, row.size, world, row.dtype), row.time_s, row.line, found, labels, printed)
        return run


class _Reader:
    def __init__(self, text: LogText, options: ReadOptions) -> None:
        self.text, self.options = text, options
        self.tables: list[_Table] = []
        self.op_text, self.ranks = "", 0

    def read(self) -> Results | None:
        if self.text.head.lstrip().startswith("{") and self.read_report():
            return self.finish()
        for at, line in self.text.lines():
            if "nccom-test" in line:
                self.command(line)
            elif "size(B)" in line:
                columns = [match[0] for match in _COLUMN.finditer(line)]
                if "busbw(GB/s)" in columns or any(column.startswith("time") for column in columns):
                    self.tables.append(self.table(at, columns))
            elif self.tables:
                average = _AVERAGE.match(line.strip()) if "Avg bus" in line else None
                if average is not None:
                    self.tables[-1].average = read_rate(average[1], "GB/s")
                elif line.lstrip()[:1].isdigit():
                    self.row(at, line, self.tables[-1])
        return self.finish()

    def finish(self) -> Results | None:
        return joined([table.finish(self.options, self.text.name) for table in self.tables])

    def command(self, line: str) -> None:
        tail = line.partition("nccom-test")[2]
        named = _OP_WORD.findall(tail)
        self.op_text = named[0] if named else self.op_text
        self.ranks = ranks_of_command(line) or self.ranks

    def table(self, at: int, columns: list[str]) -> _Table:
        run = RunRows(self.text, "nccom", at)
        run.collective, run.world_size = find_op(self.op_text), self.ranks or None
        return _Table(run, self.op_text, self.ranks, columns)

    def row(self, at: int, line: str, table: _Table) -> None:
        cells = line.split()
        if len(cells) < 3 or len(cells) > len(table.columns) or size_number(cells[0]) is None:
            if len(cells) > 1 and size_number(cells[0]) is not None:
                said = _FAILURE.search(line.strip().partition(" ")[2].strip())
                if said is None or said[0].startswith("Failure"):
                    table.run.skip(at, line, "the test failed at this size" if said else "not the numbers of a row")
                if said:
                    table.run.failure = table.run.failure or f"{said[0][:160]} (line {at})"
                    table.run.complete = False
            return
        values = dict(zip(table.columns, cells, strict=False))
        self.take(at, line, values, len(cells) < len(table.columns), table)

    def take(self, at: int, line: str, values: Mapping[str, str], cut: bool, table: _Table) -> None:
        column = next((name for name in ("time:avg(us)", "time(us)", "time:p50(us)") if name in values), None)
        column = column or next((name for name in values if name.startswith("time")), None)
        size = size_number(values.get("size(B)", ""))
        time_s = seconds(values[column], MICROSECOND) if column else None
        last = column is not None and list(values)[-1] == column
        if size is None or time_s is None or column is None or (cut and last):
            table.run.skip(at, line, "the row is cut, or has no size or time")
            table.run.complete = False
            return
        if cut:
            table.run.complete = False
        others = {name: values[name] for name in values if name.startswith(("time", "total_")) and name != column}
        others = {_plain(name): cell for name, cell in others.items()}
        error = half_step(values[column]) * MICROSECOND / time_s
        rates = [read_rate(values.get(name, ""), "GB/s") for name in ("algbw(GB/s)", "busbw(GB/s)")]
        if cut and list(values)[-1] in ("algbw(GB/s)", "busbw(GB/s)"):
            rates[0 if list(values)[-1].startswith("alg") else 1] = None
        kind, algorithm = dtype_name(values.get("type", "")), values.get("algorithm", "")
        table.rows.append(_Found(at, line, size, time_s, error, rates[0], rates[1], kind, algorithm, others, cut))

    def read_report(self) -> bool:
        """The JSON report; False if it is something else."""
        try:
            report = json.loads(self.text.whole())
        except (ValueError, RecursionError):
            return False
        results = report.get("results") if isinstance(report, dict) else None
        if not isinstance(results, list):
            return False
        table = self.table(1, [])
        for place, item in enumerate(results, start=1):
            if not isinstance(item, dict):
                table.run.skip(1, str(item)[:200], f"result {place} is not an object")
                continue
            values = {str(name): str(value) for name, value in item.items() if isinstance(value, (int, float, str))}
            lines = [found for found in (self.line_of(values.get("size(B)", ""), place),) if found]
            self.take(lines[0] if lines else 1, str(values), values, False, table)
        self.tables.append(table)
        return True

    def line_of(self, size: str, place: int) -> int:
        """The line on which the size of a report's n-th result stands; 0 if it cannot be told."""
        found = self.text.find_lines((b'"size(B)"',), limit=10000)
        return found[place - 1][0] if place <= len(found) and size in found[place - 1][1] else 0


def _plain(column: str) -> str:
    """`time:p50(us)` -> `time_p50_us`, `total_input_size(B)` -> `total_input_size_bytes`."""
    return re.sub(r"time:(\w+)\(us\)", r"time_\1_us", column).replace("(B)", "_bytes")


def _recognises(text: LogText) -> bool:
    return text.contains(b"size(B)") and text.contains(b"count(elems)")


FORMAT = FileFormat(
    "nccom",
    "AWS Neuron's nccom-test",
    _recognises,
    lambda text, options: _Reader(text, options).read(),
    # Its rows would pass for nccl-tests' with one half missing, so it has the file for itself.
    "document",
)
