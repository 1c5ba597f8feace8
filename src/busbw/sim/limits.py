"""Measured rows against a machine: what it can do, which limit each row is at, and how far below it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.algorithms.spec import parse_algorithm
from busbw.core.measurement import Measurement
from busbw.core.topology import Topology
from busbw.errors import UsageError
from busbw.sim.prediction import Prediction
from busbw.sim.simulate import algorithm_of, default_algorithm, simulate

MOST_RANKS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class RowLimit:
    """One row, what the machine would take for it, and where it waits."""

    row: Measurement
    prediction: Prediction

    @property
    def share(self) -> float:
        """Of the machine's rate: predicted / measured time."""
        return self.prediction.time_s / self.row.time_s

    @property
    def limit(self) -> str:
        """The wire or cap that binds; or launch, latency or reducing, where most of the time goes there."""
        times = self.prediction.times_s
        most = max(times, key=lambda name: times[name])
        if most != "wires" or self.prediction.binding is None:
            return most
        return self.prediction.binding.name


def limits(machine: Topology, rows: Sequence[Measurement]) -> tuple[list[RowLimit], list[str]]:
    """Each row that a schedule stands for, beside its prediction; and why others have none, one sentence each."""
    groups: dict[tuple[str, int, int, str], list[Measurement]] = defaultdict(list)
    for row in rows:
        call = row.call
        if call.collective != "unknown" and call.world_size >= 2 and call.size_bytes > 0 and row.time_s > 0:
            groups[call.collective, call.world_size, call.root or 0, algorithm_of(row)].append(row)
    found: list[RowLimit] = []
    missing: list[str] = []
    for (op, n, root, named), members in groups.items():
        try:
            if n > MOST_RANKS:
                raise UsageError(f"{op} N={n}: more than {MOST_RANKS} ranks are not simulated here")
            sizes = sorted({row.call.size_bytes for row in members})
            spec = parse_algorithm(named or default_algorithm(op, n, machine))
            made = simulate(spec, machine, sizes, op, world_size=n, root=root, dtype="uint8")
            by_size = dict(zip(sizes, made, strict=True))
            found += [RowLimit(row, by_size[row.call.size_bytes]) for row in members]
        except UsageError as error:
            missing.append(str(error))
    return found, missing
