"""Every algorithm that can do a call on a machine, by size: which is best where, and where the best one changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from busbw.algorithms.spec import Spec, parse_algorithm
from busbw.core.schedule import ALGORITHMS
from busbw.core.topology import Topology
from busbw.errors import UsageError
from busbw.sim.prediction import Prediction
from busbw.sim.simulate import default_algorithm, simulate

BISECTIONS = 12


@dataclass(frozen=True, slots=True)
class Crossover:
    """The size from which `after` is faster than `before`."""

    size_bytes: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Ranking:
    """Predictions of all algorithms, by size."""

    predictions: tuple[Prediction, ...]
    left_out: tuple[str, ...]
    """Why an algorithm is not among them, one sentence each."""
    crossovers: tuple[Crossover, ...]

    def at(self, size_bytes: int) -> list[Prediction]:
        """Those of one size, the fastest first."""
        return sorted((p for p in self.predictions if p.call.size_bytes == size_bytes), key=lambda p: p.time_s)

    def sizes(self) -> list[int]:
        """All sizes, rising."""
        return sorted({prediction.call.size_bytes for prediction in self.predictions})


def rank(
    topology: Topology,
    sizes: Sequence[int],
    op: str,
    *,
    specs: Sequence[str] | None = None,
    world_size: int | None = None,
    root: int = 0,
    dtype: str = "float32",
    exact: bool = False,
    tell: Callable[[str], None] = lambda name: None,
) -> Ranking:
    """Simulate all algorithms, and what NCCL does by and large (or `specs`), at all sizes; `tell` hears which is at work.

    UsageError where none can.
    """
    n = topology.world_size if world_size is None else world_size
    chosen = [Spec(algorithm) for algorithm in ALGORITHMS] if specs is None else [parse_algorithm(s) for s in specs]
    if specs is None:
        usual = parse_algorithm(default_algorithm(op, n, topology))
        chosen += [usual] if usual.text not in {spec.text for spec in chosen} else []
    found: list[Prediction] = []
    left_out: list[str] = []
    able: dict[str, Spec] = {}
    for spec in chosen:
        tell(spec.text)
        reason = spec.why_not(op, n)
        try:
            if reason:
                raise UsageError(reason)
            found += simulate(spec, topology, sizes, op, world_size=world_size, root=root, dtype=dtype, exact=exact)
            able[spec.text] = spec
        except UsageError as error:
            left_out.append(str(error))
    if not able:
        raise UsageError(f"no algorithm can do {op} on {n} ranks of {topology.name}: {'; '.join(left_out)}")

    def seconds(name: str, size: int) -> float:
        return simulate(able[name], topology, [size], op, world_size=world_size, root=root, dtype=dtype, exact=exact)[
            0
        ].time_s

    ranking = Ranking(tuple(found), tuple(left_out), ())
    crossovers = []
    for low, high in pairwise(ranking.sizes()):
        before, after = ranking.at(low)[0].algorithm, ranking.at(high)[0].algorithm
        if before != after:
            crossovers.append(Crossover(_crossing(low, high, before, after, seconds), before, after))
    return Ranking(ranking.predictions, ranking.left_out, tuple(crossovers))


def _crossing(low: int, high: int, before: str, after: str, seconds: Callable[[str, int], float]) -> int:
    """The least size found (by halving in the logarithm) at which `after` is no slower."""
    for _ in range(BISECTIONS):
        middle = round((low * high) ** 0.5)
        if not low < middle < high or high / low < 1.02:
            break
        if seconds(after, middle) <= seconds(before, middle):
            high = middle
        else:
            low = middle
    return high
