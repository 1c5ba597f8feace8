"""Computation beside a collective: the ratios, the turns, and the process that computes."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from busbw.bench.beside import slowdown, take_beside
from busbw.bench.load import ProcessLoad
from busbw.core.call import Call
from busbw.core.measurement import Beside, Measurement, Slowdown


class Clock:
    """Time that only passes when something says so; calls take 100 us alone, products 1 ms alone."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.computing = False
        self.called = False
        self.what = "GEMM 8 test"

    def start(self) -> None:
        self.computing, self.called = True, False

    def stop(self) -> None:
        self.computing = False

    def rest(self, seconds: float) -> None:
        self.now_s += seconds

    def rate(self) -> float:
        return 1000 / (1.25 if self.called else 1.0)

    def close(self) -> None:
        return

    def run(self, issue: object, calls: int) -> float:
        self.called = True
        seconds = calls * 100e-6 * (1.5 if self.computing else 1.0)
        self.now_s += seconds
        return seconds

    def exchange(self, values: list[float]) -> tuple[np.ndarray, float]:
        return np.array([values, values]), self.now_s


def test_each_slows_the_other_by_what_it_does() -> None:
    clock = Clock()
    taken = take_beside(clock, clock.run, clock.exchange, lambda: None, 100e-6, 5.0, 0.05)
    assert taken.stopped == "precision"
    assert taken.calls == 200  # 20 ms of calls
    assert taken.per_rank_s.shape == (2, 10)
    assert taken.per_rank_s == pytest.approx(np.full((2, 10), 150e-6))
    assert taken.beside.alone_s == pytest.approx(100e-6)
    assert taken.beside.calls is not None
    assert taken.beside.calls.ratio == pytest.approx(1.5)
    assert taken.beside.products is not None
    assert taken.beside.products.ratio == pytest.approx(1.25)


def test_the_budget_ends_it_and_a_fixed_number_of_turns_too() -> None:
    clock = Clock()
    taken = take_beside(clock, clock.run, clock.exchange, lambda: None, 100e-6, 0.2, 0.05)
    assert taken.stopped == "budget"
    assert 2 <= taken.per_rank_s.shape[1] < 10
    clock = Clock()
    taken = take_beside(clock, clock.run, clock.exchange, lambda: None, 100e-6, 0.2, 0.05, turns=3)
    assert (taken.stopped, taken.per_rank_s.shape[1]) == ("fixed", 3)


def test_a_ratio_with_its_interval() -> None:
    assert slowdown([2.0]) is None
    found = slowdown([1.0, 4.0])
    assert found is not None
    assert found.ratio == pytest.approx(2.0)
    # Two logarithms, ln 2 from their mean: a standard error of ln 2, and t of 12.706 at one degree of freedom.
    assert found.high == pytest.approx(2 * math.exp(12.706 * math.log(2)), rel=1e-3)
    assert found.low == pytest.approx(4 / found.high)


def test_a_process_computes_between_start_and_stop() -> None:
    load = ProcessLoad(32)
    try:
        assert load.rate() == 0
        load.start()
        end = time.monotonic() + 30
        while load.rate() == 0 and time.monotonic() < end:
            load.rest(0.01)
        assert load.rate() > 0
        load.stop()
        before = load.rate()
        time.sleep(0.05)
        assert load.rate() == before
        load.start()
        load.stop()
    finally:
        load.close()
    assert load._process.returncode == 0


def test_it_is_saved_with_the_row() -> None:
    beside = Beside("GEMM 512 float32", 1e-4, Slowdown(1.5, 1.4, 1.6), None)
    row = Measurement(Call("all_reduce", 4096, 2, "float32", "sum"), 1.5e-4, beside=beside)
    assert Measurement.from_json(row.to_json()) == row
    assert row.row()["beside"] == {
        "what": "GEMM 512 float32",
        "alone_s": 1e-4,
        "calls": [1.5, 1.4, 1.6],
        "products": None,
    }
