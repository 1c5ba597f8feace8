"""The rows to take, in order: the same list on every rank, from the settings and what the backend can do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from busbw.algorithms.spec import Spec, parse_algorithm
from busbw.bench.script import suitable_count, unable
from busbw.bench.settings import OWN, Settings
from busbw.core.call import Call
from busbw.core.collective import Collective, find_collective
from busbw.core.dtype import DTYPES
from busbw.core.schedule import Schedule
from busbw.errors import UsageError
from busbw.units import format_size

SCHEDULE_LABEL = "schedule"
"""The label of a row that a schedule carried out: the algorithm as it is typed. The backend's own rows have none."""


@dataclass(frozen=True, slots=True)
class Item:
    """One row to take. `count` is elements of the whole tensor; the Call's size_bytes is exactly count x itemsize."""

    call: Call
    count: int
    algorithm: str = ""
    """The schedule to carry out, as it is typed; "" for the backend's own collective."""
    schedule: Schedule | None = None
    compute: int = 0
    """Matrix products of this size run beside the calls; 0: the calls are alone."""

    @property
    def key(self) -> str:
        """What tells this row from the others of the run, as text; `--resume` skips keys that are on disk."""
        return call_key(self.call, self.algorithm, bool(self.compute))


def call_key(call: Call, algorithm: str = "", is_beside: bool = False) -> str:
    """A call as one line of text, with the schedule that carries it out where it is not the backend's own."""
    place = {None: "", True: " in-place", False: " out-of-place"}[call.in_place]
    redop = "" if call.redop is None else f" {call.redop}"
    root = "" if call.root is None else f" root {call.root}"
    how = (f" by {algorithm}" if algorithm else "") + (" beside computation" if is_beside else "")
    return f"{call.collective} {call.size_bytes} B {call.dtype}{redop}{root}{place} N={call.world_size}{how}"


Supports = Callable[[Collective, str, "str | None", bool], "str | None"]
"""(collective, dtype, redop, in_place) -> None, or the reason why the backend cannot."""


CarriesOut = Callable[[Collective, str, "str | None"], "str | None"]
"""(collective, dtype, redop) -> None, or the reason why the backend cannot carry out a schedule of it."""


@dataclass(frozen=True, slots=True)
class WorkList:
    """The rows, and a line for each thing that was asked for and is not among them."""

    items: tuple[Item, ...]
    notes: tuple[str, ...]


def work_list(
    settings: Settings,
    world_size: int,
    supports: Supports,
    memory_bytes: int | None = None,
    carries_out: CarriesOut = lambda collective, dtype, redop: "this backend carries out no schedules",
) -> WorkList:
    """All rows for one group of `world_size` ranks.

    `memory_bytes` is what one rank may allocate; sizes above it are left out, with a note. `carries_out` says whether the
    backend can run a schedule as point-to-point calls.
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
        for way in _ways(settings, collective, world_size, supports, carries_out, note):
            for dtype in settings.dtypes:
                for redop in settings.redops if collective.reduces else (None,):
                    for in_place in _placements(
                        way.placement(settings.placement, dtype, redop), collective, dtype, redop, way.supports, note
                    ):
                        for root in _roots(settings, collective, world_size):
                            for size in settings.sizes if collective.moves_data else (0,):
                                item = way.item(size, world_size, dtype, redop, root, in_place)
                                need = buffer_bytes(item.call.size_bytes, in_place, settings.rotate_buffers)
                                need += 2 * item.call.size_bytes if item.schedule is not None else 0
                                if memory_bytes is not None and need > memory_bytes:
                                    note(
                                        f"{collective.name} of {format_size(size)} needs {format_size(need)} a rank and "
                                        f"{format_size(memory_bytes)} may be used: skipped"
                                    )
                                elif item.key not in seen:
                                    seen.add(item.key)
                                    items.append(item)
                                    if settings.with_compute and item.call.kind.moves_data:
                                        items.append(replace(item, compute=settings.with_compute))
    return WorkList(tuple(items), tuple(notes))


@dataclass(frozen=True, slots=True)
class _Way:
    """How a collective is carried out: by the backend itself, or by an algorithm's schedule."""

    collective: Collective
    supports: Supports
    own: Supports
    spec: Spec | None = None
    made: dict[int, Schedule] = field(default_factory=dict)
    """Root -> schedule."""

    def placement(self, asked: str, dtype: str, redop: str | None) -> str:
        """Where the user leaves it open, a schedule takes the backend's own form, so that rows can be compared."""
        if self.spec is None or asked != "auto":
            return asked
        possible = (False,) if self.collective.in_place_offset is None else (False, True)
        own = [in_place for in_place in possible if self.own(self.collective, dtype, redop, in_place) is None]
        return "in-place" if own and own[0] else "out-of-place"

    def item(self, size: int, world_size: int, dtype: str, redop: str | None, root: int | None, in_place: bool) -> Item:
        """The row of about `size` bytes."""
        collective, itemsize, schedule = self.collective, DTYPES[dtype].itemsize, None
        count = collective.whole_count(size, itemsize, world_size)
        if self.spec is not None:
            if (root or 0) not in self.made:
                self.made[root or 0] = self.spec.build(collective.name, world_size, root or 0)
            schedule = self.made[root or 0]
            count = suitable_count(schedule, count)
        moves = collective.moves_data
        call = Call(
            collective.name,
            count * itemsize,
            world_size,
            dtype if moves else None,
            redop,
            root,
            in_place if moves else None,
        )
        return Item(call, count, "" if self.spec is None else self.spec.text, schedule)


def _ways(
    settings: Settings,
    collective: Collective,
    world_size: int,
    supports: Supports,
    carries_out: CarriesOut,
    note: Callable[[str], None],
) -> Iterator[_Way]:
    """The backend's own and the algorithms that were asked for, where they have the collective."""
    for text in settings.algorithms:
        if text == OWN:
            yield _Way(collective, supports, supports)
            continue
        spec = parse_algorithm(text)
        reason = spec.why_not(collective.name, world_size)
        if not reason:
            without = unable(spec.build(collective.name, world_size))
            reason = f"algorithm {spec.text}: {without}" if without else ""
        if reason:
            note(f"{reason}: skipped")
            continue

        def by_schedule(kind: Collective, dtype: str, redop: str | None, in_place: bool) -> str | None:
            return carries_out(kind, dtype, redop)

        yield _Way(collective, by_schedule, supports, spec)


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
    """Refuse a split, a root or an algorithm's option that does not suit this many ranks, before they are started."""
    specs = [parse_algorithm(text) for text in settings.algorithms if text != OWN]
    for group in split_groups(settings.split, world_size):
        for name in settings.collectives:
            _roots(settings, find_collective(name), len(group))
            for spec in specs:
                if not spec.why_not(name, len(group)):
                    spec.build(name, len(group))


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
