"""Patterns that several algorithms are made of. All arrays have one entry a transfer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from busbw.core.schedule import Bools, Ints, Phase, Round, no_slots
from busbw.errors import UsageError


def constant(value: int, like: Ints) -> Ints:
    """`value` for each transfer."""
    return np.full(len(like), value, np.int64)


def once(
    source: Ints,
    target: Ints,
    slot: Ints,
    length: Ints | None = None,
    *,
    to: Ints | None = None,
    reduces: bool | Bools = False,
    label: str = "",
) -> Phase:
    """A round that happens once; slots keep their place where `to` does not say otherwise."""
    slots = (slot, slot if to is None else to)
    return Phase(
        source,
        target,
        constant(1, source) if length is None else length,
        reduces,
        lambda repetition: slots,
        label=label,
    )


def ring_pass(groups: Ints, first: Ints, count: int, *, lag: int, reduces: bool, label: str, stride: int = 1) -> Phase:
    """N-1 steps around rings of N ranks, side by side.

    `groups` [rings, N] has the ranks of each ring in its order, `first` [rings, N] the first slot of the chunk of each
    position; a chunk is `count` slots, `stride` apart. In step t position p sends the chunk of position p - lag - t.
    """
    n = groups.shape[1]
    position = np.arange(n)
    source, target = groups.ravel(), np.roll(groups, -1, axis=1).ravel()

    def slots(step: int) -> tuple[Ints, Ints]:
        chunk = first[:, (position - lag - step) % n].ravel()
        return chunk, chunk

    def detail(step: int) -> Round:
        return strided(source, target, slots(step)[0], count, stride, reduces)

    length = constant(count, source)
    if stride == 1 or count == 1:
        return Phase(source, target, length, reduces, slots, times=n - 1, label=label)
    return Phase(source, target, length, reduces, no_slots, times=n - 1, label=label, detail=detail)


def strided(source: Ints, target: Ints, first: Ints, count: int, stride: int, reduces: bool) -> Round:
    """Each pair moves `count` slots, `stride` apart, from `first` on."""
    slot = (first[:, None] + stride * np.arange(count)).ravel()
    source, target = np.repeat(source, count), np.repeat(target, count)
    return Round(source, target, slot, slot, constant(1, slot), np.full(len(slot), reduces))


def chain(order: Ints, chunks: int, *, reduces: bool, label: str) -> Phase:
    """A pipeline along the ranks of `order`: the first sends chunk t in step t, each passes on what it received before."""
    source, target = order[:-1], order[1:]
    begin = np.arange(len(source))

    def slots(step: int) -> tuple[Ints, Ints]:
        chunk = step - begin
        return chunk, chunk

    return Phase(
        source,
        target,
        constant(1, source),
        reduces,
        slots,
        times=chunks + len(source) - 1,
        label=label,
        begin=begin,
        end=begin + chunks,
    )


def one_by_one(source: Ints, target: Ints, slot: Ints, *, reduces: bool, label: str, length: int = 1) -> Phase:
    """Transfer i in step i, alone."""
    begin = np.arange(len(source))
    slots = (slot, slot)
    return Phase(
        source,
        target,
        constant(length, source),
        reduces,
        lambda step: slots,
        times=len(source),
        label=label,
        begin=begin,
        end=begin + 1,
    )


def every_pair(
    world_size: int,
    slots: Callable[[Ints, Ints], tuple[Ints, Ints]],
    *,
    reduces: bool,
    label: str,
    keep: Callable[[Ints], tuple[Ints, Ints]] | None = None,
) -> Phase:
    """N-1 steps: in step t rank r sends one slot to rank r + t + 1 and receives from rank r - t - 1.

    `slots` says which, of (sources, targets); `keep` what each rank copies to itself in the first step.
    """
    ranks = np.arange(world_size)
    one = constant(1, ranks)

    def detail(step: int) -> Round:
        target = (ranks + step + 1) % world_size
        source_slot, target_slot = slots(ranks, target)
        sent = Round(ranks, target, source_slot, target_slot, one, np.full(world_size, reduces))
        if keep is None or step:
            return sent
        return joined(sent, Round(ranks, ranks, *keep(ranks), one, np.zeros(world_size, np.bool_)))

    return Phase(
        ranks,
        (ranks + 1) % world_size,
        one,
        reduces,
        no_slots,
        times=world_size - 1,
        label=label,
        detail=detail,
        all_pairs=True,
    )


def joined(*rounds: Round) -> Round:
    """Several rounds as one."""
    return Round(*(np.concatenate([getattr(one, name) for one in rounds]) for name in Round.__slots__))


def wrapped(source: Ints, target: Ints, start: Ints, length: Ints, world_size: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Runs of slots modulo N as runs that do not pass the end: (source, target, slot, length)."""
    start = start % world_size
    head = np.minimum(length, world_size - start)
    tail = length - head
    more = tail > 0
    return (
        np.concatenate([source, source[more]]),
        np.concatenate([target, target[more]]),
        np.concatenate([start, constant(0, start[more])]),
        np.concatenate([head, tail[more]]),
    )


def order_of(world_size: int, order: Sequence[int] | None) -> Ints:
    """The ranks in the order of a ring; UsageError when it is not each of them once."""
    ranks = np.arange(world_size) if order is None else np.atleast_1d(np.asarray(order))
    if ranks.dtype.kind not in "iu" or sorted(ranks.tolist()) != list(range(world_size)):
        raise UsageError(
            f"order {'-'.join(map(str, ranks.tolist()))}: it must have each rank from 0 to {world_size - 1} once"
        )
    return ranks.astype(np.int64)


def whole_number(name: str, value: object, least: int = 1, most: int = 1 << 40) -> int:
    """An option that is a number from `least` to `most`; UsageError otherwise."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        upper = f" to {most}" if most < 1 << 40 else " or more"
        raise UsageError(f"{name}={value}: must be a whole number, {least}{upper}")
    return value


def power_below(world_size: int) -> int:
    """The largest power of two that is not above N."""
    return 1 << (world_size.bit_length() - 1)
