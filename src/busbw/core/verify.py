"""Verifying a schedule symbolically: what every slot holds is followed through every round, without data.

A slot holds a chunk of the input, from a set of ranks whose contributions have been added up. After the last round each
rank's output must be what the collective's postcondition says: the right chunk, each rank's contribution once.
(msccl-tools verifies an algorithm in this way as it is made.)
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from busbw.core.collective import COLLECTIVES, Collective, Place
from busbw.core.schedule import NETWORK, Bools, Ints, Phase, Round, Schedule
from busbw.errors import UsageError

Words = npt.NDArray[np.uint64]

MOST_WORK = 1 << 20
"""`Algorithm.build` verifies schedules whose `work` is below: rings up to about N = 300, in some tenths of a second."""

_WITHOUT_LAYOUT = ("all_to_all_v", "barrier", "send_recv", "send_recv_one_way")

_known: set[Hashable] = set()


@dataclass(frozen=True, slots=True)
class Span:
    """Slots [start, start + length) of one rank."""

    start: int
    length: int


def input_span(schedule: Schedule, rank: int) -> Span:
    """The slots of `rank` that hold its input before the first round."""
    return _span(schedule, rank, is_input=True)


def output_span(schedule: Schedule, rank: int) -> Span:
    """The slots of `rank` that must hold its output after the last round."""
    return _span(schedule, rank, is_input=False)


def _span(schedule: Schedule, rank: int, is_input: bool) -> Span:
    kind = collective_of(schedule)
    place = Place(schedule.chunks, schedule.world_size, rank, schedule.root)
    length = kind.send_count(place) if is_input else kind.recv_count(place)
    if kind.name == "all_to_all":
        return Span(0 if is_input else schedule.chunks, length)
    small = 0 < length < schedule.chunks and kind.in_place_offset is not None
    return Span(kind.in_place_offset(place) if small and kind.in_place_offset is not None else 0, length)


def collective_of(schedule: Schedule) -> Collective:
    """The schedule's collective; UsageError where slots have no meaning for it, or the chunks don't suit it."""
    kind = COLLECTIVES.get(schedule.collective)
    if kind.name in _WITHOUT_LAYOUT:
        raise UsageError(f"{schedule.algorithm}: {kind.name} has no layout of slots, so no schedule")
    if schedule.chunks < 1 or (kind.sharded and schedule.chunks % schedule.world_size):
        raise UsageError(
            f"{schedule.algorithm}: {schedule.chunks} chunks: {kind.name} needs 1 or more"
            + (f", a multiple of the {schedule.world_size} ranks" if kind.sharded else "")
        )
    return kind


def work(schedule: Schedule) -> int:
    """What verifying costs: slots moved x 64-bit words of a set of ranks."""
    if schedule.parts:
        return sum(work(part) for _, part in schedule.parts)
    slots = sum(int((phase.length * phase.repeats).sum()) for phase in schedule.phases)
    return slots * _words(schedule.world_size)


def verify_once(schedule: Schedule, key: Hashable) -> None:
    """Verify the schedule unless one of the same key was, or it is too large."""
    if key in _known or work(schedule) > MOST_WORK:
        return
    verify(schedule)
    _known.add(key)


def verify(schedule: Schedule) -> None:
    """Raise UsageError unless every rank ends with exactly what the collective promises.

    Errors too: a slot out of range, a transfer from a slot that holds nothing, two writes of one slot in one round, a
    contribution that is added twice, chunks that do not belong together, bytes sent that are not `sent_share`. Each
    names the round (from 1), the ranks and the slot.
    """
    if schedule.world_size < 1:
        raise UsageError(f"{schedule.algorithm}: {schedule.world_size} ranks: a schedule needs 1 or more")
    if schedule.parts:
        _verify_parts(schedule)
        return
    collective_of(schedule)
    if schedule.collective == "all_to_all" and schedule.slot_count < 2 * schedule.chunks:
        raise UsageError(f"{schedule.algorithm}: {schedule.slot_count} slots: all_to_all needs 2 a chunk")
    if schedule.slot_count < schedule.chunks:
        raise UsageError(
            f"{schedule.algorithm}: {schedule.slot_count} slots do not hold the tensor's {schedule.chunks} chunks"
        )
    state = _State(schedule)
    for phase in schedule.phases:
        for repetition in range(phase.times):
            state.take(phase.round(repetition), phase)
    state.check_outputs()
    state.check_sent()


def _verify_parts(schedule: Schedule) -> None:
    total = math.fsum(share for share, _ in schedule.parts)
    if schedule.phases or abs(total - 1) > 1e-9 or min(share for share, _ in schedule.parts) <= 0:
        raise UsageError(
            f"{schedule.algorithm}: the shares of {len(schedule.parts)} channels add up to {total:g}: they must be "
            "positive and add up to 1, and the schedule have no phases of its own"
        )
    for _, part in schedule.parts:
        if (part.collective, part.world_size, part.root) != (
            schedule.collective,
            schedule.world_size,
            schedule.root,
        ) or part.parts:
            raise UsageError(
                f"{schedule.algorithm}: a channel must be one schedule of the same collective, N and root, and one is a "
                f"{part.collective} of {part.world_size} ranks, root {part.root}"
            )
        verify(part)


def _words(world_size: int) -> int:
    return -(-world_size // 64)


def rank_name(rank: Any) -> str:
    """A rank, or the switch, in words."""
    return "the network" if rank == NETWORK else f"rank {rank}"


class _State:
    """What every slot holds: which chunk of the inputs (-1: nothing), and whose contributions to it."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        n, slots = schedule.world_size, schedule.slot_count
        self.chunk: Ints = np.full((n + 1, slots), -1, np.int64)  # the last row is NETWORK's: index -1
        self.ranks: Words = np.zeros((n + 1, slots, _words(n)), np.uint64)
        self.sent: Ints = np.zeros(n, np.int64)
        self.round = 0
        self.label = ""
        for rank in range(n):
            span = input_span(schedule, rank)
            part = slice(span.start, span.start + span.length)
            self.chunk[rank, part] = np.arange(span.length)
            self.ranks[rank, part, rank // 64] = np.uint64(1) << np.uint64(rank % 64)

    def fail(self, text: str) -> UsageError:
        """The error, with the round that it is in."""
        label = f" ({self.label})" if self.label else ""
        return UsageError(
            f"schedule {self.schedule.algorithm}, {self.schedule.collective} on {self.schedule.world_size} ranks: "
            f"round {self.round}{label}: {text}"
        )

    def take(self, round_: Round, phase: Phase) -> None:
        """Do one round."""
        self.round, self.label = self.round + 1, phase.label
        self._check_ranges(round_)
        count = len(round_.source)
        which = np.repeat(np.arange(count), round_.length)
        offset = np.arange(len(which)) - np.repeat(np.cumsum(round_.length) - round_.length, round_.length)
        source, target = round_.source[which], round_.target[which]
        source_slot, target_slot = round_.source_slot[which] + offset, round_.target_slot[which] + offset
        reduces = round_.reduces[which]
        away = (source != target) & (source != NETWORK)
        self.sent += np.bincount(source[away], minlength=self.schedule.world_size)
        chunk, ranks = self.chunk[source, source_slot], self.ranks[source, source_slot]
        self._refuse(
            chunk < 0,
            lambda i: (
                f"{rank_name(source[i])} sends slot {source_slot[i]} to {rank_name(target[i])}, and it holds nothing"
            ),
        )
        turn = self._turns(target, target_slot, reduces, source)
        copies = ~reduces
        self.chunk[target[copies], target_slot[copies]] = chunk[copies]
        self.ranks[target[copies], target_slot[copies]] = ranks[copies]
        for k in range(int(turn.max(initial=-1)) + 1 if reduces.any() else 0):
            chosen = np.flatnonzero(reduces & (turn == k))
            self._add(source[chosen], target[chosen], target_slot[chosen], chunk[chosen], ranks[chosen])

    def _add(self, source: Ints, target: Ints, slot: Ints, chunk: Ints, ranks: Words) -> None:
        there, whose = self.chunk[target, slot], self.ranks[target, slot]
        self._refuse(
            (there < 0) & (target != NETWORK),
            lambda i: f"{rank_name(source[i])} adds to slot {slot[i]} of rank {target[i]}, which holds nothing",
        )
        self._refuse(
            (there >= 0) & (there != chunk),
            lambda i: (
                f"{rank_name(source[i])} adds chunk {chunk[i]} of the input to slot {slot[i]} of {rank_name(target[i])}, "
                f"which holds chunk {there[i]}"
            ),
        )
        self._refuse(
            (whose & ranks).any(axis=1),
            lambda i: (
                f"{rank_name(source[i])} adds the contribution of rank {_members(whose[i] & ranks[i])} to slot {slot[i]} "
                f"of {rank_name(target[i])}, which has it already"
            ),
        )
        self.chunk[target, slot] = chunk
        self.ranks[target, slot] = whose | ranks

    def _turns(self, target: Ints, slot: Ints, reduces: Bools, source: Ints) -> Ints:
        """Of each transfer of one slot, how many others of the round write the same slot before it."""
        key = (target + 1) * self.schedule.slot_count + slot
        order = np.argsort(key, kind="stable")
        ordered = key[order]
        first = np.r_[True, ordered[1:] != ordered[:-1]] if len(key) else np.zeros(0, np.bool_)
        starts = np.maximum.accumulate(np.where(first, np.arange(len(key)), 0))
        turn = np.empty(len(key), np.int64)
        turn[order] = np.arange(len(key)) - starts
        again = order[~first]  # meets the entry before it in `order`
        before = order[np.flatnonzero(~first) - 1]
        clash = ~(reduces[again] & reduces[before])
        self._refuse(
            clash,
            lambda i: (
                f"{rank_name(source[before[i]])} and {rank_name(source[again[i]])} both write slot {slot[again[i]]} of "
                f"{rank_name(target[again[i]])}; only additions may meet"
            ),
        )
        return turn

    def _check_ranges(self, round_: Round) -> None:
        n, slots = self.schedule.world_size, self.schedule.slot_count
        sizes = {len(getattr(round_, name)) for name in Round.__slots__}
        if len(sizes) != 1:
            raise self.fail(f"its arrays have {', '.join(map(str, sorted(sizes)))} entries: one for each transfer")
        for end in (round_.source, round_.target):
            self._refuse((end < NETWORK) | (end >= n), lambda i, end=end: f"rank {end[i]} is not one of 0 to {n - 1}")
        self._refuse((round_.source == NETWORK) & (round_.target == NETWORK), lambda i: "the network sends to itself")
        self._refuse(round_.length < 1, lambda i: f"{_pair(round_, i)}: {round_.length[i]} slots: 1 or more")
        for first, whose in ((round_.source_slot, round_.source), (round_.target_slot, round_.target)):
            last = first + round_.length - 1
            self._refuse(
                (first < 0) | (last >= slots),
                lambda i, first=first, last=last, whose=whose: (
                    f"{_pair(round_, i)}: slots {first[i]} to {last[i]} of {rank_name(whose[i])}, which has 0 to "
                    f"{slots - 1}"
                ),
            )

    def _refuse(self, bad: Any, text: Any) -> None:
        """Fail with `text(i)` for the first transfer i of which `bad` is true."""
        if bad.any():
            raise self.fail(text(int(np.flatnonzero(bad)[0])))

    def check_outputs(self) -> None:
        """Compare every rank's output with the postcondition."""
        schedule = self.schedule
        kind = collective_of(schedule)
        known: dict[tuple[tuple[int, int], ...], int] = {}
        sets: list[Words] = []
        self.label = "the end"
        for rank in range(schedule.world_size):
            pieces = kind.postcondition(Place(schedule.chunks, schedule.world_size, rank, schedule.root))
            if not pieces:
                continue
            for piece in pieces:
                if piece.sources not in known:
                    assert len({first for _, first in piece.sources}) == 1
                    known[piece.sources] = len(sets)
                    sets.append(_set_of([source for source, _ in piece.sources], schedule.world_size))
            table = np.array([(p.start, p.length, p.sources[0][1], known[p.sources]) for p in pieces], np.int64)
            which = np.repeat(np.arange(len(pieces)), table[:, 1])
            inside = np.arange(len(which)) - np.repeat(np.cumsum(table[:, 1]) - table[:, 1], table[:, 1])
            slot = output_span(schedule, rank).start + table[which, 0] + inside
            first = table[which, 2] + inside
            wanted = np.array([sets[index] for index in table[:, 3]])[which]
            chunk, ranks = self.chunk[rank, slot], self.ranks[rank, slot]
            self._refuse(chunk < 0, lambda i, rank=rank, slot=slot: f"rank {rank} has nothing in slot {slot[i]}")
            self._refuse(
                (chunk != first) | (ranks != wanted).any(axis=1),
                lambda i, rank=rank, slot=slot, chunk=chunk, ranks=ranks, first=first, wanted=wanted: (
                    f"slot {slot[i]} of rank {rank} holds {_content(chunk[i], ranks[i])}, and must hold "
                    f"{_content(first[i], wanted[i])}"
                ),
            )

    def check_sent(self) -> None:
        """Compare what each rank has sent, counted, with `sent_share`."""
        claimed = self.schedule.sent_share()
        counted = self.sent / self.schedule.chunks
        self.label = "the end"
        self._refuse(
            ~np.isclose(claimed, counted, rtol=1e-9, atol=1e-12),
            lambda i: f"rank {i} has sent {counted[i]:g} S, and sent_share() says {claimed[i]:g} S",
        )


def _pair(round_: Round, index: int) -> str:
    return f"{rank_name(round_.source[index])} to {rank_name(round_.target[index])}"


def _set_of(ranks: list[int], world_size: int) -> Words:
    found = np.zeros(_words(world_size), np.uint64)
    for rank in ranks:
        found[rank // 64] |= np.uint64(1) << np.uint64(rank % 64)
    return found


def _members(words: Words) -> str:
    """The ranks of a set as text: `0-3,6`."""
    bits = np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little")
    ranks = np.flatnonzero(bits).tolist()
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _content(chunk: int, ranks: Words) -> str:
    return f"chunk {chunk} of rank {_members(ranks)}"
