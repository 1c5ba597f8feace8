"""PyTorch profiler traces (Kineto, Chrome trace JSON): their collectives -> Trace.

Facts of the format, which are torch's (`record_param_comms`) and Kineto's:
- sizes are in elements, of one rank's input and output; S is the larger side, the whole tensor;
- one collective is up to four events: what it was comes from the CPU's record, its time from the kernel, joined by their
  External id; a kernel whose record lies before the window has its own metadata, or only a name;
- traces of 2022 and 2023 have no metadata: sizes then come from `record_shapes`, or are not known;
- with gloo there are only `c10d::*` (the call) and `gloo:*` (its worker's work);
- a kernel's name proves neither algorithm nor protocol; its duration includes waiting for the slowest rank.

Events are found by their names in the bytes of the file, without parsing the rest, which is most of it.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from busbw.core.call import UNKNOWN_COLLECTIVE, Call
from busbw.core.dtype import DTYPES
from busbw.core.trace import CallKind, Group, Mark, RecordedCall, Trace
from busbw.errors import FileError
from busbw.traces.torch_names import collective_of, dtype_of, elements_of, sent_by, whole_elements

_EVENT = re.compile(
    rb'"name"\s*:\s*"(record_param_comms|nccl[A-Za-z]*Kernel|gloo:|c10d::|ProfilerStep#|Optimizer\.step#|'
    rb"autograd::engine::evaluate_function)"
)
_NOT_TRAFFIC = frozenset(("wait", "init", "coalesced", "groupstart", "groupend"))
_SHARD_OF_ALL = {"allgather_": 1, "gather_": 1, "scatter_": 0, "reduce_scatter_": 0}
_WHOLE = {"_allgather_base_": 0, "_reduce_scatter_base_": 1, "alltoall_base_": 1, "alltoall_": 1}
"""c10d operator -> which of its arguments is a shard (S is N times it), or the whole; the first where it stands in neither."""
_NO_SIZE = {"size": "unknown"}


@dataclass(frozen=True, slots=True)
class _Event:
    name: str
    start_us: float
    duration_us: float
    thread: Any
    category: str
    args: Mapping[str, Any]

    @property
    def key(self) -> Any:
        return self.args.get("External id", self.args.get("external id"))


def is_trace(head: bytes) -> bool:
    """Whether a file that begins so is a Chrome trace."""
    return b'"traceEvents"' in head or b'"schemaVersion"' in head


def read(data: bytes, file_name: str) -> Trace:
    """The collectives of one rank's profile; FileError for what is no profile, or holds none."""
    if b'"traceEvents"' not in data:
        raise FileError(f"{file_name}: not a profiler trace: it has no traceEvents")
    try:
        return _read(data, file_name)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        why = f"{type(error).__name__}: {str(error)[:200]}"
        raise FileError(f"{file_name}: not a profiler trace that is understood ({why})") from error


def _read(data: bytes, file_name: str) -> Trace:
    events = sorted(_events(data), key=lambda event: event.start_us)
    info = _value(data, b"distributedInfo") or {}
    base_s = float(_value(data, b"baseTimeNanoseconds") or 0) / 1e9
    jobs = _Job(info, _value(data, b"host_name"))
    found = list(_with_metadata(events, jobs)) or list(_without(events, jobs))
    if not found:
        raise FileError(
            f"{file_name}: this trace holds no collective: was it taken of a rank that trains, with one process group?"
        )
    found.sort(key=lambda each: each[0])
    steps = [
        event for event in events if event.name.startswith("ProfilerStep#") and event.category != "gpu_user_annotation"
    ]
    phases, starts = _Phases(events), [step.start_us for step in steps]
    calls = []
    for sequence, (called_us, kind, begin, end) in enumerate(found):
        phase = phases.at(called_us[1], called_us[0])
        kind = kind if kind.phase == phase else replace(kind, phase=phase)
        calls.append(
            RecordedCall(
                sequence,
                kind,
                _step(called_us[0], steps, starts),
                base_s + begin / 1e6,
                None if end is None else base_s + end / 1e6,
            )
        )
    segments = sorted({call.segment for call in calls})
    unknown = sum(call.kind.notes.get("size") == "unknown" for call in calls)
    untimed = sum(call.end_s is None for call in calls)
    notes = [f"{unknown} of {len(calls)} calls have no size in this trace, and count 0 bytes"] if unknown else []
    if untimed:
        notes.append(f"{untimed} of {len(calls)} calls have no kernel in this trace, and so no time")
    return Trace(
        rank=jobs.rank,
        world_size=jobs.world_size,
        calls=tuple(calls),
        marks=tuple(Mark("optimizer", 0, segment, 0.0, 0) for segment in segments),
        facts={
            "host": jobs.host, "clock": "profiler", "backend": str(info.get("backend", "")),
            "first_step": segments[0] if steps else 2, "file": file_name,
        },
        notes=tuple(f"{file_name}: {note}" for note in notes),
    )  # fmt: skip


