"""DeepSpeed's comms logger: the lines that it prints for each call (verbose), and its summary table.

    rank=0 | comm op: reduce_scatter_tensor | time (ms): 9.46 | msg size: 678.86 MB | algbw (Gbps): 1204.52  | busbw ...

    Comm. Op       Message Size   Count    Total Latency(ms)   Avg Latency(ms)    tput_avg (Gbps)    busbw_avg (Gbps)
    broadcast
                   2.0 KB         146      11.12               0.08               0.43               0.41

- Sizes are rounded and binary (MB is 2^20). An all-gather's is one rank's shard, a reduce-scatter's the whole.
- Times are rank 0's, of calls in a running job; the average leaves out the slowest and the fastest 10 %.
- Rates are bits, and means of rates. Which factor they hold has changed: 2S/t for every operation at first, for
  all_reduce to this day; all-gather N times the size since. We work the rates out from size and time instead.
- busbw/algbw is (N-1)/N, from which N follows: that of the whole job, whatever group a call was made in.

Source: DeepSpeed, deepspeed/utils/comms_logging.py, and its tutorial of 2022.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from busbw.core.call import UNKNOWN_COLLECTIVE, UNKNOWN_WORLD_SIZE, Call
from busbw.core.file_format import FileFormat, ReadOptions
from busbw.core.log_text import LogText
from busbw.core.measurement import Mark, Printed, Results
from busbw.formats._lines import number
from busbw.formats._rows import (
    LARGEST_SIZE,
    Rate,
    RunRows,
    Size,
    caveat,
    disagrees,
    find_op,
    half_step,
    implied,
    joined,
    ratio_of,
    read_rate,
    read_size,
    seconds,
)

_SIZE = r"(?P<size>\d[\d.]*\s?[KMGTPEZY]?B)"
_CALLER = r"(?:\s*\|\s*\[Caller Func:\s*(?P<caller>[^\]]{0,200})\])?"
_VERBOSE = re.compile(
    rf"comm op:\s*(?P<op>[\w-]+){_CALLER}\s*\|\s*time \(ms\):\s*(?P<avg>[\d.]+)\s*\|\s*msg size:\s*{_SIZE}\s*"
    r"(?:\|\s*algbw \(Gbps\):\s*(?P<tput>[\d.]+)\s*(?:\|\s*busbw \(Gbps\):\s*(?P<busbw>[\d.]+))?)?"
)
_OP_LINE = re.compile(rf"\s*(?P<op>[A-Za-z_]\w{{2,60}}){_CALLER}\s*")
_ROW = re.compile(rf"\s*{_SIZE}(?P<cells>(?:\s+[\d.]+)+)\s*")
_PAIR_OPS = {"send_recv_one_way"}


@dataclass(frozen=True, slots=True)
class _Found:
    """One row before N is known."""

    line: int
    call: tuple[str, str]
    """The operation's name there, and the function that called it."""
    size: Size
    size_text: str
    time_s: float
    time_error: float
    tput: Rate | None
    busbw: Rate | None
    count: int | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False


class _Log:
    """One table, or all verbose lines."""

    def __init__(self, text: LogText, line: int, table: str) -> None:
        self.run = RunRows(text, "deepspeed_comms_log", line)
        self.table = table
        self.op, self.caller = "", ""
        self.rows: list[_Found] = []

    def ranks(self) -> int:
        """N from the rows whose ratio can be told from 1."""
        ratios = [ratio_of(row.busbw, row.tput) for row in self.rows]
        return implied([ratio for ratio in ratios if ratio and ratio.high < 1], ("all_gather",)).world_size

    def finish(self, options: ReadOptions, elsewhere: int) -> RunRows:
        run = self.run
        implied_ranks = self.ranks() or elsewhere
        world = options.world_size or implied_ranks or UNKNOWN_WORLD_SIZE
        run.world_size = world or None
        if self.rows:
            run.note("N is that of the whole job; a call in a smaller group is logged with it too")
            run.note("calls of a running job; sizes are rounded, and the printed algbw is not S/t for all operations")
        for row in self.rows:
            marks = [] if self.table == "straggler" else [caveat("rank0_time")]
            op = find_op(row.call[0]) or UNKNOWN_COLLECTIVE
            ranks = 2 if op in _PAIR_OPS else world
            if ranks and ranks == world and not options.world_size:
                marks.append(caveat("world_size_from_factor", "that of the whole job"))
            size_bytes = row.size.size_bytes
            if op == "all_gather":
                if ranks:
                    size_bytes = min(size_bytes * ranks, LARGEST_SIZE)
                else:
                    marks.append(caveat("size_per_rank_unknown_n"))
            marks += self.marks_of(row, ranks)
            printed = Printed(
                None if row.tput is None else row.tput.rate_GBps,
                None if row.busbw is None else row.busbw.rate_GBps,
                row.size_text,
                row.columns,
            )
            labels = {name: value for name, value in zip(("op", "caller"), row.call, strict=True) if value}
            if self.table == "straggler":
                labels["rank_time"] = "min"
            run.add(Call(op, size_bytes, ranks), row.time_s, row.line, marks, labels, printed)
        return run

    def marks_of(self, row: _Found, ranks: int) -> list[Mark]:
        marks = []
        if not row.size.is_exact:
            marks.append(caveat("size_rounded"))
        if row.count == 1 and self.table == "summary":
            marks.append(caveat("one_call"))
        if row.time_error > 0.05:
            marks.append(caveat("time_rounded"))
        if row.cut:
            marks.append(caveat("row_cut"))
        size_error = row.size.slack_bytes / row.size.size_bytes if row.size.size_bytes else 0.0
        plain = row.size.size_bytes / row.time_s
        if row.tput and all(
            disagrees(row.tput, plain * times, row.time_error + 0.02, size_error) for times in {1, 2, ranks or 1}
        ):
            marks.append(caveat("rate_contradicts_time"))
        return marks


