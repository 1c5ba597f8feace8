"""Writing a schedule by hand: rounds of copies and additions, one call a transfer."""

from __future__ import annotations

from typing import Any

import numpy as np

from busbw.core.collective import COLLECTIVES
from busbw.core.schedule import Phase, Round, Schedule
from busbw.errors import UsageError


class Sketch:
    """A schedule in the making.

    The tensor is cut into `chunks` (by default one for each rank); slot k of a rank is chunk k of the tensor, before
    and after (`busbw.core.schedule` has the layout; all_to_all differs). `slots` above that are scratch. Begin a round
    with `round()`, then say what happens in it: all transfers of a round read what was there before it.
    """

    def __init__(self, collective: str, world_size: int, chunks: int = 0, *, root: int = 0, slots: int = 0) -> None:
        COLLECTIVES.get(collective)
        self.collective, self.world_size, self.root = collective, world_size, root
        self.chunks, self.slots = chunks or world_size, slots
        self._rounds: list[tuple[str, list[tuple[int, int, int, int, int, bool]]]] = []

    def round(self, label: str = "") -> None:
        """Begin the next round; `label` says what it is for."""
        self._rounds.append((label, []))

    def copy(self, source: int, target: int, slot: int, to: int | None = None, length: int = 1) -> None:
        """In this round rank `source` sends `length` slots from `slot` on, which replace the target's slots from `to` on."""
        self._put(source, target, slot, to, length, False)

    def add(self, source: int, target: int, slot: int, to: int | None = None, length: int = 1) -> None:
        """As `copy`, but what arrives is added to what the target has there."""
        self._put(source, target, slot, to, length, True)

    def schedule(self, name: str = "", **options: Any) -> Schedule:
        """What was written, as a Schedule."""
        phases = tuple(_phase(label, transfers) for label, transfers in self._rounds if transfers)
        return Schedule(
            name or "sketch",
            self.collective,
            self.world_size,
            self.chunks,
            phases,
            root=self.root,
            slots=self.slots,
            options=options,
        )

    def _put(self, source: int, target: int, slot: int, to: int | None, length: int, reduces: bool) -> None:
        if not self._rounds:
            raise UsageError("a sketch needs round() before its first transfer")
        self._rounds[-1][1].append((source, target, slot, slot if to is None else to, length, reduces))


def _phase(label: str, transfers: list[tuple[int, int, int, int, int, bool]]) -> Phase:
    table = np.array(transfers, np.int64)
    source, target, source_slot, target_slot, length = (np.ascontiguousarray(table[:, k]) for k in range(5))
    return phase_of(Round(source, target, source_slot, target_slot, length, table[:, 5].astype(np.bool_)), label)


def phase_of(round_: Round, label: str = "") -> Phase:
    """One round as a phase that happens once."""
    slots = (round_.source_slot, round_.target_slot)
    return Phase(round_.source, round_.target, round_.length, round_.reduces, lambda repetition: slots, label=label)
