"""PARAM comms (comms.py): lines that begin with COMMS-RES, the operation and the element type in one word with it.

    COMMS-RES   total-size (B)  nElementsPerRank  Time(us):p50  p75  p95  Min  Max  AlgBW(GB/s)  BusBW(GB/s)  Total...
    COMMS-RES-all_reduce-float32   1073741824   268435456   26070.1 ...   41.187   77.226   0.0

The size is that of the whole tensor. Percentiles, minimum and maximum are over the ranks, each with its mean time; the
algbw is that of the median rank. Old versions print neither the operation nor the type; they are in the lines before.

Source: facebookresearch/param, train/comms/pt/comms.py.
"""

from __future__ import annotations

import re

from busbw.core.call import UNKNOWN_COLLECTIVE, UNKNOWN_WORLD_SIZE, Call
from busbw.core.file_format import FileFormat, ReadOptions
from busbw.core.log_text import LogText
from busbw.core.measurement import Mark, Printed, Results
from busbw.formats._lines import number
from busbw.formats._rows import (
    Rate,
    RunRows,
    best_rate,
    bus_factor,
    caveat,
    disagrees,
    dtype_name,
    find_op,
    half_step,
    implied,
    joined,
    ranks_number,
    ranks_of_command,
    ratio_of,
    read_rate,
    seconds,
    size_number,
)
from busbw.units import MICROSECOND

_MARK = "COMMS-RES"
_COLUMNS = re.compile(
    r"(?:total-)?size \(B\)|nElementsPer\w+|ping(?:Pong)?Latency\(us\):p50|Total(?:Time|Latency)\(us\):p50"
    r"|(?:Time|Latency)\(us\):p50|p75|p95|Min|Max|(?:Alg|Bus)BW\(GB/s\)|(?:avg|total)(?:Uni|Bi)BW\(GB/s\)"
)
_USUAL = {
    3: ("size", "algbw", "busbw"),
    9: ("size", "elements", "p50", "p75", "p95", "min", "max", "algbw", "busbw"),
    10: ("size", "elements", "p50", "p75", "p95", "min", "max", "algbw", "busbw", "total"),
    11: ("size", "p50", "p75", "p95", "pong_p50", "pong_p75", "pong_p95", "algbw", "bi", "total_uni", "total_bi"),
}
"""Columns by their number, where the header is missing."""
_NAMES = {
    **{"nelements": "elements", "algbw": "algbw", "busbw": "busbw", "avguni": "algbw", "avgbi": "bi"},
    **{"min": "min", "max": "max"},
}
_WORD = re.compile(r"COMMS-RES(?:-(?P<quant>QUANT))?(?:-(?P<op>[a-z]\w*)(?:-(?P<type>[A-Za-z]\w*))?(?P<tag>\S*))?")
_COLLECTIVE = re.compile(r"(?:--collective[s=\s]+|\bcollective=\s*)(\w+)")
_GROUP = re.compile(r"\b(?:groupSize|world_size|nprocs|Num\s*ranks)\b[\s=:]*(\d{1,8})", re.IGNORECASE)
_DTYPE = re.compile(r"(?:--data-types?[=\s]+|\bdtype=\s*|data_type[=:\s]+)(?:torch\.)?(\w+)")


