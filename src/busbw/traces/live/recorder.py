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
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

from busbw.core.trace import CallKind, Group, KindsBySize, Mark, RecordedCall, Trace
from busbw.traces.live._describe import GroupState, Place, describe_call, goes_on, sizes_of, tensors_of
from busbw.traces.live._ops import ArgumentPlaces, Key, Op
from busbw.traces.live._place import Places
from busbw.traces.live._steps import LiveSteps, StepHooks
from busbw.traces.live._times import CPU_TIMES, CudaTimes, Sampling
from busbw.traces.writer import FULL, Writer, call_line

_NO_BUCKET = 1 << 30
_MOST_FOLLOWERS = 4096  # of programs whose sizes never repeat
_clock = time.perf_counter_ns
_OWN = str(Path(__file__).resolve().parents[2])


_Found = tuple[int, tuple[int, ...]]
"""A kind, and (S, bytes sent) where they are not those of its first call."""


class Recorder:
    """Records what `called` is told, into memory, and into files where a writer is given.

    `steps` keeps only the calls of those training steps (a range), and everything when it is None.
    """

    def __init__(self, writer: Writer | None = None, steps: range | None = None, times: str = "sampled") -> None:
        from torch._C import _current_graph_task_id
        from torch._C._distributed_c10d import ProcessGroup, ReduceOp

        self._unbox = ProcessGroup.unbox
        self._premul: Any = ReduceOp
        self._redops: dict[int, Any] = {}  # enumeration members and words, whose hash would cost 0.5 us
        self._graph_task = _current_graph_task_id
        self._places = Places(_OWN)
        self._sampling = Sampling(times, 0 if steps is None else steps.start)
        self._timing = False
        self._checks = Sampling("sampled")
        self._checking = True
        self._cuda_times: CudaTimes | None = None
        self._pid = os.getpid()
        self._on_job: Callable[[int, int], None] | None = None
        self.hooks = StepHooks(self.mark)
        self._running = self.hooks.running
        self._writer = writer
        self._sequence = count()
        self._live = LiveSteps(steps)
        self._wanted = steps is None or 0 in steps
        self._written = [0, 0, 0]  # groups, kinds, marks that are in the file
        self._timed: list[list[Any]] = []  # since the last flush
        self._unended: list[list[Any]] = []  # written without their ends
        self._last_flush_ns = time.perf_counter_ns()
        self._groups: dict[int, GroupState] = {}
        self._group_words: list[Group] = []
        self._kinds: dict[tuple[Any, ...], int] = {}
        self._kind_words: list[tuple[CallKind, int]] = []
        self._kind_modules: list[Any] = []
        self._followers: dict[tuple[Any, ...], _Found] = {}  # a kind, and what is cheap to know of the next -> that one
        self._begun: dict[int, tuple[int, Any]] = {}  # record's id -> device and event before a call on a GPU
        self._previous = -1
        self._scheduled: set[int] = set()  # kinds of calls within a pipeline schedule's step
        self._repeats = True
        self._calls: list[Sequence[Any]] = []  # tuples, and lists of those whose end is to come
        self._marks: list[Mark] = []
        self._lock = threading.Lock()
        self._segment = 0
        self._started = False
        self._stepped = False
        self._task = -1
        self._bucket = 0
        self.lost = 0
        self.first_error = ""
        self.first_untimed = ""
        self.rank = int(os.environ.get("RANK", 0))
        self.world_size = int(os.environ.get("WORLD_SIZE", 1))

    # --- what runs in every call -------------------------------------------------------------------------------------

    def called(self, op: Op, at: ArgumentPlaces, args: Sequence[Any]) -> list[Any] | None:
        """Note one call of an operator; returns its record where it is timed (element 4 is for its end), or None."""
        if self._wanted is False:
            self._passed_over()
            return None
        start = _clock()
        group = self._unbox(args[at.group])
        state = self._groups.get(id(group))
        if state is None or state.ref() is not group:
            state = self._new_group(group)
        key = at.read(args)
        task = self._graph_task()
        if task >= 0 and (self._stepped or not self._started):
            self._backward_begins()
        optimizing = True if self._running else False  # noqa: SIM210 - half the time of bool()
        frame = sys._getframe(1).f_back
        redop, bucket = None, -1
        if op.reduces:
            argument = None if frame is None else self._places.redop_arguments.get(id(frame.f_code))
            if argument is not None:
                redop = frame.f_locals.get(argument)  # type: ignore[union-attr]
                if redop.__class__ is self._premul:  # made anew for a call; its kind is not
                    redop = redop.op  # type: ignore[union-attr]
            elif task >= 0:
                bucket = self._bucket_number(task, key)
        caller, instruction = (0, 0) if frame is None else (id(frame.f_code), frame.f_lasti)
        step = (self._previous, op.name, state.id, key, task >= 0, optimizing, caller, instruction, id(redop), bucket)
        found = self._followers.get(step)
        if found is None or self._checking:
            found = self._walk(step, found, op, state, key, frame, redop, bucket, at.asynchronous(args))
        kind, sizes = found
        self._previous = kind
        if self._stepped and kind in self._scheduled:
            self._begin_segment()
        sequence = next(self._sequence)
        if not sequence & 63:
            self._time_or_not(sequence)
            if len(self._calls) >= FULL:
                self.flush()
        if not self._timing:
            self._calls.append((sequence, kind, self._segment, start, None, *sizes))
            return None
        record = [sequence, kind, self._segment, start, None, *sizes]
        self._calls.append(record)
        if self._writer is not None:
            self._timed.append(record)
        if state.on_gpu:
            self._arrived_on_gpu(record, args, group)
        return record

    def issued(self, record: list[Any], op: Op, at: ArgumentPlaces, args: Sequence[Any], result: Any) -> None:
        """Follow a timed call to its end. `result` is what the operator returned, its work last."""
        work = result[-1] if result.__class__ is tuple or result.__class__ is list else result
        if work is None:
            return
        begun = self._begun.pop(id(record), None)
        if begun is not None:
            device, begin = begun
            if begin is not None and self._cuda_times is not None:
                self._cuda_times.issued(record, work, device, begin)
            return
        CPU_TIMES.issued(record, work, op.collective == "send_recv_one_way" or not at.asynchronous(args))

    def failed(self, error: BaseException) -> None:
        """A call could not be recorded: count it, keep the first reason, and let the program go on."""
        self.lost += 1
        if not self.first_error:
            self.first_error = f"{type(error).__name__}: {error}"

    def untimed(self, error: BaseException) -> None:
        """A call's end cannot be known: backends differ in what a work offers. The call itself counts."""
        if not self.first_untimed:
            self.first_untimed = f"{type(error).__name__}: {error}"

    def _walk(
        self,
        step: tuple[Any, ...],
        expected: _Found | None,
        op: Op,
        state: GroupState,
        key: Key,
        frame: FrameType | None,
        redop: Any,
        bucket: int,
        asynchronous: bool,
    ) -> _Found:
        """The kind of a call, from the stack. In some steps of all calls, to see whether what follows what still holds."""
        backward, optimizing = step[4], step[5]
        in_forward, module, name, code, instruction, found, scheduled = self._places.find(frame, not optimizing)
        if scheduled and not self._started:  # a stage receives before its first forward pass
            self._training_begins()
        if redop is None:
            redop = found.op if found.__class__ is self._premul else found
        self._redops[id(redop)] = redop  # an id means its object only as long as that lives
        if bucket >= 0 and not name and module is None:
            name = "used parameters" if bucket == _NO_BUCKET else f"bucket {bucket}"
        if optimizing:
            phase = "optimizer"
        elif backward:
            phase = "backward"
        elif in_forward:
            phase = "forward"
        else:
            phase = "other" if self._started else "constructor"
        collective, *sizes = sizes_of(op, state, key)
        what = (op.name, state.id, collective, key[1], key[2])
        known = (*what, phase, id(module), name, id(code), instruction, id(redop), asynchronous)
        kind = self._kinds.get(known)
        if kind is None or (module is not None and self._kind_modules[kind]() is not module):
            place = Place(module, name, code, instruction, redop)
            kind = self._new_kind(known, op, state, key, phase, place, frame, asynchronous)
        if scheduled:
            self._scheduled.add(kind)
        if (
            expected is not None and expected[0] != kind
        ):  # the same step of the program led elsewhere: it does not repeat
            self._followers.clear()
            self._repeats = False
        words = self._kind_words[kind][0]
        here: _Found = (kind, () if sizes == [words.call.size_bytes, words.sent_bytes] else tuple(sizes))
        if self._repeats:
            if len(self._followers) >= _MOST_FOLLOWERS:
                self._followers.clear()
            self._followers[step] = here
        return here

    # --- what runs seldom --------------------------------------------------------------------------------------------

    def when_job_is_met(self, then: Callable[[int, int], None]) -> None:
        """Have `then(rank, world size)` called at the first call of a process group."""
        self._on_job = then

    def start(self) -> None:
        """See steps, and the ends of the first calls."""
        self.hooks.start()
        self._time_or_not(0)

    def stop(self) -> None:
        """Leave the program as it was, but for the calls that are seen."""
        self.hooks.stop()
        CPU_TIMES.watch(self, False)
        CPU_TIMES.finish()
        if self._cuda_times is not None:
            self._cuda_times.finish()

    def _time_or_not(self, sequence: int) -> None:
        timing = self._sampling.timed(self._segment, sequence)
        self._checking = timing or self._checks.timed(self._segment, sequence)
        if timing is not self._timing:
            self._timing = timing
            CPU_TIMES.watch(self, timing)

    def mark(self, what: str, optimizer: int | None = None) -> None:
        """A first forward pass, the end of an optimizer's step, or a step that the program itself marks."""
        if what == "optimizer":
            self._stepped = True
        elif what == "forward" and self._stepped:
            self._begin_segment()
            return
        self._training_begins()
        self._note_mark(what, optimizer)
        if what != "forward":
            self.flush()

    @property
    def _seen(self) -> int:
        """How many calls there were: the number of the next one."""
        return int(self._sequence.__reduce__()[1][0])  # looks without counting on

    def _begin_segment(self) -> None:
        self._stepped = False
        self._segment += 1
        self._time_or_not(self._seen)
        self._note_mark("forward", None)

    def _passed_over(self) -> None:
        """A call of a step that is not wanted: only its number counts, and that training has begun."""
        next(self._sequence)
        if self._graph_task() >= 0:
            self._backward_begins()

    def _note_mark(self, what: str, optimizer: int | None) -> None:
        self._wanted = self._live.note(what, optimizer)
        self._marks.append(Mark(what, self._seen, self._segment, time.perf_counter_ns() / 1e9, optimizer))

    def _arrived_on_gpu(self, record: list[Any], args: Sequence[Any], group: Any) -> None:
        """Mark the stream before a call on a GPU; nothing for CPU tensors, and inside a batch, which is one call."""
        import torch
        import torch.distributed.distributed_c10d as c10d

        device = next((each.device for each in tensors_of(args) if each.is_cuda), None)
        if device is None:
            return
        if self._cuda_times is None:
            self._cuda_times = CudaTimes(torch.cuda, torch._C._distributed_c10d.Work.unbox)
        coalescing = group in c10d._world.pg_coalesce_state
        index = torch.cuda.current_device() if device.index is None else device.index
        self._begun[id(record)] = (index, None if coalescing else self._cuda_times.arrived(index))

    def _bucket_number(self, task: int, key: Key) -> int:
        """The reducer of DistributedDataParallel calls from C++, where no Python frame tells the bucket: count them."""
        if task != self._task:
            self._task, self._bucket = task, 0
        if key[1] is None or not key[1].is_floating_point:
            return _NO_BUCKET
        self._bucket += 1
        return self._bucket - 1

    def _training_begins(self) -> None:
        if not self._started:
            self._started = True
            self._followers.clear()  # the same calls were of the constructor

    def _backward_begins(self) -> None:
        self._training_begins()
        if self._stepped:
            self._begin_segment()

    def _new_group(self, group: Any) -> GroupState:
        with self._lock:
            state = GroupState(group, len(self._group_words))
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
        if self._on_job is not None:
            self._on_job(self.rank, self.world_size)

    def _new_kind(
        self,
        known: tuple[Any, ...],
        op: Op,
        state: GroupState,
        key: Key,
        phase: str,
        place: Place,
        frame: FrameType | None,
        asynchronous: bool,
    ) -> int:
        module = place.module
        if not place.name and module is not None:
            place = place._replace(name=self._places.name(module, frame))
        words = describe_call(op, state, key, phase, place, goes_on(frame, place.name, asynchronous))
        with self._lock:
            self._kind_words.append((words, state.id))
            self._kind_modules.append(None if module is None else weakref.ref(module))
            self._kinds[known] = number = len(self._kind_words) - 1
            return number

    # --- the file ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin the file, once the rank is known."""
        if self._writer is not None and self._writer.path is None:
            self._writer.open(self.rank, self.world_size)

    def flush(self) -> None:
        """Write what is buffered: what is new of groups, kinds and marks, the calls, and ends of calls written before."""
        writer = self._writer
        if writer is None or writer.path is None or os.getpid() != self._pid:  # a forked child owns nothing of this
            return
        with self._lock:
            self._last_flush_ns = time.perf_counter_ns()
            calls = self._calls[:]
            del self._calls[: len(calls)]  # what a call appends meanwhile stays behind
            settled = {} if self._cuda_times is None else {id(record): record for record in self._cuda_times.collect()}
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
            late, self._timed = self._timed, []
            unended = [record for record in (*self._unended, *late) if record[4] is None]
            lines += [call_line(record) for record in calls]
            lines += [
                f"[{record[0]},{record[4]},{record[3]}]" if id(record) in settled else f"[{record[0]},{record[4]}]"
                for record in self._unended
                if record[4] is not None
            ]
            self._unended = unended[-FULL:]
            writer.write(lines)

    def note_clock(self, at_ns: int, offset_ns: int, uncertainty_ns: int) -> None:
        """How far rank 0's clock is ahead, into the file."""
        if self._writer is not None:
            line = {"type": "clock", "at_ns": at_ns, "offset_ns": offset_ns, "uncertainty_ns": uncertainty_ns}
            self._writer.write([_json(line)])

    def flush_if_old(self, age_ns: int) -> None:
        """Flush when there is something and the last flush is that long ago."""
        if time.perf_counter_ns() - self._last_flush_ns >= age_ns and (self._calls or self._unended):
            self.flush()

    def close(self, why: str) -> None:
        """The last flush and the line that says that nothing is missing."""
        writer = self._writer
        if writer is None or writer.path is None or os.getpid() != self._pid:
            return
        self.flush()
        end = {"type": "end", "calls": self._seen, "lost": self.lost, "why": why}
        if self.first_error:
            end["error"] = self.first_error
        writer.write([_json(end)])
        writer.close()

    # --- what comes out ----------------------------------------------------------------------------------------------

    def trace(self) -> Trace:
        """Everything that was recorded in memory."""
        kinds = KindsBySize([words for words, _ in self._kind_words])
        calls = tuple(
            RecordedCall(sequence, kinds.get(kind, sizes), segment, start / 1e9, None if end is None else end / 1e9)
            for sequence, kind, segment, start, end, *sizes in sorted(self._calls, key=lambda record: int(record[0]))
        )
        return Trace(self.rank, self.world_size, calls, tuple(self._marks), lost=self.lost)


def _json(line: Mapping[str, Any]) -> str:
    return json.dumps(line, separators=(",", ":"))


def _mark_line(mark: Mark) -> str:
    line = {"type": "mark", "what": mark.what, "sequence": mark.sequence, "segment": mark.segment}
    return _json({**line, "at_ns": round(mark.at_s * 1e9), "optimizer": mark.optimizer})
