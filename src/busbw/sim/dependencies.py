"""A schedule as messages: who waits for whom, when nothing holds a rank up but the data that it needs.

A message is what one rank sends another in one round. It begins when the data in its source slots is there, when its
source has sent what it sends in earlier rounds, and when its target has received what it receives in earlier rounds:
each rank sends and receives in the order of its rounds, and nothing else holds it up. What a message brings counts from
when it has arrived and, where it is added, has been added, as has all that is added there before it; a rank adds one
message after the other, as they arrive. A rank is taken
to have room for what arrives before it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from busbw.core.schedule import NETWORK, Ints, Round, Schedule
from busbw.core.topology import Floats
from busbw.errors import UsageError

MOST_MESSAGES = 4_000_000
MOST_SLOTS = 1 << 27
"""Ranks x slots x channels x pieces, of which a table is kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """What a rank sends, or receives, in one round of a channel is a turn; its next turn begins when this one has ended."""

    of_source: Ints
    """[messages] the turn in which it is sent; -1 where the source is a switch."""
    of_target: Ints
    """[messages] the turn in which it is received; -1 where the target is a switch."""
    size: Ints
    """[turns] messages in it."""
    then: Ints
    """[turns] the turn after it, or -1."""
    members: tuple[Ints, Ints]
    """Table: the messages of each turn."""

    def waits(self) -> Ints:
        """[messages] turns that have to end before it."""
        has_before = np.zeros(len(self.size) + 1, np.int64)
        has_before[self.then[self.then >= 0]] = 1
        return has_before[self.of_source] + has_before[self.of_target]


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """All messages of a schedule, each after those that it waits for; arrays have one entry a message."""

    source: Ints
    """Ranks; NETWORK is -1."""
    target: Ints
    share: Floats
    """Of S."""
    added: Floats
    """Share of S that the target adds into its own."""
    round: Ints
    channel: Ints
    start_after: tuple[Ints, Ints]
    """Table (offsets, messages): a message begins when these have brought their data."""
    end_after: tuple[Ints, Ints]
    """Table: what a message brings counts when it has been added and what these bring counts."""
    turns: Turns
    """The order in which ranks send and receive."""


def message_count(schedule: Schedule) -> int:
    """How many messages there are at least, without listing them."""
    if schedule.parts:
        return sum(message_count(part) for _, part in schedule.parts)
    total = 0
    for phase in schedule.phases:
        if phase.all_pairs:
            total += schedule.world_size * (schedule.world_size - 1)
        else:
            total += int(phase.repeats[phase.source != phase.target].sum())
    return total


def find_messages(schedule: Schedule, pieces: int = 1) -> Messages:
    """List the messages; UsageError where there are too many for this rung."""
    count = message_count(schedule) * pieces
    parts = schedule.parts or ((1.0, schedule),)
    slots = sum(part.slot_count * (part.world_size + 1) for _, part in parts)
    if count > MOST_MESSAGES or slots > MOST_SLOTS:
        raise UsageError(
            f"{schedule.algorithm} of N={schedule.world_size}: {count} messages are too many to follow each by its "
            f"dependencies (at most {MOST_MESSAGES}, over {MOST_SLOTS} slots): leave --exact away, or take fewer ranks"
        )
    collector = _Collector(pieces)
    for channel, (share, part) in enumerate(parts):
        collector.add(part, share, channel)
    return collector.messages()


