from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from busbw.core.call import Call
from busbw.core.measurement import Mark, Measurement, Results, Run

Make = Callable[..., Results]


@pytest.fixture
def results() -> Make:
    """Results of `times[call] = [seconds of launch 0, of launch 1, ...]`; labels and marks for every row."""

    def make(
        times: Mapping[Call, Sequence[float]],
        labels: Mapping[str, str] | None = None,
        marks: Sequence[str] = (),
        wrong: int | None = 0,
    ) -> Results:
        rows = [
            Measurement(
                call,
                time_s,
                wrong=wrong,
                marks=tuple(Mark(code, code) for code in marks),
                labels=labels or {},
                repeat=repeat,
            )
            for call, launches in times.items()
            for repeat, time_s in enumerate(launches)
        ]
        return Results(Run(), tuple(rows))

    return make
