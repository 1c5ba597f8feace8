"""NCCL Inspector: one JSON object a call and rank (on one line, or pretty-printed), or its Prometheus text lines.

    {"header": {"id": ..., "rank": 2, "n_ranks": 8, ...}, "metadata": {...}, "coll_perf": {"coll": "AllReduce", ...}}
    nccl_collective_exec_time_microseconds{...,nranks="4",collective="AllReduce",message_size="4-5GB",...} 9498.47

- The time is that of one rank's kernel, waiting for the last rank included: a row is one rank's view of a call.
- The message size is one rank's for all-gather and reduce-scatter; S, as in Inspector's own rates, is N times that.
- Prometheus lines are means over a dump: the time's arithmetic, the rate's geometric, the size a range of binary units.
  Where rate x time lies inside the range, it is the size.

Source: NVIDIA/nccl, plugins/profiler/inspector (formats v4.0 and v5.1).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from busbw.core.call import UNKNOWN_COLLECTIVE, Call
from busbw.core.file_format import FileFormat, ReadOptions
from busbw.core.log_text import LogText
from busbw.core.measurement import Mark, Measurement, Printed, Results, Source
from busbw.formats._lines import LARGEST_WORLD, number
from busbw.formats._rows import (
    LARGEST_SIZE,
    LARGEST_TIME,
    RunRows,
    bus_factor,
    caveat,
    find_op,
    joined,
    ranks_number,
)
from busbw.units import GB, MICROSECOND

_PER_RANK = {"all_gather", "reduce_scatter"}
_LONGEST_RECORD = 2**20
_RANK = re.compile(rb'"rank"\s*:\s*(\d+)')
_METRIC = re.compile(
    r"(nccl_(?:p2p_)?(?:bus_bandwidth_gbs|(?:collective_)?exec_time_microseconds))\{(.*)\}\s+(\S+)(?:\s+\d+)?"
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?\s*([KMGT]?)B")
_WAITING = (caveat("time_includes_waiting"),)
_WAITING_ODD = (*_WAITING, caveat("rate_contradicts_time"))
_decoder = json.JSONDecoder()


class _Reader:
    def __init__(self, text: LogText, options: ReadOptions) -> None:
        self.text, self.options = text, options
        self.run = RunRows(text, "nccl_inspector", 1)
        self.several = len({match[1] for match in _RANK.finditer(text.data)}) > 1
        self.calls: dict[tuple[str, int, int], Call] = {}
        self.labels: dict[tuple[object, ...], Mapping[str, str]] = {}
        self.ranks: set[str] = set()
        self.metrics: dict[str, dict[str, tuple[int, float]]] = {}

    def read(self) -> Results | None:
        open_at, open_lines, open_length = 0, list[str](), 0
        for at, line in self.text.lines():
            if open_lines:
                begins = line.startswith('{"') or line == "{"
                if not begins:
                    open_lines.append(line)
                    open_length += len(line)
                    if line.rstrip() in ("}", "},", "}]"):
                        self.records(open_at, "\n".join(open_lines).rstrip().removesuffix("]").removesuffix(","))
                        open_lines, open_length = [], 0
                    elif open_length > _LONGEST_RECORD or len(open_lines) > 20000:
                        self.cut(open_at, open_lines[0])
                        open_lines, open_length = [], 0
                    continue
                self.cut(open_at, open_lines[0])
                open_lines, open_length = [], 0
            body = line.strip()
            if body == "{":
                open_at, open_lines = at, [line]
            elif body.startswith("{"):
                self.records(at, body.rstrip(","))
            elif body.startswith("nccl_"):
                self.metric(at, body)
        if open_lines:
            self.cut(open_at, open_lines[0])
        self.finish_metrics()
        if self.several and len(self.ranks) > 1:
            self.run.note(f"records of {len(self.ranks)} ranks; each row is one rank's view of a call")
        return joined([self.run])

    def cut(self, at: int, text: str) -> None:
        self.run.complete = False
        self.run.skip(at, text, "the record is cut")

    def records(self, at: int, body: str) -> None:
        """One object, or several behind each other."""
        place = 0
        while place < len(body):
            try:
                record, end = _decoder.raw_decode(body, place)
            except (ValueError, RecursionError):
                self.cut(at, body[place:])
                return
            if isinstance(record, dict):
                self.record(at, record, body)
            place = end
            while place < len(body) and body[place] in " \t\n,":
                place += 1

    def record(self, at: int, record: dict[str, Any], body: str) -> None:
        kind = "coll" if "coll_perf" in record else "p2p"
        perf, header, metadata = record.get(f"{kind}_perf"), record.get("header"), record.get("metadata")
        if not isinstance(perf, dict) or not isinstance(header, dict):
            if "coll_perf" in body or "p2p_perf" in body:
                self.run.skip(at, body, "the record has no header or no numbers")
            return
        ranks = self.options.world_size or _whole(header.get("n_ranks"), LARGEST_WORLD)
        size = _whole(perf.get(f"{kind}_msg_size_bytes"), LARGEST_SIZE)
        microseconds = _real(perf.get(f"{kind}_exec_time_us"))
        name = perf.get(kind)
        if not ranks or size is None or microseconds is None or not isinstance(name, str):
            self.run.skip(at, body, "the record lacks its operation, ranks, size or time")
            return
        if not 0 < microseconds * MICROSECOND < LARGEST_TIME:
            self.run.skip(at, body, "its time is zero")
            return
        call = self.call(name, size, ranks)
        time_s = microseconds / 1_000_000
        algbw, busbw = _real(perf.get(f"{kind}_algobw_gbs")), _real(perf.get(f"{kind}_busbw_gbs"))
        odd = bool(algbw) and algbw is not None and abs(algbw * GB * time_s - call.size_bytes) > 0.01 * call.size_bytes
        key = (header.get("id"), header.get("rank"), perf.get(f"{kind}_timing_source"), name)
        try:
            labels = self.labels.get(key)
        except TypeError:
            self.run.skip(at, body, "the record's header holds something else than text and numbers")
            return
        if labels is None:
            host = metadata.get("hostname") if isinstance(metadata, dict) else None
            named = ("op", name), ("comm", key[0]), ("comm_name", header.get("comm_name")), ("rank", key[1])
            more = ("host", host), ("hosts", header.get("nnodes")), ("timing", key[2])
            labels = {label: str(value)[:200] for label, value in (*named, *more) if value not in (None, "")}
            self.labels[key] = labels
            self.ranks.add(str(key[1]))
        columns = {"sn": str(perf.get(f"{kind}_sn", ""))[:20]} if self.several else _NOTHING
        printed = Printed(algbw, busbw, "", columns)
        self.add(call, time_s, at, _WAITING_ODD if odd else _WAITING, labels, printed)

    def add(
        self, call: Call, time_s: float, at: int, marks: tuple[Mark, ...], labels: Mapping[str, str], printed: Printed
    ) -> None:
        """As RunRows.add, without a copy of what many rows share: such files hold hundreds of thousands of them."""
        if call.collective == UNKNOWN_COLLECTIVE:
            marks = (*marks, caveat("op_unknown"))
        self.run.last_line = at
        source = Source(self.text.name, at)
        self.run.rows.append(
            Measurement(call, time_s, marks=marks, labels=labels, source=source, origin="read", printed=printed)
        )

    def call(self, name: str, size: int, ranks: int) -> Call:
        key = (name, size, ranks)
        call = self.calls.get(key)
        if call is None:
            op = self.options.op or find_op(name) or UNKNOWN_COLLECTIVE
            whole = min(size * ranks, LARGEST_SIZE) if op in _PER_RANK else size
            call = Call(op, whole, ranks)
            if len(self.calls) < 100_000:
                self.calls[key] = call
        return call

    def metric(self, at: int, body: str) -> None:
        match = _METRIC.fullmatch(body)
        if match is None:
            if "{" in body:
                self.run.skip(at, body, "the line is cut")
            return
        value = number(match[3])
        name = "rate" if "bandwidth" in match[1] else "time"
        if value is None:
            self.run.skip(at, body, "the value is not a number")
            return
        found = self.metrics.setdefault(match[2], {})
        if name in found:
            self.finish_metric(match[2])
            found = self.metrics.setdefault(match[2], {})
        found[name] = at, value
        if len(found) == 2:
            self.finish_metric(match[2])

    def finish_metrics(self) -> None:
        for key in list(self.metrics):
            self.finish_metric(key)

    def finish_metric(self, key: str) -> None:
        """The time and the rate of one set of labels make a row."""
        found = self.metrics.pop(key)
        labels = dict(_LABEL.findall(key))
        at = min(line for line, _ in found.values())
        ranks = self.options.world_size or ranks_number(labels.get("nranks", ""))
        span = _range(labels.get("message_size", ""))
        name = labels.get("collective") or labels.get("p2p_operation") or ""
        time_s = found["time"][1] * MICROSECOND if "time" in found else 0.0
        if not ranks or span is None or not 0 < time_s < LARGEST_TIME:
            why = "no time belongs to this rate" if "time" not in found else "no ranks, size or time above zero in it"
            self.run.skip(at, key, why)
            return
        op = self.options.op or find_op(name) or UNKNOWN_COLLECTIVE
        parts = ranks if op in _PER_RANK else 1
        low, high = span[0] * parts, span[1] * parts
        rate = found["rate"][1] if "rate" in found else None
        factor = bus_factor(op, ranks) if op != "send_recv_one_way" else 1.0
        size = low
        if rate is not None and factor:
            worked_out = rate * GB * time_s / factor
            # Six digits are printed of each; a hair's breadth from the end of the range is the end.
            size = low if worked_out < low * (1 + 1e-5) or worked_out > high else round(worked_out)
        algorithm, _, protocol = labels.get("algo_proto", "").rpartition("_")
        known = {"op": name, "comm_name": labels.get("comm_name"), "host": labels.get("node"), "gpu": labels.get("gpu")}
        known |= {"hosts": labels.get("n_nodes"), "algorithm": algorithm, "protocol": protocol}
        kept = {label: value for label, value in known.items() if value}
        size_text = labels.get("message_size", "")
        marks = (*_WAITING, caveat("size_range", size_text), caveat("mean_of_calls"))
        self.add(Call(op, min(size, LARGEST_SIZE), ranks), time_s, at, marks, kept, Printed(None, rate, size_text))


_NOTHING: Mapping[str, str] = {}


def _whole(value: object, limit: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= limit else None


def _real(value: object) -> float | None:
    """A finite number from 0 up, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e300:
        return None
    return float(value)


def _range(text: str) -> tuple[int, int] | None:
    """The ends of `4-5GB` in bytes."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    unit: int = 1024 ** " KMGT".index(match[3] or " ")
    low = int(match[1]) * unit
    return low, int(match[2] or match[1]) * unit


def _recognises(text: LogText) -> bool:
    head = text.head.lstrip()
    if head.startswith(("{", "[")):
        return text.contains(b'"coll_perf"', b'"p2p_perf"')
    return text.contains(b"nccl_bus_bandwidth_gbs{", b"nccl_collective_exec_time_", b"nccl_p2p_") and "{" in head


FORMAT = FileFormat(
    "nccl_inspector",
    "NCCL Inspector (JSON lines, Prometheus text)",
    _recognises,
    lambda text, options: _Reader(text, options).read(),
    "document",
)
