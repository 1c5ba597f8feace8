"""Random schedules for the simulator's tests: valid all-reduces along random trees, and single rounds of random transfers."""

from __future__ import annotations

import random

import numpy as np

from busbw.core.schedule import Phase, Schedule

Transfer = tuple[int, int, int, int, bool]
"""Round, source, target, slot, whether it is added."""


def random_transfers(rng: random.Random, n: int) -> tuple[int, list[Transfer]]:
    """(chunks, transfers) of an all-reduce: each chunk up one random tree and down another, with random pauses."""
    chunks = rng.randint(1, 4)
    transfers: list[Transfer] = []
    for chunk in range(chunks):
        ranks = list(range(n))
        rng.shuffle(ranks)
        parents = [rng.randrange(i) for i in range(1, n)]
        ready = [0] * n  # the round from which on a rank has its subtree's sum
        for child in range(n - 1, 0, -1):
            parent = parents[child - 1]
            at = max(ready[child], ready[parent]) + rng.randint(0, 1)
            transfers.append((at, ranks[child], ranks[parent], chunk, True))
            ready[parent] = at + 1
        down = ranks[:1] + rng.sample(ranks[1:], n - 1)
        begin = [0] * n
        begin[0] = ready[0]
        for child in range(1, n):
            parent = rng.randrange(child)
            at = begin[parent] + rng.randint(0, 1)
            transfers.append((at, down[parent], down[child], chunk, False))
            begin[child] = at + 1
    return chunks, transfers


def schedule_of(n: int, chunks: int, transfers: list[Transfer], collective: str = "all_reduce") -> Schedule:
    """The transfers as a schedule, a phase a round."""
    phases = []
    for number in sorted({each[0] for each in transfers}):
        here = [each for each in transfers if each[0] == number]
        source, target, slot = (np.array([each[k] for each in here], np.int64) for k in (1, 2, 3))
        reduces = np.array([each[4] for each in here])
        slots = (slot, slot)
        phases.append(Phase(source, target, np.ones(len(here), np.int64), reduces, lambda _, slots=slots: slots))
    return Schedule("random", collective, n, chunks, tuple(phases))


def relabelled(transfers: list[Transfer], names: list[int]) -> list[Transfer]:
    """The same among other ranks."""
    return [(at, names[source], names[target], slot, adds) for at, source, target, slot, adds in transfers]