class _Job:
    """What the trace says of the job: rank, world, groups by name."""

    def __init__(self, info: Mapping[str, Any], host: Any) -> None:
        self.rank = int(info.get("rank", 0))
        self.world_size = int(info.get("world_size", 0))
        self.host = str(host or "?")
        self.groups = {
            str(group.get("pg_name")): tuple(int(rank) for rank in group.get("ranks", ()))
            for group in info.get("pg_config", ())
        }
        self.backend = str(info.get("backend", ""))

    def group(self, args: Mapping[str, Any]) -> tuple[Group, int]:
        """The group of an event with metadata, and its size."""
        size = int(args.get("Group size", 0))
        ranks = _numbers(args.get("Process Group Ranks"))
        if ranks is None or len(ranks) != size:  # lists are cut at 30
            ranks = self.groups.get(str(args.get("Process Group Name")), ())
            start, stride = args.get("Global rank start"), args.get("Global rank stride")
            if len(ranks) != size and isinstance(start, int) and isinstance(stride, int) and stride > 0:
                ranks = tuple(range(start, start + stride * size, stride))
        about = str(args.get("Process Group Description", ""))
        return Group(self._name(ranks, size, about), tuple(ranks) if len(ranks) == size else (), self.backend), size

    def only_group(self) -> tuple[Group, int]:
        """The group of an event without metadata: known where there is one group only, or one kind of them."""
        sizes = {len(ranks) for ranks in self.groups.values()} or ({self.world_size} if self.world_size else set())
        if sizes == {self.world_size}:
            return Group("world", tuple(range(self.world_size)), self.backend), self.world_size
        return Group("unknown", (), self.backend), 0

    def _name(self, ranks: Sequence[int], size: int, about: str) -> str:
        if size == self.world_size:
            return "world"
        if about.startswith("mesh_"):
            return about.removeprefix("mesh_")
        return f"ranks {','.join(map(str, ranks))}" if len(ranks) == size else f"a group of {size}"


_Found = tuple[tuple[float, Any], CallKind, float, float | None]
"""((when it was called, on which thread), what, start, end), in microseconds."""


def _with_metadata(events: Sequence[_Event], job: _Job) -> Iterator[_Found]:
    kernels: dict[Any, list[_Event]] = {}
    for event in events:
        if event.category == "kernel" and event.name.startswith("nccl"):
            kernels.setdefault(event.key, []).append(event)
    records = [event for event in events if event.name == "record_param_comms" and "Collective name" in event.args]
    seen = set()
    for event in records:
        name = str(event.args["Collective name"])
        if name.lower() in _NOT_TRAFFIC:
            continue
        seen.add(event.key)
        own = kernels.get(event.key, [])
        begin = min((kernel.start_us for kernel in own), default=event.start_us)
        end = max((kernel.start_us + kernel.duration_us for kernel in own), default=None)
        yield (event.start_us, event.thread), _kind(name, event.args, job), begin, end
    if not records:
        return
    for key, own in kernels.items():  # launched before the window: the kernel may still know what it is
        if key not in seen:
            for kernel in own:
                if "Collective name" in kernel.args:
                    kind = _kind(str(kernel.args["Collective name"]), kernel.args, job)
                    yield (kernel.start_us, None), kind, kernel.start_us, kernel.start_us + kernel.duration_us


