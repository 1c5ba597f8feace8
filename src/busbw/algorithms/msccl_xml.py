"""MSCCL's XML: programs for the thread blocks of each GPU, read into a Schedule and written from one.

`algo(name, coll, ngpus, nchunksperloop, nchannels, inplace)` > `gpu(id, i_chunks, o_chunks, s_chunks)` > `tb(id, send, recv,
chan)` > `step(s, type, srcbuf, srcoff, dstbuf, dstoff, cnt, depid, deps, hasdep)`. Buffers are i(nput), o(utput) and s(cratch).
Types: s send; r receive; cpy, re copy and add inside; rcs receive, copy and send on; rrc receive, add and copy; rrcs
and send on; rrs add and send on without keeping it; nop waits. A step follows the one before it in its thread block and
the step `deps` of block `depid`. Sends of one GPU to another on one channel match its receives in order. (Layout as in
microsoft/msccl, src/misc/msccl/msccl_parser.cc, and msccl-tools.)

Each transfer is put into the first round in which all that it follows is done.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath

from busbw.algorithms._msccl_writer import write
from busbw.core.collective import COLLECTIVES, Place, find_collective
from busbw.core.schedule import Algorithm, Schedule
from busbw.core.sketch import Sketch
from busbw.core.verify import verify
from busbw.errors import FileError, UsageError

__all__ = ["load_algorithm", "read", "write"]

RECEIVES = ("r", "rcs", "rrc", "rrcs", "rrs")
SENDS = ("s", "rcs", "rrcs", "rrs")
INSIDE = ("cpy", "re")
TYPES = tuple(dict.fromkeys((*RECEIVES, *SENDS, *INSIDE, "nop")))

_Where = tuple[str, int]
"""A buffer and an offset in it."""


def load_algorithm(path: str) -> Algorithm:
    """The program of a file as an Algorithm of one collective and one N; FileError says what is wrong with it."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    schedule = read(text, path)

    def build(world_size: int, *, root: int = 0) -> Schedule:
        if root != schedule.root and COLLECTIVES.get(schedule.collective).rooted:
            raise UsageError(f"algorithm {path}: its root is {schedule.root}, and root {root} was asked for")
        return schedule

    def supports(collective: str, world_size: int) -> str:
        return "" if world_size == schedule.world_size else f"the file is for {schedule.world_size} GPUs"

    summary = f"{schedule.collective} on {schedule.world_size} ranks, {schedule.round_count} rounds"
    return Algorithm(path, summary, "MSCCL XML", {schedule.collective: build}, supports=supports)


def read(text: str, file_name: str = "XML") -> Schedule:
    """The program as a verified Schedule; FileError names GPU, thread block and step."""
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        line = error.position[0]
        raise FileError(f"{file_name}:{line}: not well-formed XML: {str(error).partition(':')[0]}") from error
    if root.tag != "algo":
        raise FileError(f"{file_name}: the outermost element is <{root.tag}>: MSCCL's is <algo>")
    program = _Program(root, file_name)
    rounds = program.rounds()
    wrong: UsageError | None = None
    for aliased in (True, False):  # the input in the slots of the output, then beside them
        try:
            schedule = program.schedule(rounds, aliased)
            verify(schedule)
            return schedule
        except UsageError as error:
            wrong = wrong or error
    raise FileError(f"{file_name}: {wrong}")


@dataclass(eq=False)
class _Event:
    """A transfer, a copy inside or nothing: what one round can hold."""

    source: int = -1
    target: int = -1
    from_: _Where = ("", 0)
    to: _Where = ("", 0)
    count: int = 0
    reduces: bool = False
    name: str = ""
    before: list[_Event] = field(default_factory=list)
    """What must be done first."""
    level: int = 0
    block: tuple[int, int] = (-1, -1)
    transfer: _Event | None = None
    """Of the sending half: the transfer that it belongs to."""

    is_operand: bool = False
    """A copy of what is added to what arrives, to the place of the sum."""

    def meets(self, other: _Event) -> bool:
        """Whether `other` writes what this one reads or writes, or reads what it writes."""
        pairs = ((self.from_, other.to), (self.to, other.to), (self.to, other.from_))
        return any(
            one[0] == two[0] and one[1] < two[1] + other.count and two[1] < one[1] + self.count for one, two in pairs
        )


