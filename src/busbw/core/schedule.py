"""How an algorithm carries out a collective: rounds of transfers of chunks between ranks, which verify themselves.

Each rank has `slots` slots of one chunk each; a chunk is `1 / chunks` of the tensor S. A transfer copies a run of slots
from one rank to another, or adds them there. All transfers of a round read what was there before the round, and a
round begins (for this description) when the one before has ended; the simulator's finest rung, and real ranks, wait for
the data that they need and nothing else.

A *phase* is a pattern of transfers that is done `times` times while the chunks move on, as in a ring. So the ring of
131072 ranks is two phases and not 34 thousand million transfers; `rounds()` unrolls it where N is small.

Where a rank's slots start and end is the collective's *layout*:

- slot k of a rank is chunk k of the tensor, before and after, for every collective but all_to_all;
- for all_to_all slots 0 to chunks - 1 are what the rank sends (in the order of the target ranks), slots `chunks` to
  2 chunks - 1 what it receives (in the order of the sources). What it keeps is a transfer to itself.

Further slots are scratch. NETWORK in place of a rank stands for a switch that reduces and multicasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from busbw.core.collective import COLLECTIVES
from busbw.errors import UsageError
from busbw.registry import Registry

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NETWORK = -1
"""In place of a rank: the switch in the middle. What is reduced there comes from all ranks, what it sends is one result."""


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """Transfers that happen together; all arrays have one entry a transfer."""

    source: Ints
    target: Ints
    source_slot: Ints
    target_slot: Ints
    length: Ints
    """Slots in a row."""
    reduces: Bools
    """Added to what the target has there; otherwise it replaces it."""

    def where(self, chosen: Bools | Ints) -> Round:
        """Only the chosen transfers."""
        return Round(
            self.source[chosen],
            self.target[chosen],
            self.source_slot[chosen],
            self.target_slot[chosen],
            self.length[chosen],
            self.reduces[chosen],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """One pattern of transfers, `times` times over: who sends to whom, and how much, stays; which slots, moves on.

    A pipeline fills and drains: a transfer happens in the repetitions from `begin` up to, and without, `end`.
    """

    source: Ints
    target: Ints
    length: Ints
    reduces: bool | Bools
    """Of all transfers, or of each."""
    slots: Callable[[int], tuple[Ints, Ints]]
    """Repetition (from 0) -> source slots and target slots, one for each transfer (those that rest are not looked at)."""
    times: int = 1
    label: str = ""
    """What it is for: `reduce-scatter`."""
    begin: Ints | None = None
    """The first repetition of each transfer; None: 0."""
    end: Ints | None = None
    """The repetition of each transfer that is its first no more; None: `times`."""
    detail: Callable[[int], Round] | None = None
    """Repetition -> its transfers, where the slots of a transfer do not lie in a row or the pattern moves on.

    `source`, `target` and `length` are then each pair's totals (without what a rank keeps), and `slots` means nothing.
    """
    all_pairs: bool = False
    """Over the repetitions each rank sends `length` slots to every other rank once; `target` is the first's."""

    @property
    def repeats(self) -> Ints:
        """How many times each transfer happens."""
        begin = 0 if self.begin is None else self.begin
        end = self.times if self.end is None else self.end
        return np.broadcast_to(np.asarray(end - begin, np.int64), self.source.shape)

    def round(self, repetition: int) -> Round:
        """The transfers of one repetition."""
        if self.detail is not None:
            return self.detail(repetition)
        source_slot, target_slot = self.slots(repetition)
        reduces = np.broadcast_to(np.asarray(self.reduces, np.bool_), self.source.shape)
        whole = Round(self.source, self.target, source_slot, target_slot, self.length, reduces)
        if self.begin is None and self.end is None:
            return whole
        active = np.ones(len(self.source), np.bool_)
        if self.begin is not None:
            active &= self.begin <= repetition
        if self.end is not None:
            active &= repetition < self.end
        return whole.where(active)


def no_slots(repetition: int) -> tuple[Ints, Ints]:
    """`slots` of a phase with `detail`: its transfers are those of `round()`."""
    raise ValueError("the slots of this phase do not lie in a row: take them from round()")


