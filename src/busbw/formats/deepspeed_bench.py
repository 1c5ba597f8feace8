"""DeepSpeed's communication benchmark (ds_bench, benchmarks/communication): one table for each operation.

    ---- Performance of all_reduce on 8 devices ---------------
    Size (Bytes)         Description   Duration       Throughput (Gbps)    BusBW (Gbps)
    31.67 GB             8501054668x4  3176.620 ms    171.272              149.863

The size is rounded and binary; the description has elements x bytes, which is exact: the input of one rank, so for
all-gather S is N times that. The throughput of all_reduce is 2S/t, of the others S/t; BusBW is as everywhere. Rates are
bits (Gbps) unless --bw-unit=GBps; with --raw sizes are bytes and durations us without unit. The time is rank 0's.

Source: DeepSpeedExamples, benchmarks/communication/utils.py.
"""

from __future__ import annotations

import re

from busbw.core.call import UNKNOWN_COLLECTIVE, UNKNOWN_WORLD_SIZE, Call
from busbw.core.file_format import FileFormat, ReadOptions
from busbw.core.log_text import LogText
from busbw.core.measurement import Mark, Printed, Results
from busbw.formats._rows import (
    LARGEST_SIZE,
    RunRows,
    bus_factor,
    caveat,
    disagrees,
    find_op,
    half_step,
    joined,
    ranks_number,
    read_rate,
    seconds,
)
from busbw.units import MICROSECOND

_TITLE = re.compile(r"-{2,}\s*Performance of (?P<op>[\w-]+) on (?P<ranks>\d{1,8}) devices")
_HEADER = re.compile(r"Size \(Bytes\)\s+Description\s+Duration(?P<raw> \(us\))?.*?Throughput \((?P<unit>G[Bb]ps)\)")
_ROW = re.compile(
    r"\s*(?P<size>\d[\d.]*\s?[KMGTP]?B|\d+)\s+(?P<count>\d{1,19})x(?P<item>\d{1,3})"
    r"(?:\s+(?P<time>[\d.]+)(?:\s*(?P<unit>us|ms|s)\b)?(?:\s+(?P<tput>[\d.]+)(?:\s+(?P<busbw>[\d.]+))?)?)?(?P<rest>.*)"
)
_UNITS = {"us": MICROSECOND, "ms": 1e-3, "s": 1.0}


class _Reader:
    def __init__(self, text: LogText, options: ReadOptions) -> None:
        self.text, self.options = text, options
        self.runs: list[RunRows] = []
        self.op, self.world_size = UNKNOWN_COLLECTIVE, UNKNOWN_WORLD_SIZE
        self.op_text = ""
        self.raw, self.unit = False, "Gbps"

    def read(self) -> Results | None:
        for at, line in self.text.lines():
            title = _TITLE.search(line) if "Performance of" in line else None
            header = _HEADER.search(line) if "Description" in line else None
            if title is not None:
                self.start(at, title["op"], ranks_number(title["ranks"]) or UNKNOWN_WORLD_SIZE)
            elif header is not None:
                if not self.runs or self.runs[-1].rows:
                    self.start(at, "", UNKNOWN_WORLD_SIZE)
                self.raw, self.unit = header["raw"] is not None, header["unit"]
            elif self.runs and "x" in line:
                row = _ROW.fullmatch(line)
                if row is not None:
                    self.row(at, line, row)
        return joined(self.runs)

    def start(self, at: int, op_text: str, world_size: int) -> None:
        self.op_text, self.op = op_text, self.options.op or find_op(op_text) or UNKNOWN_COLLECTIVE
        self.world_size = self.options.world_size or world_size
        run = RunRows(self.text, "deepspeed_bench", at)
        run.settings = {"op": op_text}
        run.collective = None if self.op == UNKNOWN_COLLECTIVE else self.op
        run.world_size = self.world_size or None
        self.runs.append(run)

    def row(self, at: int, line: str, row: re.Match[str]) -> None:
        run = self.runs[-1]
        unit = row["unit"] or ("us" if self.raw else "")
        count, item = int(row["count"]), int(row["item"])
        time_s = seconds(row["time"], _UNITS[unit]) if row["time"] and unit else None
        if row["time"] is None or (row["unit"] is None and row["tput"] is None):
            run.complete = False
            run.skip(at, line, "the row is cut before the end of its duration")
            return
        if time_s is None or row["rest"].strip() or count * item > LARGEST_SIZE:
            run.skip(at, line, "its duration, size or rates are not numbers in their units")
            return
        marks: list[Mark] = [caveat("rank0_time")]
        size_bytes, ours = count * item, 1
        if self.op == "all_gather":
            if self.world_size:
                size_bytes *= self.world_size
            else:
                marks.append(caveat("size_per_rank_unknown_n"))
        elif self.op == "all_reduce":
            ours = 2
            run.note("the throughput of all_reduce is 2S/t here; algbw is worked out from size and time")
        tput = read_rate(row["tput"] or "", self.unit)
        busbw = read_rate(row["busbw"] or "", self.unit)
        if row["busbw"] is None:
            marks.append(caveat("row_cut"))
            run.complete = False
        factor = bus_factor(self.op, self.world_size)
        error = half_step(row["time"]) * _UNITS[unit] / time_s
        rate = size_bytes / time_s
        if factor and (disagrees(busbw, rate * factor, error) or (busbw and disagrees(tput, rate * ours, error))):
            marks.append(caveat("rate_contradicts_time"))
        printed = Printed(
            None if tput is None else tput.rate_GBps, None if busbw is None else busbw.rate_GBps, row["size"].strip()
        )
        labels = {"op": self.op_text} if self.op_text else {}
        run.add(Call(self.op, size_bytes, self.world_size), time_s, at, marks, labels, printed)


def _recognises(text: LogText) -> bool:
    return text.contains(b"Performance of ") and text.contains(b" devices --", b"Throughput (G")


FORMAT = FileFormat(
    "deepspeed_bench",
    "DeepSpeed's communication benchmark (ds_bench)",
    _recognises,
    lambda text, options: _Reader(text, options).read(),
)