class _Reader:
    def __init__(self, text: LogText, options: ReadOptions) -> None:
        self.text, self.options = text, options
        self.logs: list[_Log] = []
        self.verbose: _Log | None = None
        self.table: _Log | None = None

    def read(self) -> Results | None:
        for at, line in self.text.lines():
            if "comm op:" in line:
                self.verbose_line(at, line)
            elif "Comm. Op" in line and "Message Size" in line:
                self.table = _Log(self.text, at, "straggler" if "straggler" in line else "summary")
                self.logs.append(self.table)
            elif self.table is not None and line.strip():
                self.table_line(at, line, self.table)
        ranks = next((found for found in (log.ranks() for log in self.logs) if found), 0)
        return joined([log.finish(self.options, ranks) for log in self.logs])

    def verbose_line(self, at: int, line: str) -> None:
        if self.verbose is None:
            self.verbose = _Log(self.text, at, "verbose")
            self.logs.append(self.verbose)
        match = _VERBOSE.search(line)
        size = None if match is None else read_size(match["size"])
        time_s = None if match is None else seconds(match["avg"], 1e-3)
        if match is None or size is None:
            self.verbose.run.skip(at, line, "the line is cut or holds no numbers")
        elif time_s is None:
            self.verbose.run.skip(at, line, "its time rounds to zero")
        else:
            rates = [read_rate(match[name] or "", "Gbps") for name in ("tput", "busbw")]
            error = half_step(match["avg"]) * 1e-3 / time_s
            cut = match["busbw"] is None
            call = (match["op"], match["caller"] or "")
            self.verbose.rows.append(_Found(at, call, size, match["size"], time_s, error, rates[0], rates[1], cut=cut))

    def table_line(self, at: int, line: str, log: _Log) -> None:
        row = _ROW.fullmatch(line)
        if row is None:
            name = _OP_LINE.fullmatch(line)
            if name is not None:
                log.op, log.caller = name["op"], name["caller"] or ""
            elif re.match(r"\s*\d[\d.]*\s?[KMGT]?B\s", line):
                log.run.skip(at, line, "not the numbers of a row")
            return
        cells = row["cells"].split()
        size = read_size(row["size"])
        if size is None or any(number(cell) is None for cell in cells) or len(cells) > 5 or not cells[0].isdigit():
            log.run.skip(at, line, "not the numbers of a row")
            return
        if len(cells) < 4 or (len(cells) < 5 and log.table == "straggler"):
            log.run.skip(at, line, "the row is cut before the end of its times")
            log.run.complete = False
            return
        average = 3 if log.table == "straggler" else 2
        count, total, mean = int(cells[0]), float(cells[1]), float(cells[average])
        time_s, error = mean * 1e-3, half_step(cells[average]) / mean if mean else 1.0
        if mean == 0 and total > 0 and 0 < count < 1e9:
            time_s, error = total / count * 1e-3, max(half_step(cells[1]) / total, 0.051)
        if not 0 < time_s < 1e9:
            log.run.skip(at, line, "its time rounds to zero")
            return
        columns = {"count": cells[0], "total_ms": cells[1], "average_ms": cells[average]}
        rates: list[Rate | None] = [None, None]
        if log.table == "straggler":
            columns["straggler_ms"] = cells[4]
        else:
            rates = [read_rate(cell, "Gbps") for cell in (*cells[3:5], "")[:2]]
        cut = len(cells) < 5
        call = (log.op, log.caller)
        log.rows.append(_Found(at, call, size, row["size"], time_s, error, rates[0], rates[1], count, columns, cut))


def _recognises(text: LogText) -> bool:
    return text.contains(b"| comm op:", b"comm op: ") or (text.contains(b"Comm. Op") and text.contains(b"Message Size"))


FORMAT = FileFormat(
    "deepspeed_comms_log",
    "DeepSpeed's comms logger, summary and verbose lines",
    _recognises,
    lambda text, options: _Reader(text, options).read(),
)
