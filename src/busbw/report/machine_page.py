"""The machine and the settings on the page: what the files say of where and how the rows were taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from busbw.core.measurement import Results, Run
from busbw.units import format_size, format_time

MOST_RANKS = 512
"""Ranks that are listed; the rest is counted."""
_WORDS = {
    "cpu": "CPU",
    "cpus": "CPUs",
    "memory_bytes": "memory",
    "gpus": "GPUs",
    "nics": "NICs",
    "machine": "architecture",
    "op": "collective",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that is known: its name, and its values, one a line."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RankLine:
    """Where a rank ran."""

    world_size: str
    rank: str
    host: str
    device: str


@dataclass(frozen=True, slots=True)
class RunPage:
    """One run as it was taken: the tool, the machine, the settings, and what happened beside the rows."""

    tool: str
    files: str
    machine: tuple[Entry, ...]
    settings: tuple[Entry, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MachinePage:
    """The runs in the files of one side, and their ranks."""

    runs: tuple[RunPage, ...]
    ranks: tuple[RankLine, ...]
    more_ranks: int = 0


def machine_page(files: Sequence[Results]) -> MachinePage:
    """What the files say; runs that say the same are one, with all their files."""
    pages: dict[tuple[object, ...], list[RunPage]] = {}
    for part in files:
        for results in part.runs:
            page = _run(results)
            pages.setdefault((page.tool, page.machine, page.settings, page.notes), []).append(page)
    runs = tuple(
        RunPage(first.tool, ", ".join(dict.fromkeys(page.files for page in same if page.files)), *key[1:])  # type: ignore[arg-type]
        for key, same in pages.items()
        for first in same[:1]
    )
    ranks = list(dict.fromkeys(line for part in files for line in _ranks(part.run.launches)))
    return MachinePage(runs, tuple(ranks[:MOST_RANKS]), max(len(ranks) - MOST_RANKS, 0))


def _run(results: Results) -> RunPage:
    run = results.run
    source = run.source.file if run.source else next((r.source.file for r in results.measurements if r.source), "")
    tool = " ".join(part for part in (run.tool, run.version) if part)
    started = f", {run.started.replace('T', ' ').replace('+00:00', ' UTC')}" if run.started else ""
    return RunPage(f"{tool}{started}", source, _entries(run.environment), _entries(run.settings), tuple(_notes(run)))


def _notes(run: Run) -> Iterable[str]:
    if run.failure:
        yield f"ended early: {run.failure}"
    if run.out_of_bounds is not None:
        count, words = run.out_of_bounds
        yield f"out of bounds by the tool's own count: {count} {words}"
    yield from run.notes
    if run.unreadable_count:
        first = run.unreadable[0]
        yield f"{run.unreadable_count} lines could not be read; {first.source.file}:{first.source.line}: {first.reason}"


def _entries(values: Mapping[str, Any]) -> tuple[Entry, ...]:
    entries = ((str(name), _values(str(name), value)) for name, value in values.items())
    return tuple(Entry(_name(name), shown) for name, shown in entries if shown)


def _name(name: str) -> str:
    if name in _WORDS:
        return _WORDS[name]
    for ending in ("_bytes", "_s"):
        name = name.removesuffix(ending) if not name.isupper() else name
    return name.replace("_", " ") if name.islower() else name


def _values(name: str, value: Any) -> tuple[str, ...]:
    """The lines of one value; nothing where it says nothing."""
    if value is None or value == "" or value is False or value == [] or value == {}:
        return ()
    if isinstance(value, Mapping):
        return tuple(f"{key} = {inner}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        if any(isinstance(item, Mapping) for item in value):
            return tuple(
                f"{count} x {text}" if count > 1 else text for text, count in Counter(map(_item, value)).items()
            )
        return (", ".join(_scalar(name, item) for item in value),)
    return (_scalar(name, value),)


def _item(value: Any) -> str:
    """One GPU or NIC: its name, and what is known of it but for its place."""
    if not isinstance(value, Mapping):
        return str(value)
    parts = [f"{key} {inner}" for key, inner in value.items() if key not in ("name", "pci.bus_id") and inner]
    return f"{value.get('name', '')}{' (' + ', '.join(parts) + ')' if parts else ''}".strip()


def _scalar(name: str, value: Any) -> str:
    if value is True:
        return "yes"
    if isinstance(value, int | float):
        if name.endswith("_bytes") or name == "sizes":
            return format_size(round(value))
        if name.endswith("_s"):
            return format_time(float(value))
    return str(value)


def _ranks(launches: Sequence[Mapping[str, Any]]) -> Iterable[RankLine]:
    for launch in launches:
        ranks = launch.get("ranks")
        listed = ranks.values() if isinstance(ranks, Mapping) else ranks if isinstance(ranks, list) else ()
        for rank in listed:
            if isinstance(rank, Mapping):
                words = (
                    launch.get("world_size", ""),
                    rank.get("rank", ""),
                    rank.get("host", ""),
                    rank.get("device", ""),
                )
                yield RankLine(*map(str, words))
