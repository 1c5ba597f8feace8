"""Which files are one run, and which are runs to compare.

Someone gives the three files of N = 2, 4 and 8: one run. Someone gives the files of Monday and Tuesday: two runs. What
tells them apart is whether two files hold the same work: op, N, S and the variables that were set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from busbw.comparing.matching import work_of
from busbw.core.measurement import Measurement, Results


@dataclass(frozen=True, slots=True)
class Side:
    """One run: its letter (A is the first), a name that tells it from the others, and the files that it is made of."""

    letter: str
    name: str
    files: tuple[Results, ...]

    @property
    def rows(self) -> list[Measurement]:
        """The rows of all its files."""
        return [row for part in self.files for row in part.measurements]

    @property
    def file_names(self) -> tuple[str, ...]:
        """Where its rows were read; empty for what was measured just now."""
        sources = [row.source for row in self.rows] + [part.run.source for part in self.files]
        return tuple(dict.fromkeys(source.file for source in sources if source is not None))


def make_sides(inputs: Sequence[Sequence[Results]], across: tuple[str, ...] = ()) -> list[Side]:
    """Each input joins the first run with which it shares no work, and is a run of its own otherwise."""
    groups: list[list[Results]] = []
    works: list[set[object]] = []
    for files in inputs:
        own = {_key(row, across) for part in files for row in part.measurements}
        at = next((i for i, there in enumerate(works) if not own & there), None)
        if at is None:
            groups.append(list(files))
            works.append(own)
        else:
            groups[at] += files
            works[at] |= own
    sides = [Side(letter(i), "", tuple(files)) for i, files in enumerate(groups)]
    return [Side(side.letter, name, side.files) for side, name in zip(sides, _names(sides), strict=True)]


def letter(index: int) -> str:
    """A, B, ... Z, AA, AB, ..."""
    return ("" if index < 26 else letter(index // 26 - 1)) + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[index % 26]


def _key(row: Measurement, across: tuple[str, ...]) -> object:
    work = work_of(row, frozenset(across))
    return work.call.collective, work.call.size_bytes, work.call.world_size, work.settings


def _names(sides: Sequence[Side]) -> list[str]:
    """The shortest end of the path that tells the runs apart."""
    files = [PurePath(side.file_names[0]) if side.file_names else PurePath("this run") for side in sides]
    more = [f" and {len(side.file_names) - 1} more" if len(side.file_names) > 1 else "" for side in sides]
    deepest = max(len(path.parts) for path in files)
    names = [path.name for path in files]
    for depth in range(2, deepest + 1):
        if len(set(names)) == len(names):
            break
        names = ["/".join(path.parts[-depth:]) for path in files]
    return [f"{name}{rest}" for name, rest in zip(names, more, strict=True)]
