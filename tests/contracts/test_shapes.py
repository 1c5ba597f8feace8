"""Every shape of T(S) keeps one contract."""

from __future__ import annotations

import numpy as np
import pytest

from busbw.core.cost_form import Form, Overlap, Power, form_from_json, form_to_json
from busbw.core.cost_model import MOST_PARAMETERS
from busbw.costs.shape import SHAPES, Runs, Solved

SIZES = np.array([2.0**power for power in range(-12, 13)])
TRUTHS: list[Form] = [
    Overlap(1.5, 0.0),
    Overlap(0.0, 2.0),
    Overlap(1.5, 2.0),
    *(Overlap(1.5, 2.0, p) for p in (0.5, 0.7, 1.5, 2.5, 6.0)),
    Power(1.5, 1.0, 0.6),
]


def solve(name: str, truth: Form) -> list[Solved]:
    seconds = np.array([truth.seconds(size) for size in SIZES])
    runs = Runs(SIZES, seconds, ((0, len(SIZES)),), np.ones((1, len(SIZES))), 0.01)
    return list(SHAPES.get(name).solve(runs))


@pytest.mark.parametrize("name", SHAPES.names())
def test_it_finds_a_truth_of_its_own_kind_exactly(name: str) -> None:
    assert SHAPES.get(name).name == name
    exact = [
        (solved, truth)
        for truth in TRUTHS
        for solved in solve(name, truth)
        if solved.valid[0] and solved.misfit[0] < 1e-6
    ]
    assert exact
    for solved, truth in exact:
        form = solved.form(0)
        assert [form.seconds(size) for size in SIZES] == pytest.approx(
            [truth.seconds(size) for size in SIZES], rel=1e-5
        )
        assert solved.parameters <= MOST_PARAMETERS
        assert len(form.parameters) <= solved.parameters


@pytest.mark.parametrize("name", SHAPES.names())
def test_what_it_fits_to_anything_never_falls_and_can_be_saved(name: str) -> None:
    for truth in TRUTHS:
        for solved in solve(name, truth):
            if not solved.valid[0]:
                continue
            form = solved.form(0)
            times = [form.seconds(size) for size in (1e-9, *SIZES, 1e9)]
            assert times == sorted(times)
            assert times[0] >= 0
            assert form_from_json(form_to_json(form)) == form
