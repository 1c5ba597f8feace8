"""Records the calls of one rank: the part that runs inside the program's own calls, so every line here is paid for.

A call is looked up by what distinguishes it; only a kind that was never seen before is described in words. What is
appended for each call is a list of five numbers. Nothing here may raise into the program, and nothing communicates.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from busbw.core.call import Call
from busbw.core.collective import COLLECTIVES
from busbw.core.trace import CallKind, Group, Mark, RecordedCall, Trace
from busbw.traces.live._ops import DTYPE_NAMES, NO_ROOT, Key, Op
from busbw.traces.live._place import Places, site_words
from busbw.traces.live._steps import StepHooks
from busbw.traces.writer import FULL, Writer, call_line

_REDOPS = {"product": "prod", "premul_sum": "premul_sum"}
_OWN = str(Path(__file__).resolve().parents[2])


class _GroupState:
    """What is known of a process group; `ref` tells whether its id still means it."""

    __slots__ = ("described", "id", "rank", "ref", "size")

    def __init__(self, group: Any, number: int) -> None:
        self.ref = weakref.ref(group)
        self.id = number
        self.size = int(group.size())
        self.rank = int(group.rank())
        self.described = _describe(group)


class Recorder:
    """Records what `called` is told, into memory, and into files where a writer is given.

    `steps` keeps only the calls of those training steps (a range), and everything when it is None.
    """

    def __init__(self, writer: Writer | None = None, steps: range | None = None) -> None:
        from torch._C import _current_graph_task_id
        from torch._C._distributed_c10d import ProcessGroup

        self._unbox = ProcessGroup.unbox
        self._graph_task = _current_graph_task_id
        self._places = Places(_OWN)
        self.hooks = StepHooks(self.mark)
        self._writer = writer
        self._sequence = count()
        self._next = 0
        self._live = _LiveSteps(steps)
        self._written = [0, 0, 0]  # groups, kinds, marks that are in the file
        self._unended: list[list[Any]] = []
        self._last_flush_ns = time.perf_counter_ns()
        self._groups: dict[int, _GroupState] = {}
        self._group_words: list[Group] = []
        self._kinds: dict[tuple[Any, ...], int] = {}
        self._kind_words: list[tuple[CallKind, int]] = []
        self._calls: list[list[Any]] = []
        self._marks: list[Mark] = []
        self._lock = threading.Lock()
        self._segment = 0
        self._started = False
        self._stepped = False
        self._task = -1
        self._bucket = 0
        self.lost = 0
        self.first_error = ""
        self.rank = int(os.environ.get("RANK", 0))
        self.world_size = int(os.environ.get("WORLD_SIZE", 1))

    # --- what runs in every call -------------------------------------------------------------------------------------

    def called(self, op: Op, at: dict[str, int], args: Sequence[Any]) -> list[Any] | None:
        """Note one call of an operator; returns its record, in which element 4 is for the end, or None."""
        if not self._live.wanted:
            self._passed_over()
            return None
        start = time.perf_counter_ns()
        group = self._unbox(args[at["process_group"]])
        state = self._groups.get(id(group))
        if state is None or state.ref() is not group:
            state = self._new_group(group)
        key = op.read(args, at)
        task = self._graph_task()
        optimizing = self.hooks.depth > 0
        frame = sys._getframe(2)
        spot = self._places.find(frame, not optimizing)
        in_forward, module, name, code, instruction, redop = spot
        if task >= 0:
            self._started = True
            if self._stepped:
                self._begin_segment()
            if op.reduces and not name and module is None:
                name = self._bucket_name(task, op, key, frame)
        phase = (
            "optimizer"
            if optimizing
            else "backward"
            if task >= 0
            else "forward"
            if in_forward
            else "other"
            if self._started
            else "constructor"
        )
        known = (op.name, state.id, key, phase, id(module), name, code, instruction, redop)
        kind = self._kinds.get(known)
        if kind is None:
            kind = self._new_kind(known, op, state, key, phase, spot, name, frame)
        sequence = next(self._sequence)
        self._next = sequence + 1
        record = [sequence, kind, self._segment, start, None]
        calls = self._calls
        calls.append(record)
        if len(calls) >= FULL and self._writer is not None:
            self.flush()
        return record

    def failed(self, error: BaseException) -> None:
        """A call could not be recorded: count it, keep the first reason, and let the program go on."""
        self.lost += 1
        if not self.first_error:
            self.first_error = f"{type(error).__name__}: {error}"

    # --- what runs seldom --------------------------------------------------------------------------------------------

    def mark(self, what: str, optimizer: int | None = None) -> None:
        """A first forward pass, the end of an optimizer's step, or a step that the program itself marks."""
        if what == "optimizer":
            self._stepped = True
        elif what == "forward" and self._stepped:
            self._begin_segment()
            return
        self._started = True
        self._note_mark(what, optimizer)
        if what != "forward":
            self.flush()

    def _begin_segment(self) -> None:
        self._stepped = False
        self._segment += 1
        self._note_mark("forward", None)

    def _passed_over(self) -> None:
        """A call of a step that is not wanted: only its number counts, and that training has begun."""
        self._next = next(self._sequence) + 1
        if self._graph_task() >= 0:
            self._started = True
            if self._stepped:
                self._begin_segment()

    def _note_mark(self, what: str, optimizer: int | None) -> None:
        self._live.note(what, optimizer)
        self._marks.append(Mark(what, self._next, self._segment, time.perf_counter_ns() / 1e9, optimizer))

    def _bucket_name(self, task: int, op: Op, key: Key, frame: Any) -> str:
        """The reducer of DistributedDataParallel calls from C++, where no Python frame tells the bucket: count them."""
        if task != self._task:
            self._task, self._bucket = task, 0
        if not str(key[1]).startswith(("torch.float", "torch.bfloat", "torch.double", "torch.half")):
            return "used parameters"
        self._bucket += 1
        return f"bucket {self._bucket - 1}"

    def _new_group(self, group: Any) -> _GroupState:
        with self._lock:
            state = _GroupState(group, len(self._group_words))
            if not self._group_words:
                self._meet_the_job()
            for number, known in enumerate(self._group_words):
                if known == state.described:
                    state.id = number
                    break
            else:
                self._group_words.append(state.described)
            self._groups[id(group)] = state
            return state

    def _meet_the_job(self) -> None:
        import torch.distributed as dist

        if dist.is_initialized():
            self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.open()

    def _new_kind(
        self, known: tuple[Any, ...], op: Op, state: _GroupState, key: Key, phase: str, spot: Any, name: str, frame: Any
    ) -> int:
        _, module, _, code, instruction, redop = spot
        size, dtype, root, splits = key
        if splits == "shard":
            size, splits = size * state.size, None
        notes: dict[str, str] = {}
        collective = op.collective
        if splits is not None and collective == "all_to_all":
            collective = "all_to_all_v"
        peer_call = collective == "send_recv_one_way"
        if peer_call:
            sent = size if op.name == "send" else 0
            notes["peer"] = str(self._world_rank(state, root)) if root != NO_ROOT else "any"
            phase = _pipeline_phase(name, op.name, phase)
        elif collective == "all_to_all_v":
            sent = size - (splits[state.rank] if splits else 0)
        else:
            sent = COLLECTIVES.get(collective).sent_bytes(size, state.size, state.rank, max(root, 0))
        reduction = None
        if op.reduces:
            reduction = _redop_name(redop) or ("sum" if name.startswith(("bucket", "used")) else None)
        if not name and module is not None:
            name = self._places.name(module, frame)
        dtype_name = None if dtype is None else str(dtype).removeprefix("torch.")
        dtype_name = None if dtype_name is None else DTYPE_NAMES.get(dtype_name, dtype_name)
        try:
            call = Call.from_json(
                {
                    "collective": collective,
                    "size_bytes": size,
                    "world_size": 2 if peer_call else state.size,
                    "dtype": dtype_name,
                    "redop": reduction,
                    "root": None if root == NO_ROOT or peer_call else root,
                }
            )
        except Exception:  # an element type that has no name here: its bytes count all the same
            notes["dtype"] = str(dtype)
            call = Call(collective, size, 2 if peer_call else state.size, None, reduction, None if root < 0 else root)
        words = CallKind(
            op=op.name,
            call=call,
            group=state.described,
            sent_bytes=sent,
            phase=phase,
            module=name,
            call_site=site_words(code, instruction),
            notes=notes,
        )
        with self._lock:
            self._kind_words.append((words, state.id))
            self._kinds[known] = number = len(self._kind_words) - 1
            return number

    def _world_rank(self, state: _GroupState, rank: int) -> int:
        return state.described.ranks[rank] if rank < len(state.described.ranks) else rank

    # --- the file ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin the file, once the rank is known."""
        if self._writer is not None and self._writer.path is None:
            self._writer.open(self.rank, self.world_size)

    def flush(self) -> None:
        """Write what is buffered: what is new of groups, kinds and marks, the calls, and ends of calls written before."""
        writer = self._writer
        if writer is None or writer.path is None:
            return
        with self._lock:
            self._last_flush_ns = time.perf_counter_ns()
            calls, self._calls = self._calls, []
            groups, kinds, marks = self._group_words, self._kind_words, self._marks
            lines = [
                _json({"type": "group", "id": number, **groups[number].to_json()})
                for number in range(self._written[0], len(groups))
            ]
            lines += [
                _json({"type": "kind", "id": number, "group_id": kinds[number][1], **kinds[number][0].to_json()})
                for number in range(self._written[1], len(kinds))
            ]
            lines += [_mark_line(marks[number]) for number in range(self._written[2], len(marks))]
            self._written = [len(groups), len(kinds), len(marks)]
            lines += [call_line(record) for record in calls]
            lines += [f"[{record[0]},{record[4]}]" for record in self._unended if record[4] is not None]
            self._unended = [record for record in (*self._unended, *calls) if record[4] is None][-FULL:]
            writer.write(lines)

    def flush_if_old(self, age_ns: int) -> None:
        """Flush when there is something and the last flush is that long ago."""
        if time.perf_counter_ns() - self._last_flush_ns >= age_ns and (self._calls or self._unended):
            self.flush()

    def close(self, why: str) -> None:
        """The last flush and the line that says that nothing is missing."""
        writer = self._writer
        if writer is None or writer.path is None:
            return
        self.flush()
        end = {"type": "end", "calls": self._next, "lost": self.lost, "why": why}
        if self.first_error:
            end["error"] = self.first_error
        writer.write([_json(end)])
        writer.close()

    # --- what comes out ----------------------------------------------------------------------------------------------

    def trace(self) -> Trace:
        """Everything that was recorded in memory."""
        calls = tuple(
            RecordedCall(sequence, self._kind_words[kind][0], segment, start / 1e9, None if end is None else end / 1e9)
            for sequence, kind, segment, start, end in sorted(self._calls)
        )
        return Trace(self.rank, self.world_size, calls, tuple(self._marks), lost=self.lost)


