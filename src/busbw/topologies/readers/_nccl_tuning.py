"""The tables of NCCL's own estimate in its log: latency (us) and bandwidth (GB/s) by operation, algorithm, protocol."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping

_CELL = re.compile(r"\s*(-?\d{1,12}(?:\.\d{1,12})?)\s*/\s*(-?\d{1,12}(?:\.\d{1,12})?)\s*")


class Tuning:
    """Tables are wrapped in blocks; each process prints its own, and the first one's numbers stay."""

    def __init__(self) -> None:
        self._algorithms: dict[Hashable, list[str]] = {}
        self._protocols: dict[Hashable, list[str]] = {}
        self._cells: dict[str, dict[str, tuple[float, float]]] = {}

    def take(self, process: Hashable, line: str) -> None:
        """One line of a process."""
        if "|" not in line:
            return
        first, *rest = [part.strip() for part in line.split("|")]
        rest = [part for part in rest if part]
        if first == "Algorithm":
            self._algorithms[process] = rest
        elif first == "Protocol":
            self._protocols[process] = rest
        elif process in self._algorithms and re.fullmatch(r"[A-Za-z]+", first):
            cells = [_CELL.fullmatch(part) for part in rest]
            protocols = self._protocols.get(process, [])[:3] or ["LL", "LL128", "Simple"]
            if not all(cells) or len(cells) != len(protocols) * len(self._algorithms[process]):
                return
            names = [f"{algorithm}/{protocol}" for algorithm in self._algorithms[process] for protocol in protocols]
            row = self._cells.setdefault(first, {})
            for name, cell in zip(names, cells, strict=True):
                if cell is not None:
                    row.setdefault(name, (float(cell[1]), float(cell[2])))

    def usable(self) -> Mapping[str, Mapping[str, tuple[float, float]]]:
        """Without the cells of no bandwidth, which NCCL can't use."""
        kept = {op: {how: cell for how, cell in row.items() if cell[1] > 0} for op, row in self._cells.items()}
        return {op: row for op, row in kept.items() if row}
