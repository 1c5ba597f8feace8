"""Carrying out a schedule: the script of this rank, bound to buffers, as calls of the backend."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from busbw.bench.backends.base import Backend, Group, Issue, Post
from busbw.bench.script import Addition, Copy, Part, write_script
from busbw.bench.work import Item
from busbw.core.collective import COLLECTIVES, Collective, Place
from busbw.core.schedule import NETWORK, Schedule

COMBINERS: Mapping[str, Callable[..., Any]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}
"""What a reduction does, for backends whose buffers are numpy arrays."""


class PointToPoint(Backend):
    """A backend that carries out schedules by messages between ranks; it says how to send, add and copy."""

    @abstractmethod
    def exchange(self, sends: Sequence[Post], receives: Sequence[Post], group: Group) -> Issue:
        """A function that sends and receives all these at once and returns when this rank's part is done."""

    @abstractmethod
    def combiner(self, redop: str) -> Callable[[Any, Any, Any], object]:
        """A function (out, left, right) that does out = left (+) right, element by element."""

    @abstractmethod
    def copy(self, target: Any, source: Any) -> object:
        """Copy a buffer into another of the same length."""

    def prepare_schedule(self, item: Item, send: Any, recv: Any, group: Group) -> Issue:
        """The rounds of the item's schedule as point-to-point calls on these buffers."""
        return prepare(self, item, send, recv, group)


def prepare(backend: PointToPoint, item: Item, send: Any, recv: Any, group: Group) -> Issue:
    """A function that carries out one call of the item's schedule on these buffers."""
    assert item.schedule is not None
    place = Place(item.count, group.size, group.rank, item.call.root or 0)
    script = write_script(item.schedule, place, bool(item.call.in_place))
    dtype = item.call.dtype or "uint8"
    buffers: tuple[Any, ...] = (
        send,
        recv,
        backend.allocate(script.scratch_count, dtype) if script.scratch_count else None,
        backend.allocate(script.stage_count, dtype) if script.stage_count else None,
    )
    combine = backend.combiner(item.call.redop or "sum")

    def view(part: Part) -> Any:
        return buffers[part.buffer][part.start : part.start + part.length]

    actions: list[Issue] = []
    for step in script.steps:
        actions += [partial(backend.copy, view(target), view(source)) for target, source in step.before]
        if step.sends or step.receives:
            sends = [(view(part), peer) for peer, part in step.sends]
            receives = [(view(part), peer) for peer, part in step.receives]
            actions.append(backend.exchange(sends, receives, group))
        for action in step.after:
            if isinstance(action, Copy):
                actions.append(partial(backend.copy, view(action.target), view(action.source)))
            else:
                actions.append(partial(combine, view(action.target), view(action.left), view(action.right)))

    def issue() -> None:
        for action in actions:
            action()

    return issue


def run_together(
    schedule: Schedule,
    count: int,
    root: int,
    inputs: Sequence[NDArray[Any] | None],
    redop: str = "sum",
    in_place: bool = False,
) -> list[NDArray[Any] | None]:
    """Every rank's output of one call, all ranks carried out here: the scripts, without a wire.

    `inputs` has each rank's input (None where it has none); out of place they stay as they are. Raises RuntimeError when a message has no counterpart of the
    same length, which is a mistake in `busbw.bench.script`.
    """
    n = schedule.world_size
    places = [Place(count, n, rank, root) for rank in range(n)]
    scripts = [write_script(schedule, place, in_place) for place in places]
    kind = next(buffer.dtype for buffer in inputs if buffer is not None)
    buffers: list[tuple[Any, ...]] = []
    for place, script, given in zip(places, scripts, inputs, strict=True):
        room = (np.empty(script.scratch_count, kind), np.empty(script.stage_count, kind))
        buffers.append((*_ends(COLLECTIVES.get(schedule.collective), place, given, kind, in_place), *room))
    combine = COMBINERS[redop]
    todo = [{step.round: step for step in script.steps} for script in scripts]
    for index in range(schedule.round_count + 1):
        posted: dict[tuple[int, int], list[NDArray[Any]]] = {}
        steps = [(rank, todo[rank][index]) for rank in range(n) if index in todo[rank]]
        for rank, step in steps:
            for copy in step.before:
                _view(buffers[rank], copy.target)[:] = _view(buffers[rank], copy.source)
            for peer, part in step.sends:
                posted.setdefault((rank, peer), []).append(_view(buffers[rank], part).copy())
        for rank, step in steps:
            for peer, part in step.receives:
                waiting = posted.get((peer, rank))
                if not waiting or len(waiting[0]) != part.length:
                    raise RuntimeError(f"round {index}: rank {rank} receives what rank {peer} does not send")
                _view(buffers[rank], part)[:] = waiting.pop(0)
        if any(posted.values()):
            raise RuntimeError(f"round {index}: a message is received by nobody")
        for rank, step in steps:
            for action in step.after:
                views = [_view(buffers[rank], part) for part in action]
                if isinstance(action, Addition):
                    combine(views[1], views[2], out=views[0])
                else:
                    views[0][:] = views[1]
    return [each[1] for each in buffers]


def _ends(
    collective: Collective, place: Place, given: NDArray[Any] | None, kind: np.dtype[Any], in_place: bool
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Input and output of a rank; in place, the smaller lies inside the larger."""
    into, out = collective.send_count(place), collective.recv_count(place)
    if not in_place:
        return given, np.empty(out, kind) if out else None
    assert collective.in_place_offset is not None
    large = np.empty(max(into, out), kind)
    start = 0 if min(into, out) == max(into, out) or not min(into, out) else collective.in_place_offset(place)
    send, recv = (large, large[start : start + out]) if into >= out else (large[start : start + into], large)
    if given is not None:
        send[:] = given
    return send if into else None, recv if out else None


def _view(buffers: tuple[Any, ...], part: Part) -> NDArray[Any]:
    whole: NDArray[Any] = buffers[part.buffer]
    return whole[part.start : part.start + part.length]


def modelled_s(schedule: Schedule, size_bytes: int, alpha_s: float, rate_Bps: float) -> float:  # noqa: N803
    """Seconds on a machine of one rate: each round costs alpha and the most bytes that one rank sends in it."""
    parts = schedule.parts or ((1.0, schedule),)
    sent = np.zeros((schedule.round_count, schedule.world_size))
    for share, part in parts:
        for index, round_ in enumerate(part.rounds()):
            away = (round_.source != round_.target) & (round_.source != NETWORK)
            slots = np.bincount(round_.source[away], round_.length[away], schedule.world_size)
            sent[index] += slots * (share * size_bytes / part.chunks)
    return float(schedule.round_count * alpha_s + sent.max(axis=1).sum() / rate_Bps)