class _Collector:
    """Messages of one round after the other, with the last writer of every slot."""

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces
        self.count = 0
        self.columns: list[tuple[Ints, Ints, Floats, Floats, Ints, Ints]] = []
        self.starts: list[tuple[Ints, Ints]] = []
        self.ends: list[tuple[Ints, Ints]] = []

    def add(self, schedule: Schedule, share: float, channel: int) -> None:
        """All rounds of one channel."""
        writer = np.full((schedule.world_size + 1) * schedule.slot_count, -1, np.int64)
        for number, one in enumerate(schedule.rounds()):
            self._round(one, schedule, share / schedule.chunks, channel, number, writer)

    def _round(self, one: Round, schedule: Schedule, chunk: float, channel: int, number: int, writer: Ints) -> None:
        n, slots = schedule.world_size, schedule.slot_count
        owner, place = _spread(one.length)
        kept = (one.source == one.target)[owner]
        read = np.where(one.source == NETWORK, n, one.source)[owner] * slots + one.source_slot[owner] + place
        written = np.where(one.target == NETWORK, n, one.target)[owner] * slots + one.target_slot[owner] + place
        before = writer.copy() if kept.any() else writer
        if kept.all():
            writer[written] = before[read]
            return
        pair = (one.source * (n + 2) + one.target)[owner]  # NETWORK is -1: keys stay apart by n + 2
        moved = ~kept
        names, message = np.unique(pair[moved], return_inverse=True)
        first = np.zeros(len(names), np.int64)
        first[message[::-1]] = owner[moved][::-1]
        bytes_share = np.bincount(message, minlength=len(names)) * chunk
        adds = one.reduces[owner][moved]
        added = np.bincount(message, adds, minlength=len(names)) * chunk
        source, target = one.source[first], one.target[first]
        added = np.where(target == NETWORK, 0.0, added)
        size = len(names)
        for piece in range(self.pieces):
            self.columns.append(
                (
                    source,
                    target,
                    bytes_share / self.pieces,
                    added / self.pieces,
                    np.full(size, number * self.pieces + piece),
                    np.full(size, channel),
                )
            )
        # Writers are kept as the message of piece 0; piece k of a message is `size` x k further.
        self._wait(self.starts, message, before[read[moved]], size)
        previous = before[written[moved]]
        chained = adds & (previous >= 0)
        self._wait(self.ends, message[chained], previous[chained], size)
        self._same_slot(written[moved], message, adds, size)
        if kept.any():
            own = np.flatnonzero(kept)
            writer[written[own]] = before[read[own]]
        late_last = np.argsort(message, kind="stable")  # additions into one slot: the last in their chain stays
        writer[written[moved][late_last]] = self._name(message, size)[late_last]
        self.count += size * self.pieces

    def _name(self, message: Ints, size: int) -> Ints:
        """A message as a writer: its number and how far apart its pieces are."""
        return ((self.count + message) << 24) | size

    def _wait(self, kind: list[tuple[Ints, Ints]], message: Ints, writers: Ints, size: int) -> None:
        known = writers >= 0
        if not known.any():
            return
        both = np.unique(np.stack([message[known], writers[known]], axis=1), axis=0)
        number, apart = both[:, 1] >> 24, both[:, 1] & ((1 << 24) - 1)
        for piece in range(self.pieces):
            kind.append((self.count + both[:, 0] + piece * size, number + piece * apart))

    def _same_slot(self, written: Ints, message: Ints, adds: np.ndarray, size: int) -> None:
        """Additions into one slot within a round count one after the other, so that the last of them stands for all."""
        order = np.lexsort((message, written))
        slot, who = written[order], message[order]
        again = np.concatenate([[False], (slot[1:] == slot[:-1]) & adds[order][1:] & (who[1:] != who[:-1])])
        if not again.any():
            return
        late = np.flatnonzero(again)
        both = np.unique(np.stack([who[late], who[late - 1]], axis=1), axis=0)
        for piece in range(self.pieces):
            shift = self.count + piece * size
            self.ends.append((both[:, 0] + shift, both[:, 1] + shift))

    def messages(self) -> Messages:
        """Everything as tables."""
        columns = [np.concatenate([row[k] for row in self.columns]) for k in range(6)]
        source, target, share, added, number, channel = columns
        return Messages(
            source=source.astype(np.int64),
            target=target.astype(np.int64),
            share=share,
            added=added,
            round=number.astype(np.int64),
            channel=channel.astype(np.int64),
            start_after=_table(self.starts, self.count),
            end_after=_table(self.ends, self.count),
            turns=_turns(source, target, channel, number),
        )


def _spread(length: Ints) -> tuple[Ints, Ints]:
    """Each slot of each transfer: (transfer, place in its run)."""
    owner = np.repeat(np.arange(len(length)), length)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(length) - length, length)


def _table(pairs: list[tuple[Ints, Ints]], count: int) -> tuple[Ints, Ints]:
    if not pairs:
        return np.zeros(count + 1, np.int64), np.zeros(0, np.int64)
    who = np.concatenate([pair[0] for pair in pairs])
    what = np.concatenate([pair[1] for pair in pairs])
    order = np.argsort(who, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(who, minlength=count))])
    return offsets.astype(np.int64), what[order].astype(np.int64)


def _turns(source: Ints, target: Ints, channel: Ints, number: Ints) -> Turns:
    count = len(source)
    message = np.tile(np.arange(count), 2)
    rank = np.concatenate([source, target])
    side = np.repeat([0, 1], count)
    kept = np.flatnonzero(rank != NETWORK)
    key = (np.tile(channel, 2), side, rank, np.tile(number, 2))
    order = kept[np.lexsort([column[kept] for column in reversed(key)])]
    c, d, r, n = (column[order] for column in key)
    same = (c[1:] == c[:-1]) & (d[1:] == d[:-1]) & (r[1:] == r[:-1])
    new = np.concatenate([[True], ~(same & (n[1:] == n[:-1]))])[: len(order)]
    turn = np.cumsum(new) - 1
    first = np.flatnonzero(new)
    turns = len(first)
    then = np.full(turns, -1, np.int64)
    follows = np.concatenate([[False], same])[first]  # not the first of its rank and side
    then[np.flatnonzero(follows) - 1] = np.flatnonzero(follows)
    of = np.full((2, count), -1, np.int64)
    of[side[order], message[order]] = turn
    size = np.bincount(turn, minlength=turns).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    return Turns(of[0], of[1], size, then, (offsets, message[order].astype(np.int64)))