def _kind(name: str, args: Mapping[str, Any], job: _Job) -> CallKind:
    group, size = job.group(args)
    collective = collective_of(name)
    dtype = dtype_of(args.get("dtype"))
    given, taken = (int(args.get(key, 0) or 0) for key in ("In msg nelems", "Out msg nelems"))
    elements = whole_elements(collective, given, taken, size)
    notes: dict[str, str] = {}
    if dtype is None and collective != "barrier":
        notes = dict(_NO_SIZE)
    size_bytes = 0 if dtype is None else elements * DTYPES[dtype].itemsize
    splits = _numbers(args.get("In split size")) or ()
    place = group.ranks.index(job.rank) if job.rank in group.ranks else 0
    own = splits[place] * size_bytes // max(sum(splits), 1) if len(splits) == size and size else None
    if own is not None and len(set(splits)) > 1:
        collective = "all_to_all_v"
    peer = args.get("Dst Rank") if "send" in name.lower() else args.get("Src Rank")
    if collective == "send_recv_one_way" and peer is not None:
        notes["peer"] = str(peer)
    sent = sent_by(collective, size_bytes, size, place, name) if own is None else size_bytes - own
    n = 2 if collective == "send_recv_one_way" else size
    op = "send" if name.lower().startswith("send") else name
    return CallKind(op, Call(collective, size_bytes, n, dtype), group, sent, notes=notes)


def _without(events: Sequence[_Event], job: _Job) -> Iterator[_Found]:
    """Traces whose records say nothing: c10d's operators in their order, with the kernels or gloo's work in theirs."""
    operators = [
        event for event in events if event.name.startswith("c10d::") and collective_of(event.name) != UNKNOWN_COLLECTIVE
    ]
    work = [event for event in events if event.name.startswith("gloo:")]
    kernels = [event for event in events if event.category == "kernel" and event.name.startswith("nccl")]
    queues: dict[str, deque[_Event]] = {}
    for event in work:
        queues.setdefault(collective_of(event.name), deque()).append(event)
    in_order = deque(kernels if not work and len(kernels) == len(operators) else ())
    if not operators:
        group, size = job.only_group()
        for kernel in kernels:
            collective = collective_of(kernel.name.partition("_")[2])
            kind = CallKind("kernel", Call(collective, 0, size), group, 0, notes=_NO_SIZE)
            yield (kernel.start_us, None), kind, kernel.start_us, kernel.start_us + kernel.duration_us
        return
    for event in operators:
        queue = in_order if in_order else queues.get(collective_of(event.name), deque())
        done = queue.popleft() if queue else None
        begin = event.start_us if done is None or work else done.start_us
        end = None if done is None else done.start_us + done.duration_us
        yield (event.start_us, event.thread), _kind_by_shapes(event, done, job), begin, end


def _kind_by_shapes(event: _Event, done: _Event | None, job: _Job) -> CallKind:
    group, size = job.only_group()
    op = event.name.removeprefix("c10d::")
    collective = collective_of(op)
    shapes, types = event.args.get("Input Dims", ()), event.args.get("Input type", event.args.get("Input types", ()))
    at = _SHARD_OF_ALL.get(op, _WHOLE.get(op, 0))
    elements = elements_of(shapes[at]) if len(shapes) > at else None
    dtype = dtype_of(types[at]) if len(types) > at else None
    if dtype is None and done is not None:
        dtype = dtype_of(next(iter(done.args.get("Input type", ())), None))
    notes: dict[str, str] = {}
    size_bytes = 0
    if elements is None or dtype is None or (op in _SHARD_OF_ALL and not size):
        if collective != "barrier":
            notes = dict(_NO_SIZE)
    else:
        size_bytes = elements * DTYPES[dtype].itemsize * (size if op in _SHARD_OF_ALL else 1)
    if not size:
        notes["group"] = "unknown"
    root = _root(event.args.get("Concrete Inputs", ()), op)
    place = job.rank if job.rank < size else 0
    sent = sent_by(collective, size_bytes, size, place, op, root or 0)
    n = 2 if collective == "send_recv_one_way" else size
    return CallKind(op, Call(collective, size_bytes, n, dtype, root=root), group, sent, notes=notes)


