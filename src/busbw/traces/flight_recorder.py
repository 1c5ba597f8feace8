"""Dumps of torch's flight recorder, as JSON: the last collectives of a rank, for a job that hangs -> Trace.

They are in torch's own memory all the time (`torch._C._distributed_c10d._dump_fr_trace_json()`; NCCL's:
`_dump_nccl_trace_json()`), so a job that was not captured can still be read. On gloo calls have no duration. Dumps that torch
writes by itself are pickles, which run code when they are loaded: they are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from busbw.core.call import UNKNOWN_COLLECTIVE, Call
from busbw.core.dtype import DTYPES
from busbw.core.trace import CallKind, Group, Mark, RecordedCall, Trace
from busbw.errors import FileError
from busbw.traces.torch_names import collective_of, dtype_of, elements_of, sent_by, whole_elements

PICKLE = (
    "a pickle, which can run code when it is loaded, so it is not read; write the flight recorder as JSON: "
    "torch._C._distributed_c10d._dump_fr_trace_json() (or _dump_nccl_trace_json()) returns its bytes"
)


def is_dump(data: bytes) -> bool:
    """Whether a JSON text is a dump."""
    return b'"entries"' in data and b'"profiling_name"' in data and b'"traceEvents"' not in data


def read(data: bytes, file_name: str) -> Trace:
    """The calls of one rank's dump; FileError where it breaks the format."""
    try:
        dump = json.loads(data)
        entries = dump["entries"]
        groups = {str(key): _ranks(value) for key, value in (dump.get("pg_config") or {}).items()}
        rank = _rank(dump, file_name)
        calls = [_call(number, entry, groups, rank) for number, entry in enumerate(entries)]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(
            f"{file_name}: not a flight recorder's dump ({type(error).__name__}: {str(error)[:200]})"
        ) from error
    if not calls:
        raise FileError(f"{file_name}: the flight recorder holds no call")
    notes = []
    if not groups:
        notes.append(
            f"{file_name}: this dump does not list the groups' ranks, so N is not known, nor what a rank sends"
        )
    open_calls = [call for call, entry in zip(calls, entries, strict=True) if entry.get("state") == "started"]
    notes += [
        f"{file_name}: call {call.sequence} ({call.kind.op}) had started and not ended" for call in open_calls[:5]
    ]
    world = max((len(ranks) for ranks in groups.values()), default=0)
    return Trace(
        rank=rank,
        world_size=max(world, rank + 1),
        calls=tuple(calls),
        marks=(Mark("optimizer", 0, 0, 0.0, 0),),
        facts={"host": "?", "file": file_name, "first_step": 2, "version": str(dump.get("version", ""))},
        notes=tuple(notes),
    )


def _call(number: int, entry: Mapping[str, Any], groups: Mapping[str, tuple[int, ...]], rank: int) -> RecordedCall:
    name = str(entry["profiling_name"])
    collective = collective_of(name)
    given, taken = elements_of(entry["input_sizes"]), elements_of(entry["output_sizes"])
    dtypes = {str(each) for each in (*entry.get("input_dtypes", ()), *entry.get("output_dtypes", ()))}
    dtype = dtype_of(dtypes.pop()) if len(dtypes) == 1 else None
    group, about = (str(each) for each in (*entry["process_group"], "")[:2])
    ranks = groups.get(group, ())
    name_of_group = "world" if about == "default_pg" else about.removeprefix("mesh_") or f"group {group}"
    n = 2 if collective == "send_recv_one_way" else len(ranks)
    told = given is not None or taken is not None
    known = dtype is not None and told and (n > 0 or collective not in ("gather", "scatter"))
    elements = whole_elements(collective, given or 0, taken or 0, n)
    size_bytes = elements * DTYPES[dtype].itemsize if known and dtype is not None else 0
    place = ranks.index(rank) if rank in ranks else 0
    begin, end = entry.get("time_discovered_started_ns") or 0, entry.get("time_discovered_completed_ns") or 0
    created = int(entry["time_created_ns"])
    notes = {} if known or collective in ("barrier", UNKNOWN_COLLECTIVE) else {"size": "unknown"}
    kind = CallKind(
        name,
        Call(collective, size_bytes, n, dtype),
        Group(name_of_group, ranks, name.partition(":")[0]),
        sent_by(collective, size_bytes, n, place, name.partition(":")[2]),
        call_site=_site(entry.get("frames", ())),
        notes=notes,
    )
    return RecordedCall(number, kind, 0, (begin or created) / 1e9, end / 1e9 if end else None)


def _site(frames: Any) -> str:
    """The innermost frame outside torch; dumps have the innermost first."""
    for frame in frames:
        file = str(frame.get("filename", ""))
        if file and "/torch/" not in file and not file.startswith("<"):
            return f"{file}:{frame.get('line', '?')} {frame.get('name', '')}"
    return ""


def _ranks(value: Any) -> tuple[int, ...]:
    ranks = value.get("ranks", "") if isinstance(value, dict) else value
    return tuple(int(word) for word in re.findall(r"\d+", str(ranks)))


def _rank(dump: Mapping[str, Any], file_name: str) -> int:
    """The dump's own word, or the number at the end of the file's name, as torch writes them."""
    if isinstance(dump.get("rank"), int):
        return int(dump["rank"])
    match = re.search(r"(\d+)(?:\.json)?$", file_name)
    return int(match[1]) if match else 0
