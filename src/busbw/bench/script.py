"""A schedule as one rank carries it out: which parts of which buffers it sends, receives, copies and adds, round by round.

A slot of the schedule is a range of the logical tensor (where N does not divide it, ranges differ by one element). Data
stays in the input buffer until something is written over it, and lives in the output buffer where the slot belongs to
the output; only what is neither needs scratch. So an all-reduce out of place copies nothing first, and a ring's shards
go out and come in where they lie. What is added, or would overwrite what this round still reads, is received into a
staging buffer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from busbw.core.collective import COLLECTIVES, Place
from busbw.core.schedule import NETWORK, Round, Schedule
from busbw.core.verify import input_span, output_span
from busbw.errors import UsageError

SEND, RECV, SCRATCH, STAGE = range(4)
"""The buffers: input, output, and two that the run allocates."""

MOST_MESSAGES = 2
"""More transfers than this between one pair in one round are packed into one message."""


class Part(NamedTuple):
    """Elements [start, start + length) of a buffer."""

    buffer: int
    start: int
    length: int


class Message(NamedTuple):
    """A part to send to, or receive from, a rank of the group."""

    peer: int
    part: Part


class Copy(NamedTuple):
    """target = source."""

    target: Part
    source: Part


class Addition(NamedTuple):
    """target = left (+) right, with the reduction's operator."""

    target: Part
    left: Part
    right: Part


