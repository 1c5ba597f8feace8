"""A step as a stream: what is computed, what is communicated, and what is waited for, in the order of launch.

A parallelism emits these events; the bill is the lines among them, and the timeline plays all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from busbw.core.bill import Line
from busbw.core.call import Call
from busbw.core.collective import COLLECTIVES
from busbw.core.dtype import DTYPES
from busbw.errors import UsageError


@dataclass(frozen=True, slots=True)
class Group:
    """The ranks that take part in a call: `axis` names them in the bill, `ranks` are the world's, `place` is ours.

    A group of one rank sends nothing; the calls on it are made all the same where the library makes them.
    """

    axis: str
    ranks: tuple[int, ...]
    place: int = 0

    @property
    def size(self) -> int:
        """N of the group."""
        return len(self.ranks)

    @property
    def rank(self) -> int:
        """This rank, in the world."""
        return self.ranks[self.place]


@dataclass(frozen=True, slots=True)
class Compute:
    """Floating-point work of one unit in one phase."""

    phase: str
    unit: str
    flops: float


@dataclass(frozen=True, slots=True)
class Issue:
    """A call is started. With a tag it runs beside what follows, until that tag is waited for; without, at once.

    `ahead`: the host issues it while the last computation still runs, so it may start as early as that one did.
    `follows`: it takes what the calls with that tag leave, so it starts after them.
    """

    line: Line
    tag: str | None = None
    ahead: bool = False
    follows: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Computation goes on when every call with this tag is done."""

    tag: str


Event: TypeAlias = Compute | Issue | Wait
Events: TypeAlias = "list[Event]"


def call(
    collective: str,
    group: Group,
    count: int,
    dtype: str,
    phase: str,
    name: str,
    *,
    tag: str | None = None,
    ahead: bool = False,
    root: int | None = None,
    redop: str | None = None,
    times: int = 1,
    notes: dict[str, str] | None = None,
) -> Issue:
    """One call of `count` elements of the whole logical tensor over the group.

    `root` is the group's own numbering. A sharded collective whose count N does not divide is our mistake.
    """
    kind = COLLECTIVES.get(collective)
    size_bytes = count * DTYPES[dtype].itemsize
    if group.size == 1 or not kind.moves_data:
        sent = 0
    else:
        sent = kind.sent_bytes(size_bytes, group.size, group.place, root or 0)
    if kind.reduces and redop is None:
        redop = "sum"
    if kind.rooted and root is None:
        root = 0
    what = Call(collective, size_bytes, group.size, dtype, redop, root)
    line = Line(what, group.axis, times, phase, name, sent, tag is not None, None, group.ranks, notes or {})
    return Issue(line, tag, ahead)


def message(
    group: Group, peer: int, to: bool, count: int, dtype: str, phase: str, name: str, *, tag: str | None = None
) -> Issue:
    """A point-to-point message between this rank and `peer` (a place in the group); `to` says that we send it."""
    size_bytes = count * DTYPES[dtype].itemsize
    what = Call("send_recv_one_way", size_bytes, 2, dtype)
    notes = {"peer": str(group.ranks[peer]), "own": str(group.rank), "way": "send" if to else "receive"}
    line = Line(what, group.axis, 1, phase, name, size_bytes if to else 0, tag is not None, None, group.ranks, notes)
    return Issue(line, tag)


def lines_of(events: Iterable[Event]) -> list[Line]:
    """The lines of a stream, in launch order."""
    return [event.line for event in events if isinstance(event, Issue)]


def tensors_by_limit(
    sizes: Sequence[tuple[str, int]], limits: Sequence[int], in_order: bool = False
) -> list[list[int]]:
    """Whole tensors put into buckets, as torch's `compute_bucket_assignment_by_size` does; indices into `sizes`.

    `sizes` are (dtype, bytes). Each dtype has one open bucket, closed once its size reaches the limit, and goes through
    `limits` by itself, staying at the last. Closed ones come out as they close, those left open at the end, the dtype
    that was met last first; then they are sorted by their first tensor, unless the order is that of arrival (`in_order`).
    """
    if not limits or min(limits) < 0:
        raise UsageError(f"bucket limits {list(limits)}: must be one or more sizes of 0 or more bytes")
    open_: dict[str, tuple[list[int], int, int]] = {}
    done: list[list[int]] = []
    for index, (dtype, size) in enumerate(sizes):
        members, total, step = open_.get(dtype, ([], 0, 0))
        members.append(index)
        total += size
        if total >= limits[step]:
            done.append(members)
            members, total, step = [], 0, min(step + 1, len(limits) - 1)
        open_[dtype] = (members, total, step)
    # What is left comes out of a hash map, whose newest entry is its first.
    done += [members for members, _, _ in reversed(open_.values()) if members]
    return done if in_order else sorted(done, key=min)
