"""Schedule -> what each slot of each rank holds after each round, in symbols: which ranks' data have been added there.

Channels that work at the same time stand side by side: their slots follow each other on every rank, and round t is
round t of each. NETWORK, where it takes part, is one more place after the ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from busbw.core.collective import COLLECTIVES, Place
from busbw.core.schedule import NETWORK, Schedule
from busbw.core.verify import input_span, output_span
from busbw.errors import UsageError

Content: TypeAlias = frozenset[tuple[int, int]]
"""What a slot holds: the sum of these inputs, pairs of (rank, chunk). Empty: nothing of the collective's data."""
Cell: TypeAlias = tuple[int, int]
"""Place (a rank, or the network) and slot."""
State: TypeAlias = dict[Cell, Content]

NOTHING: Content = frozenset()


@dataclass(frozen=True, slots=True)
class Move:
    """One transfer of slots in a row. Places are ranks; the network is place `world_size`."""

    source: int
    target: int
    source_slot: int
    target_slot: int
    length: int
    reduces: bool

    def cells(self) -> Iterator[tuple[Cell, Cell]]:
        """Pairs of (from, to)."""
        for i in range(self.length):
            yield (self.source, self.source_slot + i), (self.target, self.target_slot + i)


@dataclass(frozen=True, slots=True)
class Step:
    """What moves together, and what for."""

    label: str
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class Replay:
    """A schedule with the state of every slot at the start and after each step."""

    schedule: Schedule
    slots: int
    """Slots of each rank, of all channels."""
    chunks: tuple[int, ...]
    """Slots that each channel has."""
    steps: tuple[Step, ...]
    states: tuple[State, ...]
    """[steps + 1]; a cell that is not in it holds nothing."""
    wanted: State
    """What the collective's postcondition asks of each cell at the end."""
    has_network: bool

    @property
    def world_size(self) -> int:
        """Ranks."""
        return self.schedule.world_size

    @cached_property
    def need(self) -> dict[tuple[int, int], int]:
        """(rank, chunk) -> of how many inputs the sum is that it becomes a part of."""
        return {token: len(content) for content in self.wanted.values() for token in content}

    def level(self, content: Content) -> float:
        """The share of its sum that a slot holds: 1 for what is complete, and for a copy."""
        needed = max((self.need.get(token, 1) for token in content), default=1)
        return min(len(content) / needed, 1.0)

    def is_sum(self, content: Content) -> bool:
        """A complete sum of several ranks' data."""
        return len(content) > 1 and self.level(content) == 1.0

    def is_final(self, cell: Cell, content: Content) -> bool:
        """What this rank has to end with stands here already."""
        return bool(content) and self.wanted.get(cell) == content

    @cached_property
    def live(self) -> tuple[frozenset[Cell], ...]:
        """[steps + 1] cells whose content is still read, added to, or wanted at the end; the rest is left over."""
        alive = set(self.wanted)
        out = [frozenset(alive)]
        for step in reversed(self.steps):
            pairs = [(pair, move.reduces) for move in step.moves for pair in move.cells()]
            read = {source for (source, target), _ in pairs if target in alive or target[0] == self.world_size}
            alive -= {target for (_, target), reduces in pairs if not reduces}
            alive |= read
            out.append(frozenset(alive))
        return tuple(reversed(out))


def replay(schedule: Schedule) -> Replay:
    """Unroll and follow a schedule; UsageError where it does not end with what its collective promises."""
    lanes = list(_lanes(schedule))
    offsets = [sum(lane.slot_count for lane in lanes[:i]) for i in range(len(lanes))]
    slots = sum(lane.slot_count for lane in lanes)
    steps = tuple(_steps(lanes, offsets))
    state: State = {}
    wanted: State = {}
    for lane, offset in zip(lanes, offsets, strict=True):
        before, after = _ends(lane, offset)
        state |= before
        wanted |= after
    states = [state]
    for step in steps:
        state = _after(state, step, schedule.world_size)
        states.append(state)
    wrong = [cell for cell, content in wanted.items() if state.get(cell, NOTHING) != content]
    if wrong:
        rank, slot = wrong[0]
        raise UsageError(
            f"{schedule.algorithm} {schedule.collective} on {schedule.world_size} ranks does not end as it should: slot "
            f"{slot} of rank {rank} holds {len(state.get(wrong[0], NOTHING))} of {len(wanted[wrong[0]])} inputs"
        )
    has_network = any(schedule.world_size in (move.source, move.target) for step in steps for move in step.moves)
    return Replay(schedule, slots, tuple(lane.slot_count for lane in lanes), steps, tuple(states), wanted, has_network)


def _lanes(schedule: Schedule) -> Iterator[Schedule]:
    if not schedule.parts:
        yield schedule
    for _, part in schedule.parts:
        yield from _lanes(part)


def _steps(lanes: list[Schedule], offsets: list[int]) -> Iterator[Step]:
    iterators = [_moves(lane, offset) for lane, offset in zip(lanes, offsets, strict=True)]
    while True:
        together = [found for found in (next(iterator, None) for iterator in iterators) if found]
        if not together:
            return
        label = " and ".join(dict.fromkeys(label for label, _ in together if label))
        yield Step(label, tuple(move for _, moves in together for move in moves))


def _moves(lane: Schedule, offset: int) -> Iterator[tuple[str, tuple[Move, ...]]]:
    for phase in lane.phases:
        for repetition in range(phase.times):
            one = phase.round(repetition)
            columns = (one.source, one.target, one.source_slot, one.target_slot, one.length, one.reduces)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            yield (
                phase.label,
                tuple(
                    Move(
                        lane.world_size if source == NETWORK else source,
                        lane.world_size if target == NETWORK else target,
                        offset + source_slot,
                        offset + target_slot,
                        length,
                        reduces,
                    )
                    for source, target, source_slot, target_slot, length, reduces in rows
                ),
            )


def _after(state: State, step: Step, network: int) -> State:
    """Every transfer reads what was there before the step; what is added in the network starts from nothing."""
    out = dict(state)
    for move in step.moves:
        if move.target == network:
            for _, cell in move.cells():
                out.pop(cell, None)
    # What replaces comes before what adds: a step may do both to one slot.
    for move in sorted(step.moves, key=lambda move: move.reduces):
        for source, target in move.cells():
            came = state.get(source, NOTHING)
            out[target] = out.get(target, NOTHING) | came if move.reduces else came
    return {cell: content for cell, content in out.items() if content}


def _ends(lane: Schedule, offset: int) -> tuple[State, State]:
    """What each rank holds at first, and what it has to hold at the end, by the collective's own description."""
    kind, n = COLLECTIVES.get(lane.collective), lane.world_size
    spans = [input_span(lane, rank) for rank in range(n)]
    before: State = {
        (rank, offset + slot): frozenset({(rank, offset + slot)})
        for rank, span in enumerate(spans)
        for slot in range(span.start, span.start + span.length)
    }
    after: State = {}
    for rank in range(n):
        begin = output_span(lane, rank).start
        for piece in kind.postcondition(Place(lane.chunks, n, rank, lane.root)):
            for i in range(piece.length):
                content = frozenset((r, offset + spans[r].start + first + i) for r, first in piece.sources)
                after[(rank, offset + begin + piece.start + i)] = content
    return before, after