@dataclass(frozen=True, eq=False)
class Schedule:
    """One collective on N ranks as phases. Equal channels may carry parts of the tensor side by side (`channels`).

    `phases` of one channel follow each other. A schedule with several channels is `parts`: schedules that run at the
    same time, each on its share of the tensor.
    """

    algorithm: str
    collective: str
    world_size: int
    chunks: int
    """The tensor is cut into so many chunks."""
    phases: tuple[Phase, ...]
    root: int = 0
    slots: int = 0
    """Slots of each rank; 0: as many as the layout needs."""
    parts: tuple[tuple[float, Schedule], ...] = ()
    """Channels: pairs of (share of S, schedule on that share); then `phases` is empty."""
    notes: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """What it was made with: order, channels, hosts."""

    @cached_property
    def slot_count(self) -> int:
        """Slots of each rank."""
        return self.slots or (2 * self.chunks if self.collective == "all_to_all" else self.chunks)

    @property
    def round_count(self) -> int:
        """Rounds, one after the other; of the longest channel where there are several."""
        if self.parts:
            return max(part.round_count for _, part in self.parts)
        return sum(phase.times for phase in self.phases)

    def rounds(self) -> Iterator[Round]:
        """Every round, unrolled. Of one channel: UsageError where there are several."""
        if self.parts:
            raise UsageError(
                f"{self.algorithm}: a schedule of {len(self.parts)} channels has rounds in each of its parts"
            )
        for phase in self.phases:
            for repetition in range(phase.times):
                yield phase.round(repetition)

    def sent_share(self) -> npt.NDArray[np.float64]:
        """[N] what each rank sends to others in all, as a share of S."""
        sent = np.zeros(self.world_size)
        if self.parts:
            for share, part in self.parts:
                sent += share * part.sent_share()
            return sent
        for phase in self.phases:
            away = (phase.source != phase.target) & (phase.source != NETWORK)
            slots = phase.length[away] * phase.repeats[away]
            sent += np.bincount(phase.source[away], slots, self.world_size) / self.chunks
        return sent


Builder = Callable[..., Schedule]
"""Makes the Schedule of one collective: (world_size, *, root=0, **options), where options have defaults."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One algorithm. Each file of `busbw.algorithms` defines one, named ALGORITHM."""

    name: str
    summary: str
    """How it goes, in one sentence."""
    source: str
    """The paper, or the library's file, that it is from."""
    builders: Mapping[str, Builder]
    """Collective -> what builds its schedule."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Option -> what it sets, for the command line's help."""
    supports: Callable[[str, int], str] = lambda collective, world_size: ""
    """Why it can't do this at this N; "" where it can."""

    def check_options(self, options: Mapping[str, Any]) -> None:
        """UsageError for an option that this algorithm does not have."""
        for name in options:
            if name not in self.options:
                known = ", ".join(self.options) or "it has none"
                raise UsageError(f"algorithm {self.name} has no option {name!r} ({known})")

    def why_not(self, collective: str, world_size: int) -> str:
        """Why it can't do this collective on so many ranks; "" where it can."""
        if collective not in self.builders:
            return f"algorithm {self.name} has no {collective}: it does {', '.join(sorted(self.builders))}"
        if world_size < 2:
            return f"algorithm {self.name}: a schedule needs 2 ranks or more, not {world_size}"
        reason = self.supports(collective, world_size)
        return f"algorithm {self.name} can't do {collective} on {world_size} ranks: {reason}" if reason else ""

    def build(self, collective: str, world_size: int, *, root: int = 0, **options: Any) -> Schedule:
        """The schedule, verified where that takes little; UsageError where the algorithm can't do this, or an option is wrong.

        `busbw.core.verify` says how large a schedule is verified here (`MOST_WORK`), and verifies any.
        """
        COLLECTIVES.get(collective)
        reason = self.why_not(collective, world_size)
        if reason:
            raise UsageError(reason)
        if not 0 <= root < world_size:
            raise UsageError(f"root {root} is not one of the ranks 0 to {world_size - 1}")
        self.check_options(options)
        from busbw.core.verify import verify_once

        builder = self.builders[collective]
        schedule = builder(world_size, root=root, **options)
        # By what builds it, not by its name: another algorithm may have the same one.
        maker = getattr(builder, "func", builder)
        verify_once(schedule, (maker, collective, world_size, root, repr(sorted(options.items()))))
        return schedule


ALGORITHMS: Registry[Algorithm] = Registry(
    "busbw.algorithms", "ALGORITHM", "algorithm", skip=("spec", "msccl_xml", "user_file")
)
"""Every algorithm by name."""