def _root(inputs: Sequence[Any], op: str) -> int | None:
    at = {"broadcast_": 2, "reduce_": 3, "gather_": 3, "scatter_": 3}.get(op)
    word = str(inputs[at]) if at is not None and len(inputs) > at else ""
    return int(word) if word.isdigit() else None


def _numbers(text: Any) -> tuple[int, ...] | None:
    """The list in a text such as "[0, 1]"; None when it is cut ("...")."""
    if isinstance(text, list):
        return tuple(int(each) for each in text)
    words = str(text or "").strip("[] ")
    if "..." in words:
        return None
    return tuple(int(word) for word in words.split(",") if word.strip().lstrip("-").isdigit())


def _step(at_us: float, steps: Sequence[_Event], starts: Sequence[float]) -> int:
    """The number of the profiler's step that a call was made in; the first for what lies before."""
    return int(steps[max(bisect_right(starts, at_us) - 1, 0)].name.partition("#")[2]) if steps else 0


class _Phases:
    """backward on the threads of the autograd engine, optimizer inside its step, other where nothing tells."""

    def __init__(self, events: Sequence[_Event]) -> None:
        self._spans = {
            name: _spans(event for event in events if event.name.startswith(prefix))
            for name, prefix in (("optimizer", "Optimizer.step#"), ("backward", "autograd::"))
        }
        program = {event.thread for event in events if event.name.startswith(("ProfilerStep#", "Optimizer.step#"))}
        self._engine = set(self._spans["backward"]) - program

    def at(self, thread: Any, at_us: float) -> str:
        """The phase of a call that a thread made at this time."""
        for name, threads in self._spans.items():
            spans = threads.get(thread, [])
            index = bisect_right(spans, (at_us, math.inf)) - 1
            if index >= 0 and at_us <= spans[index][1]:
                return name
        return "backward" if thread in self._engine else "other"


def _spans(events: Iterable[_Event]) -> dict[Any, list[tuple[float, float]]]:
    """By thread, the times that events cover; those that overlap are one."""
    spans: dict[Any, list[tuple[float, float]]] = {}
    for event in events:  # by their start
        mine, end = spans.setdefault(event.thread, []), event.start_us + event.duration_us
        if mine and event.start_us <= mine[-1][1]:
            mine[-1] = (mine[-1][0], max(mine[-1][1], end))
        else:
            mine.append((event.start_us, end))
    return spans


def _events(data: bytes) -> Iterator[_Event]:
    decoder = json.JSONDecoder()
    for match in _EVENT.finditer(data):
        start = data.rfind(b"{", 0, match.start())
        window = 1 << 14
        while True:
            try:
                event, _ = decoder.raw_decode(data[start : start + window].decode("utf-8", "replace"))
                break
            except ValueError:
                if start + window >= len(data) or window > 1 << 24:
                    event = None
                    break
                window *= 8
        if isinstance(event, dict) and event.get("ph") == "X" and isinstance(event.get("ts"), int | float):
            args = event.get("args")
            yield _Event(
                str(event.get("name")),
                float(event["ts"]),
                float(event.get("dur", 0) or 0),
                event.get("tid"),
                str(event.get("cat", "")).lower(),
                args if isinstance(args, dict) else {},
            )


def _value(data: bytes, key: bytes) -> Any:
    """A value of the file's own keys, which stand before or after its events."""
    match = re.search(rb'"' + key + rb'"\s*:\s*', data)
    if match is None:
        return None
    try:
        return json.JSONDecoder().raw_decode(data[match.end() : match.end() + (1 << 20)].decode("utf-8", "replace"))[0]
    except ValueError:
        return None


def unpack(data: bytes, file_name: str) -> bytes:
    """The bytes of a file that may be packed with gzip; FileError where it is damaged."""
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{file_name}: cannot be unpacked: {error}") from error