@dataclass(frozen=True, slots=True)
class Step:
    """What a rank does in one round: pack, exchange, copy inside, then add and unpack, in this order."""

    round: int
    before: tuple[Copy, ...]
    sends: tuple[Message, ...]
    receives: tuple[Message, ...]
    after: tuple[Copy | Addition, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """All steps of one rank, and the elements of the two buffers that it needs beside input and output."""

    steps: tuple[Step, ...]
    scratch_count: int
    stage_count: int


@lru_cache(maxsize=64)
def keeps_slots(schedule: Schedule) -> bool:
    """Whether every transfer goes from a slot to the same slot: then N need not divide the tensor."""
    return all(
        bool((round_.source_slot == round_.target_slot).all())
        for _, part in _parts(schedule)
        for round_ in part.rounds()
    )


def unable(schedule: Schedule) -> str:
    """Why real ranks cannot carry the schedule out; "" where they can."""
    for _, part in _parts(schedule):
        if any(bool((phase.source == NETWORK).any() or (phase.target == NETWORK).any()) for phase in part.phases):
            return "it reduces inside the switch, which point-to-point calls cannot do: simulate or draw it"
    return ""


def suitable_count(schedule: Schedule, count: int) -> int:
    """The largest number of elements, `count` or less (at least one a chunk), into which the schedule's slots fit."""
    if keeps_slots(schedule):
        return count
    unit = schedule.chunks if not schedule.parts else len(schedule.parts) * schedule.parts[0][1].chunks
    return max(count // unit, 1) * unit


def _parts(schedule: Schedule) -> tuple[tuple[float, Schedule], ...]:
    return schedule.parts or ((1.0, schedule),)


class _Tensor:
    """Where the slots of each channel lie in one rank's address space.

    Addresses 0 to count-1 are the tensor (for all_to_all the input), the next `count` all_to_all's output, then come the
    scratch slots of each channel.
    """

    def __init__(self, schedule: Schedule, place: Place) -> None:
        self.schedule, self.place = schedule, place
        self.parts = _parts(schedule)
        kind = COLLECTIVES.get(schedule.collective)
        self.shards = place.world_size if kind.sharded else 1
        self.shard = place.count // self.shards
        self.two = schedule.collective == "all_to_all"
        bounds = np.cumsum([0.0, *(share for share, _ in self.parts)])
        bounds[-1] = 1.0
        self.edges: list[int] = [round(self.shard * bound) for bound in bounds.tolist()]
        self.scratch = []
        end = place.count * (2 if self.two else 1)
        for channel, (_, part) in enumerate(self.parts):
            self.scratch.append(end)
            least = part.chunks * (2 if self.two else 1)
            end += (part.slot_count - least) * self.slot_size(channel)

    def slot_size(self, channel: int) -> int:
        """Elements of a scratch slot, which are those of every slot where there are any."""
        per_shard = self.parts[channel][1].chunks // self.shards
        return (self.edges[channel + 1] - self.edges[channel]) // per_shard

    def range(self, channel: int, slot: int) -> tuple[int, int]:
        """First address and elements of a slot."""
        chunks = self.parts[channel][1].chunks
        base = 0
        if slot >= chunks and self.two:
            base, slot = self.place.count, slot - chunks
        if slot >= chunks:
            size = self.slot_size(channel)
            return self.scratch[channel] + (slot - chunks) * size, size
        per_shard = chunks // self.shards
        shard, index = divmod(slot, per_shard)
        low, high = self.edges[channel], self.edges[channel + 1]
        first = (high - low) * index // per_shard
        return base + shard * self.shard + low + first, (high - low) * (index + 1) // per_shard - first


class _Rank:
    """One rank's buffers while its script is written."""

    def __init__(self, schedule: Schedule, place: Place, in_place: bool) -> None:
        self.tensor = _Tensor(schedule, place)
        self.place, self.in_place = place, in_place
        self.at_input: set[tuple[int, int]] = set()
        self.input, self.output = (self._interval(schedule, span) for span in (True, False))
        for channel, (_, part) in enumerate(self.tensor.parts):
            span = input_span(part, place.rank)
            for slot in range(span.start, span.start + span.length):
                if self.home(channel, slot).buffer != SEND and not in_place:
                    self.at_input.add((channel, slot))

    def _interval(self, schedule: Schedule, is_input: bool) -> tuple[int, int]:
        """The addresses of the input or output."""
        kind = COLLECTIVES.get(schedule.collective)
        length = (kind.send_count if is_input else kind.recv_count)(self.place)
        if self.tensor.two:
            start = 0 if is_input else self.place.count
        else:
            small = 0 < length < self.place.count and kind.in_place_offset is not None
            start = kind.in_place_offset(self.place) if small and kind.in_place_offset is not None else 0
        return start, start + length

    def home(self, channel: int, slot: int) -> Part:
        """Where what is written to a slot goes."""
        first, length = self.tensor.range(channel, slot)
        if self.output[0] <= first and first + length <= self.output[1] and self.output[1] > self.output[0]:
            return Part(RECV, first - self.output[0], length)
        if self.in_place and self.input[0] <= first and first + length <= self.input[1]:
            return Part(SEND, first - self.input[0], length)
        return Part(SCRATCH, first, length)

    def here(self, channel: int, slot: int) -> Part:
        """Where what is in a slot lies now."""
        if (channel, slot) in self.at_input:
            first, length = self.tensor.range(channel, slot)
            return Part(SEND, first - self.input[0], length)
        return self.home(channel, slot)

    def ending(self) -> tuple[Copy, ...]:
        """What is still in the input at the end and belongs to the output."""
        copies = []
        for channel, (_, part) in enumerate(self.tensor.parts):
            span = output_span(part, self.place.rank)
            for slot in range(span.start, span.start + span.length):
                if (channel, slot) in self.at_input:
                    copies.append(Copy(self.home(channel, slot), self.here(channel, slot)))
        return tuple(_merged_copies(copies))


class _Transfer(NamedTuple):
    """A run of slots between two ranks."""

    channel: int
    source: int
    target: int
    source_slots: range
    target_slots: range
    reduces: bool


def write_script(schedule: Schedule, place: Place, in_place: bool) -> Script:
    """The script of `place.rank`; UsageError where real ranks cannot run the schedule, or sizes do not fit."""
    reason = unable(schedule)
    if reason:
        raise UsageError(f"algorithm {schedule.algorithm}: {reason}")
    rank = _Rank(schedule, place, in_place)
    steps = []
    rounds = [part.rounds() for _, part in rank.tensor.parts]
    for index in range(schedule.round_count):
        transfers = [
            transfer
            for channel, of_channel in enumerate(rounds)
            for transfer in _transfers(channel, next(of_channel, None), place.rank)
        ]
        step = _Writer(rank, index).write(transfers)
        if step is not None:
            steps.append(step)
    ending = rank.ending()
    if ending:
        steps.append(Step(schedule.round_count, (), (), (), ending))
    return _compact(steps)


def _transfers(channel: int, round_: Round | None, rank: int) -> Iterator[_Transfer]:
    if round_ is None:
        return
    mine = np.flatnonzero((round_.source == rank) | (round_.target == rank))
    columns = (getattr(round_, name)[mine].tolist() for name in Round.__slots__)
    for source, target, source_slot, target_slot, length, reduces in zip(*columns, strict=True):
        there, here = (range(first, first + length) for first in (source_slot, target_slot))
        yield _Transfer(channel, source, target, there, here, reduces)


class _Writer:
    """Writes one round of one rank."""

    def __init__(self, rank: _Rank, index: int) -> None:
        self.rank, self.index = rank, index
        self.staged = 0
        self.before: list[Copy] = []
        self.sends: list[Message] = []
        self.receives: list[Message] = []
        self.inside: list[Copy] = []
        self.after: list[Copy | Addition] = []
        self.moved: set[tuple[int, int]] = set()

    def write(self, transfers: list[_Transfer]) -> Step | None:
        """The step; None where the rank has nothing to do."""
        me = self.rank.place.rank
        for transfer in transfers:
            self._check_sizes(transfer)
        self.read = {
            (transfer.channel, slot)
            for transfer in transfers
            if transfer.source == me
            for slot in transfer.source_slots
            if (transfer.channel, slot) not in self.rank.at_input
        }
        crowded = Counter((transfer.source, transfer.target) for transfer in transfers)
        packs: dict[tuple[int, int], list[_Transfer]] = {}
        for number, transfer in enumerate(transfers):
            pair = (transfer.source, transfer.target)
            if pair == (me, me):
                self._inside(transfer)
            else:
                key = pair if crowded[pair] > MOST_MESSAGES else (*pair, number)
                packs.setdefault(key, []).append(transfer)  # type: ignore[arg-type]
        for pack in packs.values():
            if pack[0].source == me:
                self._send(pack)
            else:
                self._receive(pack)
        self.rank.at_input -= self.moved
        if not (self.sends or self.receives or self.inside):
            return None
        after = (*_merged_copies(self.inside), *self.after)
        return Step(self.index, tuple(self.before), tuple(self.sends), tuple(self.receives), after)

    def _check_sizes(self, transfer: _Transfer) -> None:
        tensor, channel = self.rank.tensor, transfer.channel
        for source, target in zip(transfer.source_slots, transfer.target_slots, strict=True):
            if source != target and tensor.range(channel, source)[1] != tensor.range(channel, target)[1]:
                raise UsageError(
                    f"algorithm {tensor.schedule.algorithm}: round {self.index + 1}: slot {source} goes to slot {target}, "
                    f"and {self.rank.place.count} elements make them of different size"
                )

    def _stage(self, length: int) -> Part:
        part = Part(STAGE, self.staged, length)
        self.staged += length
        return part

    def _sources(self, pack: list[_Transfer]) -> list[Part]:
        return _merged([self.rank.here(t.channel, slot) for t in pack for slot in t.source_slots])

    def _send(self, pack: list[_Transfer]) -> None:
        parts = self._sources(pack)
        total = sum(part.length for part in parts)
        if not total:
            return
        if len(parts) > 1:
            whole = self._stage(total)
            self.before += [Copy(target, source) for target, source in _spread(whole, parts)]
            parts = [whole]
        self.sends.append(Message(pack[0].target, parts[0]))

    def _receive(self, pack: list[_Transfer]) -> None:
        slots = [(t, slot) for t in pack for slot in t.target_slots]
        homes = [self.rank.home(t.channel, slot) for t, slot in slots]
        merged = _merged(homes)
        total = sum(part.length for part in merged)
        if total:
            straight = len(merged) == 1 and not any(t.reduces or (t.channel, slot) in self.read for t, slot in slots)
            whole = merged[0] if straight else self._stage(total)
            self.receives.append(Message(pack[0].source, whole))
            if not straight:
                arrived = [part for part, _ in _spread(whole, homes)]
                self._put(slots, homes, arrived)
        self.moved |= {(t.channel, slot) for t, slot in slots}

    def _inside(self, transfer: _Transfer) -> None:
        slots = [(transfer, slot) for slot in transfer.target_slots]
        homes = [self.rank.home(transfer.channel, slot) for slot in transfer.target_slots]
        sources = [self.rank.here(transfer.channel, slot) for slot in transfer.source_slots]
        if transfer.reduces or any((transfer.channel, slot) in self.read for slot in transfer.target_slots):
            whole = self._stage(sum(part.length for part in sources))
            waiting = [part for part, _ in _spread(whole, sources)]
            self.inside += [Copy(*pair) for pair in zip(waiting, sources, strict=True)]
            self._put(slots, homes, waiting)
        else:
            self.inside += [Copy(*pair) for pair in zip(homes, sources, strict=True)]
        self.moved |= {(transfer.channel, slot) for slot in transfer.target_slots}

    def _put(self, slots: list[tuple[_Transfer, int]], homes: list[Part], arrived: list[Part]) -> None:
        """Add or copy what arrived to its slots, neighbours in one go."""
        pending: list[Copy | Addition] = []
        for (transfer, slot), home, part in zip(slots, homes, arrived, strict=True):
            if not home.length:
                continue
            if not transfer.reduces:
                pending.append(Copy(home, part))
                continue
            key = (transfer.channel, slot)
            left = home if key in self.moved else self.rank.here(*key)
            pending.append(Addition(home, left, part))
            self.moved.add(key)
        for action in pending:
            last = self.after[-1] if self.after else None
            joined = None if last is None or type(last) is not type(action) else _joined(last, action)
            if joined is None:
                self.after.append(action)
            else:
                self.after[-1] = joined


def _joined(one: Copy | Addition, other: Copy | Addition) -> Copy | Addition | None:
    """Two neighbouring actions as one; None where their parts do not meet."""
    parts = [_merged(list(pair)) for pair in zip(one, other, strict=True)]
    if any(len(pair) > 1 for pair in parts):
        return None
    return type(one)(*(pair[0] for pair in parts))


def _merged(parts: list[Part]) -> list[Part]:
    """Neighbouring parts as one; empty ones go."""
    out: list[Part] = []
    for part in parts:
        if not part.length:
            continue
        if out and out[-1].buffer == part.buffer and out[-1].start + out[-1].length == part.start:
            out[-1] = Part(part.buffer, out[-1].start, out[-1].length + part.length)
        else:
            out.append(part)
    return out


def _merged_copies(copies: list[Copy]) -> list[Copy]:
    out: list[Copy] = []
    for copy in copies:
        if not copy.target.length:
            continue
        joined = _joined(out[-1], copy) if out else None
        if isinstance(joined, Copy):
            out[-1] = joined
        else:
            out.append(copy)
    return out


def _spread(whole: Part, parts: list[Part]) -> Iterator[tuple[Part, Part]]:
    """Pieces of `whole` as long as each of the parts, with the part."""
    start = whole.start
    for part in parts:
        yield Part(whole.buffer, start, part.length), part
        start += part.length


def _compact(steps: list[Step]) -> Script:
    """Scratch addresses counted from the lowest that is used."""
    used = [part for step in steps for part in _all_parts(step) if part.buffer == SCRATCH and part.length]
    base = min((part.start for part in used), default=0)
    end = max((part.start + part.length for part in used), default=0)
    stage = [part.start + part.length for step in steps for part in _all_parts(step) if part.buffer == STAGE]

    def moved(part: Part) -> Part:
        return Part(SCRATCH, part.start - base, part.length) if part.buffer == SCRATCH else part

    compact = tuple(
        Step(
            step.round,
            tuple(Copy(*map(moved, copy)) for copy in step.before),
            tuple(Message(message.peer, moved(message.part)) for message in step.sends),
            tuple(Message(message.peer, moved(message.part)) for message in step.receives),
            tuple(type(action)(*map(moved, action)) for action in step.after),
        )
        for step in steps
    )
    return Script(compact, end - base if used else 0, max(stage, default=0))


def _all_parts(step: Step) -> Iterator[Part]:
    for action in (*step.before, *step.after):
        yield from action
    for message in (*step.sends, *step.receives):
        yield message.part
