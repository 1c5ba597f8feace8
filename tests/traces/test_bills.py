"""A trace becomes bills: steps named as pricing names them, times over all steps that are alike."""

from __future__ import annotations

from busbw.core.bill import Bills
from busbw.core.trace import Mark, RecordedCall, Trace
from busbw.traces.bills import bills_of

from .made import kind


def job(sizes: list[list[int]], lost: int = 0) -> Trace:
    """One segment for each list, a call of a second for each size in it, after one call of the constructor."""
    calls = [RecordedCall(0, kind("broadcast", 8, "constructor", root=0), 0, 0.0, 0.5)]
    marks = []
    for segment, step in enumerate(sizes):
        for size in step:
            number = len(calls)
            calls.append(RecordedCall(number, kind(size=size), segment, float(number), number + 1.0 + segment))
        marks.append(Mark("optimizer", len(calls), segment, 0.0, 0))
    return Trace(0, 2, tuple(calls), tuple(marks), {"host": "a"}, lost=lost)


def test_first_second_and_steady_and_what_differs() -> None:
    bills = bills_of(job([[1], [2, 2], [3, 3], [3, 3], [3], [3, 3]]))
    assert list(bills.steps) == ["constructor", "first", "second", "4", "steady"]
    assert bills.steady.lines[0].count == 2
    assert bills.notes == ("1 of 4 later steps differ from the steady one: 4",)
    assert (bills.source, bills.facts["steps"], bills.facts["host"]) == ("captured", 6, "a")
    assert Bills.from_json(bills.to_json()) == bills


def test_times_of_the_steady_step_are_over_all_that_are_alike() -> None:
    """Steps 2, 3 and 5 take 3, 4 and 6 s a call."""
    line = bills_of(job([[1], [2], [3], [3], [4], [3]])).steady.lines[0]
    assert line.estimate is not None
    assert (line.seconds, line.estimate.low, line.estimate.high) == (13 / 3, 3.0, 6.0)


def test_only_some_steps() -> None:
    bills = bills_of(job([[1], [2], [3], [4], [4]]), steps=range(3, 5))
    assert list(bills.steps) == ["steady"]
    assert bills.steady.totals().size_bytes == 4


def test_what_a_reader_has_to_know() -> None:
    trace = Trace(1, 2, (RecordedCall(0, kind(), 0, 0.0),), lost=3)
    bills = bills_of(trace, notes=("said",))
    assert bills.notes[0] == "said"
    assert "no optimizer step was seen" in bills.notes[1]
    assert bills.notes[2] == "rank 1: 3 calls could not be recorded"
    assert bills.steady.totals().seconds is None
    assert bills_of(Trace(0, 2, ())).steady.lines == ()
