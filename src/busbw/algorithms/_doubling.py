"""Halving and doubling over blocks of slots: what recursive doubling and halving-doubling share.

With N between P = 2^k and 2P, rank v + P is the *extra* of rank v: it hands its part over first and gets its result at
the end; the P others exchange. A block of ranks [a, a + m) stands for their extras too.
"""

from __future__ import annotations

import numpy as np

from busbw.algorithms._patterns import constant, once, power_below
from busbw.core.schedule import Ints, Phase


class Doubling:
    """The exchanges of N ranks; `slots` is P (blocks without extras: chunks of any kind) or N (one slot a rank)."""

    def __init__(self, world_size: int, slots: int, real: Ints | None = None) -> None:
        self.world_size, self.slots = world_size, slots
        self.power = power_below(world_size)
        self.real = np.arange(world_size) if real is None else real
        self.active = np.arange(self.power)
        self.extra = np.arange(self.power, world_size)

    def exchange(self, mask: int, start: Ints, *, reduces: bool, label: str) -> Phase:
        """Each active rank v sends the block [start, start + mask) to v ^ mask, and the block's extras."""
        source, target, slot = self.active, self.active ^ mask, start
        length = constant(mask, source)
        if self.slots > self.power:
            more = np.clip(self.slots - (start + self.power), 0, mask)
            has = more > 0
            source = np.concatenate([source, source[has]])
            target = np.concatenate([target, target[has]])
            slot = np.concatenate([slot, start[has] + self.power])
            length = np.concatenate([length, more[has]])
        return once(self.real[source], self.real[target], slot, length, reduces=reduces, label=label)

    def halving(self, label: str = "reduce-scatter") -> list[Phase]:
        """From the whole tensor on each active rank to the sum of its own block."""
        masks = [1 << k for k in reversed(range(self.power.bit_length() - 1))]
        return [self.exchange(m, (self.active ^ m) // m * m, reduces=True, label=label) for m in masks]

    def doubling(self, label: str = "all-gather") -> list[Phase]:
        """From each active rank's own block to everything on each."""
        masks = [1 << k for k in range(self.power.bit_length() - 1)]
        return [self.exchange(m, self.active // m * m, reduces=False, label=label) for m in masks]

    def fold_in(self, start: Ints, length: Ints, *, reduces: bool, label: str = "fold") -> list[Phase]:
        """Extras hand slots over to their partners."""
        return self._fold(self.extra, self.extra - self.power, start, length, reduces, label)

    def fold_out(self, start: Ints, length: Ints, label: str = "unfold") -> list[Phase]:
        """Partners give their extras what they need."""
        return self._fold(self.extra - self.power, self.extra, start, length, False, label)

    def _fold(self, source: Ints, target: Ints, start: Ints, length: Ints, reduces: bool, label: str) -> list[Phase]:
        if not len(source):
            return []
        return [once(self.real[source], self.real[target], start, length, reduces=reduces, label=label)]

    @property
    def everything(self) -> tuple[Ints, Ints]:
        """The whole tensor, for each extra."""
        return constant(0, self.extra), constant(self.slots, self.extra)

    @property
    def own(self) -> tuple[Ints, Ints]:
        """Each extra's own slot."""
        return self.extra, constant(1, self.extra)


def gathered(world_size: int) -> list[Phase]:
    """All-gather by recursive doubling; extras give their shard first and get all the others at the end."""
    exchanges = Doubling(world_size, world_size)
    phases = exchanges.fold_in(*exchanges.own, reduces=False) + exchanges.doubling()
    extra, partner = exchanges.extra, exchanges.extra - exchanges.power
    if len(extra):
        source, target = np.tile(partner, 2), np.tile(extra, 2)
        slot = np.concatenate([constant(0, extra), extra + 1])
        length = np.concatenate([extra, world_size - 1 - extra])
        has = length > 0
        phases.append(once(source[has], target[has], slot[has], length[has], label="unfold"))
    return phases
