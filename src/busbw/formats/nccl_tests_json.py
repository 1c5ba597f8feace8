"""nccl-tests' and rccl-tests' JSON (-J).

History of the format:
    1   2.17.3: version, args, env, config, results, out_of_bounds, "average_bus_bandwidith" with "bandwidith", errors
        2.17.9: the same, spelt "average_bus_bandwidth" and "bandwidth"
    2   2.19: config gains more keys
    3   2.19.2: per-iteration times (-I) beside each placement
Booleans are strings, the root is a padded string, not-a-number is the string "nan"; config.devices has one entry a
process. The environment that it holds is never copied on, but for the variables listed in `_nccl_settings`.

A file whose run was aborted ends in the middle. What is whole in it is read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from busbw.core.file_format import FileFormat, ReadOptions
from busbw.core.log_text import LogText
from busbw.core.measurement import Results, Samples
from busbw.errors import FileError
from busbw.formats._lines import LARGEST_SIZE, LARGEST_WORLD, whole_number
from busbw.formats._nccl_build import Table, build, conclude, merge_runs
from busbw.formats._nccl_ops import TESTS
from busbw.formats._nccl_rows import LEAST_TIME_S, MOST_TIME_S, Half, dtype_name
from busbw.formats._nccl_settings import COMPARED, VARIABLES

_TEST = re.compile(rf"(?:^|[\\/])({'|'.join(sorted(TESTS, key=len, reverse=True))})_(?:perf|test|bench)(?:\.exe)?$")
_CONFIG = {
    "nthreads": "threads",
    "ngpus": "gpus_per_thread",
    "minimum_bytes": "min_bytes",
    "maximum_bytes": "max_bytes",
    "step_factor": "step_factor",
    "step_bytes": "step_bytes",
    "warmup_iters": "warmup_iters",
    "iterations": "iters",
    "aggregated_iterations": "agg_iters",
    "validation": "validation",
    "graph": "graph",
}
_PLACEMENTS = (("out_of_place", False), ("in_place", True))


def _recognises(text: LogText) -> bool:
    begins = text.head.lstrip()[:1] in ("{", "[")
    return (
        begins and text.contains(b'"nccl_version"', b'"rccl_version"', b'"alg_bw"') and text.contains(b'"start_time"')
    )


def _read(text: LogText, options: ReadOptions) -> Results | None:
    whole = text.whole()
    parts = []
    for document, start, is_whole in load_documents(whole):
        for run in document if isinstance(document, list) else [document]:
            if isinstance(run, dict) and "start_time" in run:
                reader = _Reader(run, text.name, whole, start, is_whole)
                parts.append(build(reader.table, conclude(reader.table, options)))
    if not parts:
        raise FileError(f"{text.name}: begins as the JSON of nccl-tests, but is not JSON that can be read")
    return parts[0] if len(parts) == 1 else merge_runs(parts)


class _Reader:
    def __init__(self, document: Mapping[str, Any], file: str, whole: str, start: int, is_whole: bool) -> None:
        self.first_line = whole.count("\n", 0, start) + 1
        table = self.table = Table(file, self.first_line, has_redop=True, has_root=True)
        table.tool = "rccl-tests" if "rccl_version" in document else "nccl-tests"
        table.started = str(document.get("start_time", "")).replace(" ", "T")[:40]
        version = document.get("nccl_version", document.get("rccl_version"))
        if isinstance(version, int):
            table.settings["nccl_version"] = version
        self.arguments(_list(document.get("args")))
        self.environment(_list(document.get("env")))
        self.config(_object(document.get("config")))
        self.rows(_list(document.get("results")), whole, start)
        self.footer(document)
        if not is_whole:
            table.failure = "the file ends in the middle: the run was aborted, or is still going on"
        elif not table.complete:
            table.failure = "the run was aborted before its last row"
        for error in _list(document.get("errors"))[:3]:
            if isinstance(error, str) and error.strip():
                table.notes.append(f"the tool's error: {' '.join(error.split())[:200]}")
                table.failure = table.failure or table.notes[-1]

    def arguments(self, args: list[Any]) -> None:
        match = _TEST.search(args[0]) if args and isinstance(args[0], str) else None
        if match is not None:
            self.table.titled = match[1]

    def environment(self, env: list[Any]) -> None:
        for entry in env:
            name, _, value = str(entry)[:200].partition("=")
            if name in VARIABLES:
                self.table.settings[name] = value[:80]
                if name in COMPARED:
                    self.table.labels[name] = value[:80]

    def config(self, config: Mapping[str, Any]) -> None:
        for key, name in _CONFIG.items():
            value = config.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                self.table.settings[name] = value
        if config.get("blocking_collectives") == "true":
            self.table.labels["mode"] = "blocking"
        devices = [device for device in _list(config.get("devices")) if isinstance(device, dict)]
        if not devices:
            return
        # One entry a process: each has nthreads x ngpus ranks, of which only the first is listed.
        groups: dict[Any, int] = {}
        for device in devices:
            group = str(device.get("group"))
            groups[group] = groups.get(group, 0) + 1
        of_process = (_count(config.get("nthreads")) or 1) * (_count(config.get("ngpus")) or 1)
        ranks = max(groups.values()) * of_process
        self.table.ranks = ranks if ranks <= LARGEST_WORLD else 0
        hosts = {str(device.get("hostname")) for device in devices}
        self.table.environment["hosts"] = len(hosts)
        name = str(devices[0].get("device_info") or "").strip()
        if name:
            self.table.environment["device"] = name[:80]

    def rows(self, results: list[Any], whole: str, position: int) -> None:
        line = self.first_line
        for row in results:
            found = whole.find('"size"', position)
            if found >= 0:
                line += whole.count("\n", position, found)
                position = found + 1
            if not isinstance(row, dict):
                self.table.unreadable.add(line, str(row), "it is no object")
                continue
            for key, in_place in _PLACEMENTS:
                placement = row.get(key)
                if placement is None:
                    continue
                half = _half(row, placement, line, in_place) if isinstance(placement, dict) else "it is no object"
                if isinstance(half, str):
                    self.table.unreadable.add(line, json.dumps({key: placement, "size": row.get("size")})[:200], half)
                    continue
                self.table.halves.append(half)
                samples = _samples(row.get(f"{key}_per_iter"))
                if samples is not None:
                    self.table.samples[len(self.table.halves) - 1] = samples
            if not any(row.get(key) is not None for key, _ in _PLACEMENTS):
                self.table.notes.append(f"the row of {row.get('size')} bytes has no time: the run ended there")

    def footer(self, document: Mapping[str, Any]) -> None:
        wrong = _object(document.get("out_of_bounds"))
        count = wrong.get("count")
        if isinstance(count, int) and not isinstance(count, bool):
            self.table.out_of_bounds = (count, "OK" if str(wrong.get("okay")).lower() == "true" else "FAILED")
        average = _object(document.get("average_bus_bandwidth", document.get("average_bus_bandwidith")))
        self.table.average = _number(average.get("bandwidth", average.get("bandwidith")))


def _half(row: Mapping[str, Any], placement: Mapping[str, Any], line: int, in_place: bool) -> Half | str:
    size, count = row.get("size"), row.get("count")
    if not _is_size(size) or not _is_size(count):
        return "size and count are not whole numbers from 0 to 2^63"
    kind = next((key for key in ("time", "cpu_time") if key in placement), None)
    time_us = _number(placement.get(kind)) if kind is not None else None
    if kind is None or time_us is None or time_us < 0 or time_us * 1e-6 > MOST_TIME_S:
        return "its time is not a number"
    if time_us * 1e-6 < LEAST_TIME_S:
        return "its time is 0, so no rate follows from it"
    extras: dict[str, str] = {}
    if kind == "cpu_time":
        extras["cputime"] = str(placement[kind])
    hip_event = _number(placement.get("hip_event_time"))
    if hip_event is not None and hip_event >= 0:
        extras["hipevt"] = f"{hip_event:g}"
    statistics = _object(row.get(f"{'in' if in_place else 'out_of'}_place_per_iter"))
    for key, name in (("min_us", "i_min"), ("max_us", "i_max"), ("p99_us", "i_p99"), ("cv_pct", "i_cv%")):
        value = _number(statistics.get(key))
        if value is not None:
            extras[name] = f"{value:g}"
    for name in ("algo", "proto", "nchannels"):
        if isinstance(row.get(name), (str, int)) and str(row[name]).strip():
            extras[name] = str(row[name]).strip()[:40]
    root = whole_number(str(row.get("root", "")).strip())
    redop = row.get("redop")
    return Half(
        line=line,
        size=int(size),  # type: ignore[arg-type]
        count=int(count),  # type: ignore[arg-type]
        dtype=dtype_name(str(row.get("type", "")).strip()),
        redop=redop.strip()[:20] if isinstance(redop, str) else "",
        root=root if root is not None and -1 <= root < 2**31 else None,
        in_place=in_place,
        time_s=time_us * 1e-6,
        time_slack_s=0.5e-12,
        algbw=_number(placement.get("alg_bw")),
        busbw=_number(placement.get("bus_bw")),
        algbw_slack=0.5e-6,
        busbw_slack=0.5e-6,
        check=_number(placement.get("nwrong")),
        is_count=True,
        extras=extras,
    )


def _samples(per_iteration: Any) -> Samples | None:
    """The times of single calls: of each process where they are there, else the largest over all."""
    if not isinstance(per_iteration, dict):
        return None
    rows = per_iteration.get("per_process_max_times_us")
    rows = rows if isinstance(rows, list) and rows else [per_iteration.get("times_us")]
    times = []
    for row in rows:
        values = [_number(value) for value in row] if isinstance(row, list) else []
        if not values or any(value is None or value < 0 for value in values):
            return None
        times.append(tuple(value * 1e-6 for value in values if value is not None))
    return Samples(1, tuple(times)) if len({len(row) for row in times}) == 1 else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e300 and math.isfinite(value) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST_WORLD else None


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_SIZE


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


_DOCUMENT = re.compile(r"[{\[]")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*("?)|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


def load_documents(text: str) -> Iterator[tuple[Any, int, bool]]:
    """Each JSON document of a text, where it begins, and whether it is whole."""
    decoder = json.JSONDecoder()
    position = 0
    while (match := _DOCUMENT.search(text, position)) is not None:
        start = match.start()
        try:
            document, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            document = load_cut_json(text[start:])
            if document is not None:
                yield document, start, False
            return
        yield document, start, True


def load_cut_json(text: str) -> Any:
    """Of a JSON document that ends in the middle, all of it up to its last whole value; None when there is nothing."""
    closers: list[str] = []
    end, ending = 0, ""
    after_key = False
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token[0] == '"' and not match[1]:
            break  # the string is cut
        if token in "{[":
            if len(closers) > 50:
                return None
            closers.append("}" if token == "{" else "]")
            end, ending, after_key = match.end(), "".join(reversed(closers)), False
        elif token in "}]":
            if not closers or closers.pop() != token:
                break
            end, ending, after_key = match.end(), "".join(reversed(closers)), False
            if not closers:
                break
        elif token == ":":
            after_key = True
        elif token == ",":
            after_key = False
        elif closers and (after_key or closers[-1] == "]"):
            # A number at the very end may have lost digits.
            if match.end() < len(text) or token[0] == '"':
                end, ending = match.end(), "".join(reversed(closers))
            after_key = False
    try:
        return json.loads(text[:end] + ending)
    except (ValueError, RecursionError):
        return None


FORMAT = FileFormat("nccl_tests_json", "nccl-tests and rccl-tests JSON (-J)", _recognises, _read, "document")
