"""Rows -> points of T over S, one group for each (collective, N, settings)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from busbw.core.call import Call
from busbw.core.collective import COLLECTIVES
from busbw.core.cost_model import call_settings
from busbw.core.measurement import Measurement, Source

CHOSEN = ("algorithm", "protocol", "channels", "transport")
"""Labels that may be a library's own choice at each size: they part curves only where one size has several."""


@dataclass(frozen=True, slots=True)
class Points:
    """T over S for one collective, N and settings; sizes rise, and each time is the median of its rows."""

    collective: str
    world_size: int
    settings: Mapping[str, str]
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    rows: int
    sources: tuple[Source | None, ...]
    """Of the first row of each size."""
    wrong: int = 0
    """Rows whose data was wrong; their times count all the same."""

    def where(self, keep: Sequence[bool]) -> Points:
        """Only the points that are marked."""
        chosen = [index for index, kept in enumerate(keep) if kept]
        return replace(
            self,
            sizes=tuple(self.sizes[index] for index in chosen),
            seconds=tuple(self.seconds[index] for index in chosen),
            sources=tuple(self.sources[index] for index in chosen),
        )


def group_points(rows: Iterable[Measurement]) -> list[Points]:
    """Groups in the order of their first rows.

    Rows without a known collective or N, at N = 1, with S = 0 (but for a barrier) or without a time are left out: they
    say nothing of what moving bytes costs.
    """
    usable = [row for row in rows if _is_usable(row.call) and row.time_s > 0]
    settings = [_settings(row) for row in usable]
    own_choice = _library_choices(usable, settings)
    groups: dict[tuple[str, int, tuple[tuple[str, str], ...]], list[Measurement]] = defaultdict(list)
    for row, given in zip(usable, settings, strict=True):
        key = (row.call.collective, row.call.world_size)
        kept = {name: value for name, value in given.items() if name not in own_choice[key]}
        groups[row.call.collective, row.call.world_size, tuple(sorted(kept.items()))].append(row)
    return [_points(name, n, dict(kept), members) for (name, n, kept), members in groups.items()]


def _is_usable(call: Call) -> bool:
    if call.collective not in COLLECTIVES.names() or call.world_size < 2:
        return False
    return call.size_bytes > 0 or not call.kind.moves_data


def _settings(row: Measurement) -> dict[str, str]:
    return {**row.labels, **call_settings(row.call)}


def _library_choices(
    rows: Sequence[Measurement], settings: Sequence[Mapping[str, str]]
) -> Mapping[tuple[str, int], set[str]]:
    """Of each (collective, N): the labels of CHOSEN that never differ between rows of one size and other settings."""
    choices: dict[tuple[str, int], set[str]] = defaultdict(lambda: set(CHOSEN))
    seen: dict[tuple[object, ...], dict[str, str | None]] = {}
    for row, given in zip(rows, settings, strict=True):
        key = (row.call.collective, row.call.world_size)
        rest = tuple(sorted((name, value) for name, value in given.items() if name not in CHOSEN))
        own = {name: given.get(name) for name in CHOSEN}
        first = seen.setdefault((*key, row.call.size_bytes, rest), own)
        choices[key] -= {name for name in CHOSEN if first[name] != own[name]}
    return choices


def _points(name: str, n: int, settings: Mapping[str, str], rows: Sequence[Measurement]) -> Points:
    by_size: dict[int, list[Measurement]] = defaultdict(list)
    for row in rows:
        by_size[row.call.size_bytes].append(row)
    sizes = sorted(by_size)
    return Points(
        name,
        n,
        settings,
        tuple(sizes),
        tuple(median(row.time_s for row in by_size[size]) for size in sizes),
        len(rows),
        tuple(by_size[size][0].source for size in sizes),
        sum(bool(row.wrong) for row in rows),
    )
