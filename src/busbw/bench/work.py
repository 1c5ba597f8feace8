"""The rows to take, in order: the same list on every rank, from the settings and what the backend can do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from busbw.bench.settings import Settings
from busbw.core.call import Call
from busbw.core.collective import Collective, find_collective
from busbw.core.dtype import DTYPES
from busbw.errors import UsageError
from busbw.units import format_size


@dataclass(frozen=True, slots=True)
class Item:
    """One row to take. `count` is elements of the whole tensor; the Call's size_bytes is exactly count x itemsize."""

    call: Call
    count: int

    @property
    def key(self) -> str:
        """What tells this row from the others of the run, as text; `--resume` skips keys that are on disk."""
        return call_key(self.call)


def call_key(call: Call) -> str:
    """A call as one line of text."""
    place = {None: "", True: " in-place", False: " out-of-place"}[call.in_place]
    redop = "" if call.redop is None else f" {call.redop}"
    root = "" if call.root is None else f" root {call.root}"
    return f"{call.collective} {call.size_bytes} B {call.dtype}{redop}{root}{place} N={call.world_size}"


Supports = Callable[[Collective, str, "str | None", bool], "str | None"]
"""(collective, dtype, redop, in_place) -> None, or the reason why the backend cannot."""


@dataclass(frozen=True, slots=True)
class WorkList:
    """The rows, and a line for each thing that was asked for and is not among them."""

    items: tuple[Item, ...]
    notes: tuple[str, ...]


def work_list(settings: Settings, world_size: int, supports: Supports, memory_bytes: int | None = None) -> WorkList:
    """All rows for one group of `world_size` ranks.

    `memory_bytes` is what one rank may allocate; sizes above it are left out, with a note.
    """
    items: list[Item] = []
    notes: list[str] = []
    seen: set[str] = set()

    def note(text: str) -> None:
        if text not in notes:
            notes.append(text)

    for name in settings.collectives:
        collective = find_collective(name)
        if world_size < collective.least_world:
            note(f"{collective.name} needs {collective.least_world} ranks or more: skipped at N={world_size}")
            continue
        for dtype in settings.dtypes:
            for redop in settings.redops if collective.reduces else (None,):
                for in_place in _placements(settings.placement, collective, dtype, redop, supports, note):
                    for root in _roots(settings, collective, world_size):
                        for size in settings.sizes if collective.moves_data else (0,):
                            itemsize = DTYPES[dtype].itemsize
                            count = collective.whole_count(size, itemsize, world_size)
                            need = buffer_bytes(count * itemsize, in_place, settings.rotate_buffers)
                            if memory_bytes is not None and need > memory_bytes:
                                note(
                                    f"{collective.name} of {format_size(size)} needs {format_size(need)} a rank and "
                                    f"{format_size(memory_bytes)} may be used: skipped"
                                )
                                continue
                            call = Call(
                                collective.name,
                                count * itemsize,
                                world_size,
                                dtype if collective.moves_data else None,
                                redop,
                                root,
                                in_place if collective.moves_data else None,
                            )
                            item = Item(call, count)
                            if item.key not in seen:
                                seen.add(item.key)
                                items.append(item)
    return WorkList(tuple(items), tuple(notes))


def buffer_bytes(size_bytes: int, in_place: bool, rotate: bool) -> int:
    """What one rank allocates for a row of `size_bytes`, at most: input and output, and a margin for checking."""
    copies = 1 if in_place else 2
    return size_bytes * copies + min(size_bytes, 64 * 2**20) * (3 if rotate else 1)


def _placements(
    asked: str,
    collective: Collective,
    dtype: str,
    redop: str | None,
    supports: Supports,
    note: Callable[[str], None],
) -> tuple[bool, ...]:
    """The placements to run; out-of-place (False) first, as nccl-tests does."""
    possible: list[bool] = []
    reasons: dict[bool, str] = {}
    for in_place in (False, True):
        if in_place and collective.in_place_offset is None:
            reasons[in_place] = f"{collective.name} has no in-place form"
            continue
        reason = supports(collective, dtype, redop, in_place)
        if reason is None:
            possible.append(in_place)
        else:
            reasons[in_place] = reason
    wanted = {"auto": possible[:1], "in-place": [True], "out-of-place": [False], "both": [False, True]}[asked]
    if not possible:
        note(f"{'; '.join(dict.fromkeys(reasons.values()))}: skipped")
        return ()
    for in_place in wanted:
        if in_place not in possible and (asked != "both" or collective.in_place_offset is not None or not in_place):
            note(f"{reasons[in_place]}: skipped")
    return tuple(in_place for in_place in wanted if in_place in possible)


def _roots(settings: Settings, collective: Collective, world_size: int) -> tuple[int | None, ...]:
    if not collective.rooted:
        return (None,)
    if settings.roots is None:
        return tuple(range(world_size))
    for root in settings.roots:
        if root >= world_size:
            raise UsageError(f"--root {root}: must be below the world size, {world_size}")
    return settings.roots


def check_ranks(settings: Settings, world_size: int) -> None:
    """Refuse a split or a root that does not suit this many ranks: UsageError, before any of them is started."""
    for group in split_groups(settings.split, world_size):
        for name in settings.collectives:
            _roots(settings, find_collective(name), len(group))


def split_groups(split: str | None, world_size: int) -> tuple[tuple[int, ...], ...]:
    """The groups of ranks that run at the same time; without a split, one group of all.

    `mod K`: rank r joins group r % K (as nccl-tests' NCCL_TESTS_SPLIT). `div K`: group r // K, so K neighbours each.
    `0-3,4-7` or `0,2-4/1,5`: explicit lists, groups parted by `/`, or by `,` when every part is a range.
    """
    if split is None:
        return (tuple(range(world_size)),)
    text = split.strip().lower()
    match = re.fullmatch(r"(mod|div|%|/)\s*(\d+)", text)
    if match is not None:
        k = int(match[2])
        if k < 1:
            raise UsageError(f"--split {split!r}: the number must be at least 1")
        by_remainder = match[1] in ("mod", "%")
        groups: dict[int, list[int]] = {}
        for rank in range(world_size):
            groups.setdefault(rank % k if by_remainder else rank // k, []).append(rank)
        return tuple(tuple(group) for _, group in sorted(groups.items()))
    parts = text.split("/") if "/" in text else text.split(",")
    found = tuple(_rank_list(part, split, world_size) for part in parts)
    flat = sorted(rank for group in found for rank in group)
    if flat != list(range(world_size)):
        raise UsageError(f"--split {split!r} must name each of the ranks 0-{world_size - 1} exactly once, not {flat}")
    return found


def _rank_list(text: str, split: str, world_size: int) -> tuple[int, ...]:
    ranks: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", part)
        if match is None:
            raise UsageError(f"--split {split!r}: write 'mod 2', 'div 4', or ranges such as 0-3,4-7")
        first, last = int(match[1]), int(match[2] or match[1])
        if last >= world_size:
            raise UsageError(f"--split {split!r} names rank {last}, and the ranks are 0-{world_size - 1}")
        ranks.extend(range(first, last + 1))
    return tuple(ranks)
