"""ucc_perftest: set-up lines, then rows of count, size, three times (avg, min, max over the ranks), three rates (-F).

The order of the rates differs between versions (avg min max, avg max min) and stands in the second header line. They
are bus bandwidths in GB/s (1e9). The size is that of the source buffer of one rank: one rank's part for all-gather and
gather; for all-to-all, reduce-scatter and scatter it was one part too in old versions and is the whole of it now. The
rate tells which (size (N-1)/t, or size/t (N-1)/N), and N.

Source: openucx/ucc, tools/perf.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from busbw.core.call import UNKNOWN_COLLECTIVE, UNKNOWN_WORLD_SIZE, Call
from busbw.core.file_format import FileFormat, ReadOptions
from busbw.core.log_text import LogText
from busbw.core.measurement import Mark, Printed, Results
from busbw.formats._lines import LARGEST_WORLD, number
from busbw.formats._rows import (
    LARGEST_SIZE,
    RING_OPS,
    Implied,
    Rate,
    Ratio,
    RunRows,
    caveat,
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
from busbw.units import MICROSECOND

_HEADER = re.compile(r"\s*Count\s+Size\s+Time, us(?P<rates>\s+(?:Bus )?Bandwidth, GB/s)?\s*")
_ORDER = re.compile(r"\s*avg\s+min\s+max(?:\s+(avg|min|max)\s+(avg|min|max)\s+(avg|min|max))?\s*")
_SETTING = re.compile(r"\s*(Collective|Memory type|Datatype|Reduction|Inplace|Iteration mode)\s*:\s*(\S.*)")
_COMMAND_OP = re.compile(r"ucc_perftest\b.*?\s-c\s+(\w+)")
_ROOTED = {"broadcast", "reduce", "gather", "scatter"}
_ONE_PART = {"all_gather", "gather"}
_EITHER = {"all_to_all", "all_to_all_v", "reduce_scatter", "scatter"}


@dataclass(frozen=True, slots=True)
class _Found:
    line: int
    size: int
    size_text: str
    time_s: float
    rate: Rate | None
    times_size: Ratio | None
    """Printed rate x time / size: (N-1), (N-1)/N, 2(N-1)/N or 1."""
    columns: dict[str, str]
    cut: bool


@dataclass(slots=True)
class _Table:
    run: RunRows
    settings: dict[str, str]
    op: str | None
    ranks: int
    order: tuple[str, ...] = ("avg", "min", "max")
    rows: list[_Found] = field(default_factory=list)

    def finish(self, options: ReadOptions, file_name: str) -> RunRows:
        run = self.run
        ratios = [row.times_size for row in self.rows if row.times_size is not None]
        low, high = max((r.low for r in ratios), default=0.0), min((r.high for r in ratios), default=0.0)
        parts = _whole_between(low, high) if low > 1.001 else None
        """N - 1 where sizes are parts of a rank."""
        op, marks = options.op or self.op, list[Mark]()
        whole = Implied() if parts and low > 2 else implied(ratios)
        candidates = set(whole.ops) | (set(RING_OPS) if parts else set())
        if op is None:
            named = op_in_file_name(file_name)
            if named is not None and (not candidates or named in candidates):
                op = named
                marks.append(caveat("op_from_file_name"))
            elif len(candidates) == 1:
                op = candidates.pop()
                marks.append(caveat("op_from_factor"))
            else:
                op = UNKNOWN_COLLECTIVE
                run.note(f"the operation is not named; the rates fit {', '.join(sorted(candidates)) or 'none'}")
        per_part = op in _ONE_PART or (op in _EITHER and (parts is not None or "Iteration mode" not in self.settings))
        if op == UNKNOWN_COLLECTIVE:
            per_part = parts is not None and low > 2
        if op in _EITHER and ratios and high < 1:
            per_part = False
        known = parts[0] + 1 if per_part and parts and parts[0] == parts[1] else 0
        if not per_part and ratios:
            known = implied(ratios, (op,) if op != UNKNOWN_COLLECTIVE else ()).world_size
        world = options.world_size or self.ranks or UNKNOWN_WORLD_SIZE
        if not world and known:
            world = known
            marks.append(caveat("world_size_from_factor"))
        run.collective, run.world_size = (None if op == UNKNOWN_COLLECTIVE else op), world or None
        if op in _ROOTED:
            marks.append(caveat("mean_over_ranks"))
        if per_part and not world:
            marks.append(caveat("size_per_rank_unknown_n"))
        in_place = {"1": True, "0": False}.get(self.settings.get("Inplace", ""))
        redop = self.settings.get("Reduction", "N/A").lower()
        labels = {"backend": "ucc"}
        if "Memory type" in self.settings:
            labels["memory"] = self.settings["Memory type"]
        for row in self.rows:
            size = row.size * world if per_part and world else row.size
            call = Call(
                op,
                0 if op == "barrier" else min(size, LARGEST_SIZE),
                world,
                dtype_name(self.settings.get("Datatype", "")),
                None if redop == "n/a" or op not in ("all_reduce", "reduce_scatter", "reduce") else redop,
                in_place=in_place,
            )
            cut = [caveat("row_cut")] if row.cut else []
            printed = Printed(None, None if row.rate is None else row.rate.rate_GBps, row.size_text, row.columns)
            run.add(call, row.time_s, row.line, [*marks, *cut], labels, printed)
        return run


def _whole_between(low: float, high: float) -> tuple[int, int] | None:
    """The least and the largest whole number from low to high."""
    if not 0 < low <= high < LARGEST_WORLD:
        return None
    least, most = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    return (least, most) if least <= most else None


class _Reader:
    def __init__(self, text: LogText, options: ReadOptions) -> None:
        self.text, self.options = text, options
        self.tables: list[_Table] = []
        self.settings: dict[str, str] = {}
        self.ranks, self.command_op = 0, ""
        self.table: _Table | None = None

    def read(self) -> Results | None:
        for at, line in self.text.lines():
            setting = _SETTING.match(line) if ":" in line else None
            if "ucc_perftest" in line:
                self.ranks = ranks_of_command(line) or self.ranks
                named = _COMMAND_OP.search(line)
                self.command_op = named[1] if named else self.command_op
            elif setting is not None:
                if setting[1] == "Collective":
                    self.settings, self.table = {}, None
                self.settings[setting[1]] = setting[2].strip()
            elif "Time, us" in line and _HEADER.fullmatch(line):
                op = find_op(self.settings.get("Collective", "")) or find_op(self.command_op)
                run = RunRows(self.text, "ucc_perftest", at)
                run.collective = op
                run.settings = dict(self.settings)
                self.table = _Table(run, self.settings, op, self.ranks)
                self.tables.append(self.table)
            elif self.table is not None and line.strip():
                self.take(at, line, self.table)
        return joined([table.finish(self.options, self.text.name) for table in self.tables])

    def take(self, at: int, line: str, table: _Table) -> None:
        order = _ORDER.fullmatch(line)
        if order is not None:
            table.order = tuple(group for group in order.groups() if group)
            return
        if line.strip().startswith("Total time"):
            table.run.complete = True
            return
        cells = line.split()
        if not (cells[0].isdigit() or cells[0] == "N/A") or len(cells) < 2:
            return
        if len(cells) > 5 + len(table.order) or not all(cell == "N/A" or number(cell) is not None for cell in cells):
            if size_number(cells[1]) is not None or number(cells[1]) is not None:
                table.run.skip(at, line, "other text in the row")
            return
        size = 0 if cells[1] == "N/A" else size_number(cells[1])
        time_s = seconds(cells[2], MICROSECOND) if len(cells) > 3 else None
        if size is None or time_s is None:
            table.run.skip(at, line, "the row is cut, or has no size or time")
            table.run.complete = False
            return
        named = dict(zip(("avg", "min", "max"), cells[2:5], strict=False))
        rates = dict(zip(table.order, cells[5:], strict=False))
        # A gather's and a scatter's rate is printed for the slowest rank alone.
        which = "avg" if rates.get("avg", "N/A") != "N/A" else "min"
        rate = read_rate(rates.get(which, ""), "GB/s")
        under = seconds(named.get("avg" if which == "avg" else "max", ""), MICROSECOND)
        times_size = None
        if rate is not None and under and size and rate.rate_Bps > rate.slack_Bps:
            error = half_step(named["avg" if which == "avg" else "max"]) * MICROSECOND / under
            # The tool works in single precision.
            error += 1e-6
            times_size = Ratio(
                (rate.rate_Bps - rate.slack_Bps) * under / size * (1 - error),
                (rate.rate_Bps + rate.slack_Bps) * under / size * (1 + error),
            )
        cut = len(cells) < 5 or (len(rates) not in (0, 3))
        whole = list(named)[: len(cells) - 3] if cut else list(named)
        columns = {f"time_{name}_us": named[name] for name in ("min", "max") if name in whole}
        if cut:
            table.run.complete = False
        table.rows.append(_Found(at, size, cells[1], time_s, rate, times_size, columns, cut))


def _recognises(text: LogText) -> bool:
    return text.contains(b"Time, us")


FORMAT = FileFormat("ucc_perftest", "ucc_perftest", _recognises, lambda text, options: _Reader(text, options).read())
