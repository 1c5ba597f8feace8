"""gloo's own benchmark: a table of times of rank 0, with the algorithm and the number of processes above it.

     size (B)   elements   min (us)   p50 (us)   p99 (us)   max (us)  bandwidth (GB/s)  iterations

Older versions have no size (an element is 4 bytes), call the last column `samples`, and the rate `avg (GB/s)` or leave
it out. The rate is bytes a second over 2^30, without any bus factor, summed over threads. The size is one rank's part
for all-gather, all-to-all and scatter. A round trip is halved to one way.

Source: pytorch/gloo, gloo/benchmark/runner.cc and main.cc.
"""

from __future__ import annotations

import re

from busbw.core.call import UNKNOWN_COLLECTIVE, UNKNOWN_WORLD_SIZE, Call
from busbw.core.file_format import FileFormat, ReadOptions
from busbw.core.log_text import LogText
from busbw.core.measurement import Mark, Printed, Results
from busbw.formats._lines import LARGEST_WORLD, number
from busbw.formats._rows import (
    LARGEST_SIZE,
    RunRows,
    caveat,
    find_op,
    half_step,
    joined,
    ranks_number,
    read_rate,
    seconds,
    size_number,
)

_HEADER = re.compile(r"\s*(?:size\s*\(B\)\s+)?elements\s+min\s*\((?P<unit>us|ns)\)\s+p50.*")
_COLUMN = re.compile(r"size(?= \(B\))|elements|(?:min|p50|p99|max)(?= \([un]s\))|[a-z]+ \(GB/s\)|samples|iterations")
_ALGORITHM = re.compile(
    r"(?:new_|cuda_)*(?:all_?gather|all_?reduce|all_?to_?all|barrier|broadcast|pairwise_exchange|reduce_scatter|reduce|scatter"
    r"|sendrecv|isendirecv)(?:_\w+)?"
)
_OPTIONS = re.compile(r"processes=(?P<ranks>\d{1,8})(?:,\s*inputs=(?P<inputs>\d+))?(?:,\s*threads=(?P<threads>\d+))?")
_PER_RANK = {"all_gather", "all_to_all", "all_to_all_v", "scatter"}
_ELEMENT_BYTES = 4
_VARIANT = re.compile(r"_(?:ring|halving|bcube|local|one_to_all|all_to_all|all_to_one|nccl)(?:_.*|\d.*)?$")


def _operation(algorithm: str) -> str | None:
    name = re.sub(r"^(?:new_|cuda_)+", "", algorithm)
    if name.startswith("sendrecv_roundtrip"):
        return "send_recv_one_way"
    if name.startswith("pairwise_exchange"):
        return "send_recv"
    if "stress" in name:
        return None
    return find_op(name) or find_op(_VARIANT.sub("", name))