class _Reader:
    def __init__(self, text: LogText, options: ReadOptions) -> None:
        self.text, self.options = text, options
        self.runs: list[RunRows] = []
        self.columns: tuple[str, ...] = ()
        self.op_text, self.dtype, self.ranks = "", "", 0
        self.rows: list[tuple[RunRows, int, str, list[str], str, str, tuple[str, ...]]] = []

    def read(self) -> Results | None:
        for at, line in self.text.lines():
            if _MARK in line:
                self.result(at, line)
                continue
            if "collective" in line:
                named = _COLLECTIVE.search(line)
                self.op_text = named[1] if named else self.op_text
                typed = _DTYPE.search(line)
                self.dtype = typed[1] if typed else self.dtype
            group = _GROUP.search(line) if "ize" in line or "ranks" in line or "nprocs" in line else None
            ranks = ranks_number(group[1]) if group else ranks_of_command(line) if "comms.py" in line else None
            self.ranks = ranks or self.ranks
        for run in self.runs:
            self.finish(run)
        return joined(self.runs)

    def result(self, at: int, line: str) -> None:
        """A header or a row."""
        head, _, _ = line.partition(_MARK)
        if head.strip():
            return
        body = line[len(head) :]
        word = _WORD.match(body)
        cells = body.split()[1:]
        if "size (B)" in body:
            self.runs.append(self.new_run(at))
            names = [_column(match[0]) for match in _COLUMNS.finditer(body)]
            pong = names.index("pong_p50") if "pong_p50" in names else len(names)
            later = [f"pong_{name}" if name[0] == "p" else name for name in names[pong + 1 :]]
            self.columns = (*names[: pong + 1], *later)
            return
        if word is None or not cells:
            return
        if not self.runs:
            self.runs.append(self.new_run(at))
        run = self.runs[-1]
        if word["quant"]:
            run.skip(at, line, "a quantised collective, whose time holds the conversion")
            return
        op_text = word["op"] or self.op_text
        columns = self.columns if len(self.columns) >= len(cells) > 3 else _USUAL.get(len(cells), ())
        if not columns or any(number(cell) is None for cell in cells):
            run.skip(at, line, "the row is cut, or holds something that is no number")
            run.complete = False
            return
        self.rows.append((run, at, op_text, cells, word["type"] or self.dtype, (word["tag"] or "").strip("-"), columns))

    def new_run(self, at: int) -> RunRows:
        run = RunRows(self.text, "param", at)
        run.collective, run.world_size = find_op(self.op_text), self.ranks or None
        return run

    def finish(self, run: RunRows) -> None:
        """N is known only when all rows are: add them."""
        mine = [row[1:] for row in self.rows if row[0] is run]
        ratios: dict[str, list[tuple[Rate | None, Rate | None]]] = {}
        for _, op_text, cells, _, _, columns in mine:
            values = dict(zip(columns, cells, strict=False))
            rates = (read_rate(values.get("busbw", ""), "GB/s"), read_rate(values.get("algbw", ""), "GB/s"))
            ratios.setdefault(op_text, []).append(rates)
        known = {
            op_text: implied((ratio_of(*pair) for pair in pairs), filter(None, (find_op(op_text),)))
            for op_text, pairs in ratios.items()
        }
        worlds = {found.world_size for found in known.values() if found.world_size}
        shared = next(iter(worlds)) if len(worlds) == 1 else UNKNOWN_WORLD_SIZE
        for at, op_text, cells, type_text, tag, columns in mine:
            marks: list[Mark] = []
            op = self.options.op or find_op(op_text)
            if op is None and len(known[op_text].ops) == 1:
                op = known[op_text].ops[0]
                marks.append(caveat("op_from_factor"))
            world = self.options.world_size or (2 if op == "send_recv_one_way" else self.ranks)
            if not world:
                world = known[op_text].world_size or shared
                if world:
                    marks.append(caveat("world_size_from_factor"))
            labels = {name: value for name, value in (("op", op_text), ("tag", tag)) if value}
            values = dict(zip(columns, cells, strict=False))
            call = Call(op or UNKNOWN_COLLECTIVE, size_number(values["size"]) or 0, world, dtype_name(type_text))
            self.row(run, at, call, values, marks, labels, len(cells) < len(columns))

    def row(
        self,
        run: RunRows,
        at: int,
        call: Call,
        values: dict[str, str],
        marks: list[Mark],
        labels: dict[str, str],
        cut: bool,
    ) -> None:
        size = size_number(values["size"])
        algbw, busbw = read_rate(values.get("algbw", ""), "GB/s"), read_rate(values.get("busbw", ""), "GB/s")
        time_s = seconds(values.get("p50", ""), MICROSECOND)
        factor = bus_factor(call.collective, call.world_size)
        if size is None:
            run.skip(at, " ".join(values.values()), "the size is not a whole number of bytes")
            return
        if "p50" in values:
            marks.append(caveat("percentile_over_ranks"))
        elif size:
            rate = best_rate(algbw, busbw, factor)
            time_s = None if rate is None else size / rate
            marks.append(caveat("time_from_rate"))
        if time_s is None:
            run.skip(at, " ".join(values.values()), "no time above zero in it")
            return
        if cut:
            marks.append(caveat("row_cut"))
            run.complete = False
        if "p50" in values and "pong_p50" not in values:
            error = half_step(values["p50"]) * MICROSECOND / time_s
            if disagrees(algbw, size / time_s, error):
                marks.append(caveat("rate_contradicts_time"))
        others = {
            f"time_{name}_us": values[name]
            for name in ("p75", "p95", "min", "max", "pong_p50", "pong_p75", "pong_p95")
            if name in values
        }
        others |= {f"{name}_GBps": values[name] for name in ("bi", "total_uni", "total_bi") if name in values}
        rates = [None if rate is None else rate.rate_GBps for rate in (algbw, busbw)]
        printed = Printed(rates[0], rates[1], values["size"], others)
        run.add(call, time_s, at, marks, labels, printed)


def _column(name: str) -> str:
    plain = name.lower()
    if "size" in plain:
        return "size"
    if plain.startswith("pingpong"):
        return "pong_p50"
    if plain.startswith("total"):
        return "total_uni" if "uni" in plain else "total_bi" if "bi" in plain else "total"
    if plain.endswith("p50"):
        return "p50"
    return next((short for start, short in _NAMES.items() if plain.startswith(start)), plain)


def _read(text: LogText, options: ReadOptions) -> Results | None:
    return _Reader(text, options).read()


FORMAT = FileFormat("param", "PARAM comms (COMMS-RES lines)", lambda text: text.contains(b"COMMS-RES"), _read)