class _LiveSteps:
    """Which steps are wanted, as far as that can be told while they run.

    With several optimizers, whether a segment begins a step is known at its end, so both are kept; reading cuts exactly.
    """

    def __init__(self, steps: range | None) -> None:
        self._steps = steps
        self._step = 0
        self._seen: set[int | None] = set()
        self._own = False
        self.wanted = steps is None or 0 in steps

    def note(self, what: str, optimizer: int | None) -> None:
        if self._steps is None:
            return
        if what == "step":
            self._step, self._own = (self._step + 1, True) if self._own else (0, True)
        elif what == "optimizer" and not self._own:
            if optimizer in self._seen:
                self._step += 1
                self._seen = set()
            self._seen.add(optimizer)
        self.wanted = self._step in self._steps or (bool(self._seen) and self._step + 1 in self._steps)


def _json(line: Mapping[str, Any]) -> str:
    return json.dumps(line, separators=(",", ":"))


def _mark_line(mark: Mark) -> str:
    line = {"type": "mark", "what": mark.what, "sequence": mark.sequence, "segment": mark.segment}
    return _json({**line, "at_ns": round(mark.at_s * 1e9), "optimizer": mark.optimizer})


def _redop_name(redop: Any) -> str | None:
    """`sum` of ReduceOp.SUM, RedOpType.SUM or "sum"; None for what is not known."""
    if redop is None:
        return None
    word = str(redop.name if hasattr(redop, "name") else getattr(redop, "op", redop)).rpartition(".")[2].lower()
    return _REDOPS.get(word, word)


def _pipeline_phase(name: str, op: str, phase: str) -> str:
    """torch's schedules say "fwd_send_bwd_recv" of a batch: the send is forward's, the receive backward's."""
    way = "send" if op == "send" else "recv"
    if f"fwd_{way}" in name:
        return "forward"
    return "backward" if f"bwd_{way}" in name else phase


def _describe(group: Any) -> Group:
    import torch.distributed as dist

    try:
        ranks = tuple(dist.get_process_group_ranks(group))
    except (KeyError, ValueError, RuntimeError):  # made without new_group, so torch has no list of its ranks
        ranks = ()
    world = dist.get_world_size() if dist.is_initialized() else 0
    about = str(getattr(group, "group_desc", "") or "")
    if len(ranks) == world or (not ranks and int(group.size()) == world):
        name = "world"
    elif about.startswith("mesh_"):
        name = about.removeprefix("mesh_")
    else:
        name = f"ranks {','.join(map(str, ranks))}" if ranks else f"group {group.group_name} of {group.size()}"
    try:
        backend = str(dist.get_backend(group))
    except (ValueError, RuntimeError, KeyError):
        backend = ""
    return Group(name, ranks, backend)