def _circles(events: list[_Event]) -> Iterator[list[_Event]]:
    """Events that wait for each other (mostly single ones), those that others wait for first: Tarjan's algorithm."""
    index: dict[_Event, int] = {}
    lowest: dict[_Event, int] = {}
    stack: list[_Event] = []
    on_stack: set[_Event] = set()
    for start in events:
        if start in index:
            continue
        index[start] = lowest[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        path = [(start, iter(start.before))]
        while path:
            event, rest = path[-1]
            following = next(rest, None)
            if following is None:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[event])
                if lowest[event] == index[event]:
                    together: list[_Event] = []
                    while not together or together[-1] is not event:
                        together.append(stack.pop())
                        on_stack.discard(together[-1])
                    yield together
            elif following not in index:
                index[following] = lowest[following] = len(index)
                stack.append(following)
                on_stack.add(following)
                path.append((following, iter(following.before)))
            elif following in on_stack:
                lowest[event] = min(lowest[event], index[following])


class _Program:
    """The steps of a file, matched and ordered."""

    def __init__(self, root: ET.Element, file_name: str) -> None:
        self.file = file_name
        self.name = root.get("name") or PurePath(file_name).stem
        self.world_size = self._number(root, "ngpus", "algo", len(root.findall("gpu")))
        name = root.get("coll", "")
        try:
            self.kind = find_collective(name)
        except UsageError as error:
            raise self.fail("algo", f"coll {name!r} is none of the collectives here") from error
        self.gpus = self._gpus(root)
        sizes = [self._number(gpu, key, "gpu", 0) for gpu in self.gpus.values() for key in ("i_chunks", "o_chunks")]
        self.chunks = self._number(root, "nchunksperloop", "algo", max(sizes, default=0))
        self.root = self._number(root, "root", "algo", 0)
        self.temporary = 0
        self.scratch = max((self._number(gpu, "s_chunks", "gpu", 0) for gpu in self.gpus.values()), default=0)
        if self.chunks < 1 or (self.kind.sharded and self.chunks % self.world_size):
            raise self.fail(
                "algo", f"nchunksperloop {self.chunks}: {self.kind.name} on {self.world_size} GPUs cannot be cut so"
            )

    def fail(self, where: str, text: str) -> FileError:
        """An error with its place."""
        return FileError(f"{self.file}: {where}: {text}")

    def _number(self, element: ET.Element, key: str, where: str, otherwise: int | None = None) -> int:
        text = element.get(key)
        if text is None and otherwise is not None:
            return otherwise
        try:
            return int(text or "")
        except ValueError:
            raise self.fail(where, f"{key}={text!r} is not a number") from None

    def _gpus(self, root: ET.Element) -> dict[int, ET.Element]:
        found: dict[int, ET.Element] = {}
        for gpu in root.findall("gpu"):
            number = self._number(gpu, "id", "gpu")
            if number in found or not 0 <= number < self.world_size:
                raise self.fail(f"gpu {number}", f"must be one of 0 to {self.world_size - 1}, each once")
            found[number] = gpu
        if len(found) != self.world_size or self.world_size < 2:
            raise self.fail("algo", f"{len(found)} <gpu> of ngpus={self.world_size}: every GPU once, 2 or more")
        return found

    def rounds(self) -> list[list[_Event]]:
        """All transfers and copies, each in the first round that it can happen in."""
        last: dict[tuple[int, int, int], _Event] = {}
        waits: list[tuple[_Event, tuple[int, int, int], str]] = []
        halves: dict[tuple[int, int, int], tuple[list[_Event], list[_Event]]] = defaultdict(lambda: ([], []))
        owners: dict[tuple[str, int, int, int], int] = {}
        events: list[_Event] = []
        for gpu, element in self.gpus.items():
            for block in element.findall("tb"):
                tb = self._number(block, "id", f"gpu {gpu}")
                where = f"gpu {gpu} tb {tb}"
                peers = {key: self._number(block, key, where, -1) for key in ("send", "recv")}
                channel = self._number(block, "chan", where, 0)
                for key, peer in peers.items():
                    if peer >= self.world_size or peer == gpu:
                        raise self.fail(where, f"{key}={peer} is not another GPU")
                    if peer >= 0 and owners.setdefault((key, gpu, peer, channel), tb) != tb:
                        raise self.fail(where, f"{key}={peer} chan={channel} belongs to another thread block too")
                previous: _Event | None = None
                done: list[_Event] = []
                for number, step in enumerate(block.findall("step")):
                    name = f"{where} step {number}"
                    made = list(self._events(gpu, step, peers, name))
                    for event, peer_of, is_send in made:
                        if event.is_operand:  # as soon as it is known, not after what its thread block waits for
                            event.before += [other for other in done if event.meets(other)]
                            waits += [(event, at, name) for waiting, at, _ in waits if waiting.block == (gpu, tb)]
                            made[1][0].before.append(event)
                        else:
                            if previous is not None:
                                event.before.append(previous)
                            previous = event
                        done.append(event)
                        event.block = (gpu, tb)
                        if peer_of is None:
                            events.append(event)
                        else:
                            source, target = (gpu, peer_of) if is_send else (peer_of, gpu)
                            halves[source, target, channel][not is_send].append(event)
                    block_id = self._number(step, "depid", name, -1)
                    if block_id >= 0:
                        waits.append((made[0][0], (gpu, block_id, self._number(step, "deps", name, -1)), name))
                    assert previous is not None
                    last[gpu, tb, number] = previous
        for event, at, name in waits:
            if at not in last:
                raise self.fail(name, f"waits for step {at[2]} of thread block {at[1]}, which does not exist")
            event.before.append(last[at])
        events += self._matched(halves)
        return self._levels(events)

    def _events(
        self, gpu: int, step: ET.Element, peers: Mapping[str, int], name: str
    ) -> Iterator[tuple[_Event, int | None, bool]]:
        """What a step does, in order: (event, the peer where it is half of a transfer, whether that is the sending half)."""
        kind = step.get("type", "")
        if kind not in TYPES:
            raise self.fail(name, f"type {kind!r}: must be one of {', '.join(TYPES)}")
        for key, kinds in (("send", SENDS), ("recv", RECEIVES)):
            if kind in kinds and peers[key] < 0:
                raise self.fail(name, f"type {kind}, and its thread block has no {key} peer")
        if kind == "nop":
            yield _Event(name=name), None, False
            return
        count = self._number(step, "cnt", name, 1)
        if count < 1:
            raise self.fail(name, f"cnt={count}: 1 or more")
        source, target = (
            (step.get(f"{end}buf", ""), self._number(step, f"{end}off", name, 0)) for end in ("src", "dst")
        )
        if kind == "rrs":
            target = ("t", self.temporary)
            self.temporary += count
        adds = kind in ("rrc", "rrcs", "rrs")
        if kind in INSIDE:
            yield _Event(gpu, gpu, source, target, count, kind == "re", name), None, False
        if adds and source != target:
            yield _Event(gpu, gpu, source, target, count, False, name, is_operand=True), None, False
        if kind in RECEIVES:
            yield _Event(-1, gpu, ("", 0), target, count, adds, name), peers["recv"], False
        if kind in SENDS:
            yield _Event(gpu, -1, source if kind == "s" else target, ("", 0), count, False, name), peers["send"], True

    def _matched(self, halves: Mapping[tuple[int, int, int], tuple[list[_Event], list[_Event]]]) -> Iterator[_Event]:
        """Sends and receives of one pair and channel as transfers, in order."""
        for (source, target, channel), (sends, receives) in halves.items():
            if len(sends) != len(receives):
                more = sends if len(sends) > len(receives) else receives
                raise self.fail(
                    more[min(len(sends), len(receives))].name,
                    f"unmatched: GPU {source} sends {len(sends)} times to GPU {target} on channel {channel}, which "
                    f"receives {len(receives)} times",
                )
            for send, receive in zip(sends, receives, strict=True):
                if send.count != receive.count:
                    raise self.fail(
                        receive.name, f"receives {receive.count} chunks, and {send.name} sends it {send.count}"
                    )
                # The receive becomes the transfer; what waits for the send waits for that.
                receive.source, receive.from_ = source, send.from_
                receive.before += send.before
                send.before, send.count, send.transfer = [receive], 0, receive
                yield receive
                yield send

    def _levels(self, events: list[_Event]) -> list[list[_Event]]:
        """Rounds by the longest chain of what must be done first; FileError where steps wait for each other.

        What follows a send may happen in the round of its transfer, since a round reads before it writes: two GPUs that
        exchange a chunk each send, and then receive into the same place.
        """
        for together in _circles(events):  # what must be done first comes first
            inside = set(together)
            level = 0
            for event in together:
                for before in event.before:
                    step = before.count > 0 and event.transfer is not before
                    if before not in inside:
                        level = max(level, before.level + step)
                    elif step:
                        raise self.fail(
                            event.name or before.name,
                            "waits for itself: steps wait for each other in a circle (or rely on sends that are kept in "
                            "a buffer)",
                        )
            for event in together:
                event.level = level
        rounds: dict[int, list[_Event]] = defaultdict(list)
        for event in events:
            if event.count:
                rounds[event.level].append(event)
        return [rounds[level] for level in sorted(rounds)]

    def schedule(self, rounds: list[list[_Event]], aliased: bool) -> Schedule:
        """The rounds over slots; where the input is not `aliased` with the output, it is copied aside first."""
        two = self.kind.name == "all_to_all"
        first = (2 if two else 1) * self.chunks
        beside = 0 if aliased or two else self.chunks
        slots = first + beside + self.scratch + self.temporary
        sketch = Sketch(self.kind.name, self.world_size, self.chunks, root=self.root, slots=slots)
        if beside:
            sketch.round("input aside")
            for rank in range(self.world_size):
                place = Place(self.chunks, self.world_size, rank, self.root)
                length = self.kind.send_count(place)
                if length:
                    start = self._start(rank, length)
                    sketch.copy(rank, rank, start, first + start, length)
        slot = partial(self._slot, first=first, beside=beside)
        for events in rounds:
            sketch.round()
            for event in events:
                where = [slot(event, rank, at) for rank, at in ((event.source, event.from_), (event.target, event.to))]
                if event.is_operand and where[0] == where[1]:
                    continue  # input and output are one place here
                put = sketch.add if event.reduces else sketch.copy
                put(event.source, event.target, where[0], where[1], event.count)
        return sketch.schedule(self.name)

    def _start(self, rank: int, length: int) -> int:
        """Where a rank's input or output of so many chunks starts in the whole tensor."""
        return rank * length if length < self.chunks else 0

    def _slot(self, event: _Event, rank: int, where: _Where, *, first: int, beside: int) -> int:
        """The slot of a chunk of a buffer."""
        buffer, offset = where
        last = offset + event.count
        gpu = self.gpus[rank]
        two = self.kind.name == "all_to_all"
        if buffer in ("i", "o"):
            declared = self._number(gpu, f"{buffer}_chunks", f"gpu {rank}", 0)
            place = Place(self.chunks, self.world_size, rank, self.root)
            length = (self.kind.send_count if buffer == "i" else self.kind.recv_count)(place)
            small = 0 < length < self.chunks and declared <= length
            if offset < 0 or last > (length if small else self.chunks):
                raise self.fail(event.name, f"chunks {offset} to {last - 1} of {buffer}, which has {length}")
            if two:
                return offset + (self.chunks if buffer == "o" else 0)
            return offset + (rank * length if small else 0) + (first if buffer == "i" and beside else 0)
        if buffer == "t":
            return first + beside + self.scratch + offset
        if buffer != "s" or offset < 0 or last > self.scratch:
            raise self.fail(event.name, f"chunks {offset} to {last - 1} of buffer {buffer!r}: i, o, or s with s_chunks")
        return first + beside + offset
