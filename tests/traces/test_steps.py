"""Segments between optimizer steps become training steps."""

from __future__ import annotations

from busbw.core.trace import Mark, RecordedCall, Trace
from busbw.traces.steps import CONSTRUCTOR, step_of_segment, steps_of

from .made import kind


def marks(*optimizers: int) -> list[Mark]:
    """One segment for each optimizer."""
    return [Mark("optimizer", 0, segment, 0.0, optimizer) for segment, optimizer in enumerate(optimizers)]


def test_one_optimizer_has_a_segment_a_step() -> None:
    assert step_of_segment(marks(0, 0, 0)) == {0: 0, 1: 1, 2: 2}


def test_two_that_take_turns_share_a_step() -> None:
    assert step_of_segment(marks(0, 1, 0, 1)) == {0: 0, 1: 0, 2: 1, 3: 1}


def test_one_that_comes_seldom_belongs_to_the_step_that_is_open() -> None:
    assert step_of_segment(marks(0, 0, 1, 0, 0)) == {0: 0, 1: 1, 2: 1, 3: 2, 4: 3}


def test_a_step_that_did_not_come_to_its_optimizer_is_one_of_its_own() -> None:
    begun = [*marks(0, 0), Mark("forward", 9, 2, 0.0)]
    assert step_of_segment(begun) == {0: 0, 1: 1, 2: 2}


def test_unless_an_optimizer_of_the_step_before_is_still_to_come() -> None:
    begun = [*marks(0, 1, 0), Mark("forward", 9, 3, 0.0)]
    assert step_of_segment(begun) == {0: 0, 1: 0, 2: 1, 3: 1}


def test_own_marks_go_before_optimizers() -> None:
    calls = tuple(RecordedCall(number, kind(), 0, float(number)) for number in range(5))
    own = (Mark("step", 1, 0, 0.0), Mark("optimizer", 2, 0, 0.0, 0), Mark("step", 3, 0, 0.0))
    assert [step for step, _ in steps_of(Trace(0, 2, calls, own))] == [CONSTRUCTOR, 0, 0, 1, 1]


def test_calls_before_the_first_forward_pass_are_the_constructors() -> None:
    calls = (RecordedCall(0, kind(phase="constructor"), 0, 0.0), RecordedCall(1, kind(), 0, 1.0))
    assert [step for step, _ in steps_of(Trace(0, 2, calls))] == [CONSTRUCTOR, 0]
