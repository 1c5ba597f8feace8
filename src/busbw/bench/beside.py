"""Computation beside a collective: how much each slows the other.

Three things by turns, over and over: a batch of calls alone, the same batch while matrix products run, and the
products alone for as long. Each turn gives two ratios, and a machine that changes its speed between turns changes both
sides of them. The row's own samples are the batches beside computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from busbw.bench.backends.base import Issue
from busbw.bench.load import Load
from busbw.bench.settings import BATCH_S
from busbw.core.measurement import Beside, Slowdown
from busbw.core.student_t import student_t

Floats = NDArray[np.float64]

LEAST_TURNS, MOST_TURNS = 10, 200
_PRODUCTS_A_BATCH = 4


@dataclass(frozen=True, slots=True)
class TakenBeside:
    """Seconds a call beside computation, shape (world, turns), and what came of the ratios."""

    per_rank_s: Floats
    calls: int
    stopped: str
    beside: Beside


def take_beside(
    load: Load,
    run: Callable[[Issue, int], float],
    exchange: Callable[[list[float]], tuple[Floats, float]],
    issue: Issue,
    estimate_s: float,
    budget_s: float,
    precision: float,
    turns: int | None = None,
) -> TakenBeside:
    """Take turns until both ratios are known within `precision` or the budget is spent; the same on every rank.

    `run(issue, calls)` times a batch on this rank; `exchange(values)` gives every rank's values, of shape
    (world, values), and rank 0's seconds since the first. `turns` fixes their number.
    """
    load.start()
    load.rest(BATCH_S)
    while load.rate() == 0:
        load.rest(BATCH_S)
    product_s = 1 / load.rate()
    load.stop()
    slowest, _ = exchange([product_s])
    batch_s = max(BATCH_S, _PRODUCTS_A_BATCH * float(slowest.max()))
    calls = max(math.ceil(batch_s / max(estimate_s, 1e-9)), 1)
    alone, beside, with_calls, by_itself = [], [], [], []
    while True:
        times, _ = exchange([run(issue, calls)])
        alone.append(times[:, 0] / calls)
        load.start()
        seconds = run(issue, calls)
        rate = load.rate()
        load.stop()
        both, _ = exchange([seconds, rate])
        beside.append(both[:, 0] / calls)
        load.start()
        load.rest(max(float(both[:, 0].max()), batch_s))
        rate = load.rate()
        load.stop()
        rates, elapsed_s = exchange([rate])
        with_calls.append(both[:, 1])
        by_itself.append(rates[:, 0])
        calls_ratio = slowdown([b.max() / a.max() for a, b in zip(alone, beside, strict=True)])
        # A product that is longer than the batch has no rate beside it: such turns say nothing of the products.
        told = [(w, b) for w, b in zip(with_calls, by_itself, strict=True) if w.min() > 0 and b.min() > 0]
        products_ratio = slowdown([float(np.mean(b / w)) for w, b in told])
        good = products_ratio is not None and calls_ratio is not None
        narrow = good and all(
            each is not None and each.high / each.low < (1 + precision) ** 2 for each in (calls_ratio, products_ratio)
        )
        why = ""
        if turns is not None:
            why = "fixed" if len(alone) >= turns else ""
        elif len(alone) >= LEAST_TURNS and narrow:
            why = "precision"
        elif (elapsed_s >= budget_s and len(alone) >= 2) or len(alone) >= MOST_TURNS:
            why = "budget"
        if why:
            alone_s = float(np.median([times.max() for times in alone]))
            found = Beside(load.what, alone_s, calls_ratio, products_ratio)
            return TakenBeside(np.array(beside).T, calls, why, found)


def slowdown(ratios: list[float]) -> Slowdown | None:
    """The geometric mean of ratios with its 95 % interval (Student's t on logarithms); None for fewer than 2."""
    if len(ratios) < 2:
        return None
    logs = np.log(ratios)
    mean, error = float(logs.mean()), float(logs.std(ddof=1) / math.sqrt(len(logs)))
    half = student_t(0.975, len(logs) - 1) * error
    return Slowdown(math.exp(mean), math.exp(mean - half), math.exp(mean + half))