class _Reader:
    def __init__(self, text: LogText, options: ReadOptions) -> None:
        self.text, self.options = text, options
        self.runs: list[RunRows] = []
        self.columns: list[str] = []
        self.algorithm, self.ranks, self.settings = "", 0, dict[str, object]()
        self.unit_s = 1e-6

    def read(self) -> Results | None:
        for at, line in self.text.lines():
            body = line.strip()
            if "elements" in body and _HEADER.match(line):
                self.start(at, body)
            elif body[:1].isdigit():
                if self.columns:
                    self.row(at, line, body.split())
            elif "processes=" in body:
                self.take_options(body)
            elif body:
                self.take_algorithm(body)
        return joined(self.runs)

    def take_options(self, body: str) -> None:
        found = _OPTIONS.search(body)
        if found is not None:
            self.ranks = ranks_number(found["ranks"]) or 0
            counts = {key: ranks_number(found[key] or "") for key in ("inputs", "threads")}
            self.settings = {key: count for key, count in counts.items() if count}

    def take_algorithm(self, body: str) -> None:
        """`Algorithm:   allreduce_ring`, the name in capitals alone on a line, or the last word of the command."""
        if body.startswith("Algorithm:"):
            word = body.partition(":")[2].strip().lower()
        elif body.isupper() and " " not in body:
            word = body.lower()
        elif "--size" in body and "--rank" in body:
            words = [word for word in body.lower().split() if _ALGORITHM.fullmatch(word)]
            word = words[-1] if words else ""
        else:
            return
        if _ALGORITHM.fullmatch(word):
            self.algorithm = word

    def start(self, at: int, header: str) -> None:
        names = [match[0] for match in _COLUMN.finditer(header)]
        self.columns = ["rate" if "GB/s" in name else "iterations" if name == "samples" else name for name in names]
        self.unit_s = 1e-9 if "(ns)" in header else 1e-6
        run = RunRows(self.text, "gloo_benchmark", at)
        run.settings = {"algorithm": self.algorithm, **self.settings}
        run.collective = _operation(self.algorithm)
        run.world_size = self.options.world_size or self.ranks or None
        if self.algorithm and run.collective is None:
            run.failure = f"{self.algorithm} is none of the collectives here"
        self.runs.append(run)

    def row(self, at: int, line: str, cells: list[str]) -> None:
        run = self.runs[-1]
        if len(cells) > len(self.columns) or any(number(cell) is None for cell in cells):
            if len(cells) >= 4 and all(number(cell) is not None for cell in cells[:4]):
                run.skip(at, line, "other text in the row")
            return
        values = dict(zip(self.columns, cells, strict=False))
        op = self.options.op or _operation(self.algorithm)
        if op is None and self.algorithm:
            run.skip(at, line, f"{self.algorithm} is none of the collectives here")
            return
        if "p99" not in values:
            run.skip(at, line, "the row is cut before the end of its median")
            run.complete = False
            return
        marks: list[Mark] = [caveat("rank0_time")]
        elements = size_number(values["elements"])
        size = size_number(values["size"]) if "size" in values else (elements or 0) * _ELEMENT_BYTES
        time_s = seconds(values["p50"], self.unit_s)
        if elements is None or size is None or time_s is None or size > LARGEST_SIZE // LARGEST_WORLD:
            run.skip(at, line, "its size or its time is not one")
            return
        if "size" not in values:
            run.note("sizes are elements x 4 bytes; the table does not print bytes")
        if half_step(values["p50"]) * self.unit_s / time_s > 0.05:
            marks.append(caveat("time_rounded"))
        if self.columns[-1] not in values:
            marks.append(caveat("row_cut"))
            run.complete = False
        if "roundtrip" in self.algorithm:
            time_s /= 2
            marks.append(caveat("round_trip"))
        ranks = self.options.world_size or self.ranks or UNKNOWN_WORLD_SIZE
        if op in _PER_RANK:
            if ranks:
                size *= ranks
            else:
                marks.append(caveat("size_per_rank_unknown_n"))
        if op == "barrier":
            size = 0
        rate = read_rate(values.get("rate", ""), "GB/s")
        if rate is not None:
            marks.append(caveat("rate_is_gib"))
        unit = "ns" if self.unit_s == 1e-9 else "us"
        others = {f"time_{name}_{unit}": values[name] for name in ("min", "p99", "max") if name in values}
        if "iterations" in values:
            others["iterations"] = values["iterations"]
        labels = {"backend": "gloo", **({"algorithm": self.algorithm} if self.algorithm else {})}
        size_text = values.get("size", values["elements"])
        printed = Printed(None if rate is None else rate.rate_GBps, None, size_text, others)
        run.add(Call(op or UNKNOWN_COLLECTIVE, size, ranks), time_s, at, marks, labels, printed)


def _recognises(text: LogText) -> bool:
    return text.contains(b"elements") and text.contains(b"p50 (us)", b"p50 (ns)")


FORMAT = FileFormat(
    "gloo_benchmark", "gloo's own benchmark", _recognises, lambda text, options: _Reader(text, options).read()
)
