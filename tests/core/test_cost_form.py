from __future__ import annotations

import math

import pytest

from busbw.core.cost_form import Form, Overlap, Power, form_from_json, form_to_json

FORMS: list[Form] = [
    Overlap(10e-6, 1e-10),
    Overlap(10e-6, 1e-10, 0.5),
    Overlap(10e-6, 1e-10, 6.0),
    Overlap(10e-6, 0.0),
    Overlap(0.0, 1e-10),
    Power(2e-5, 4096.0, 0.6),
]


def test_values_by_hand() -> None:
    # 10 us of launch, and 10 us of wire: 100 000 B at 10 GB/s
    assert Overlap(10e-6, 1e-10).seconds(100_000) == pytest.approx(20e-6)
    assert Overlap(10e-6, 1e-10, 0.5).seconds(100_000) == pytest.approx(40e-6)  # (2 sqrt(10))^2
    assert Overlap(10e-6, 1e-10, 2.0).seconds(100_000) == pytest.approx(10e-6 * math.sqrt(2))
    assert Overlap(10e-6, 1e-10, 60.0).seconds(1_000_000) == pytest.approx(100e-6)  # max(10, 100)
    assert Power(2e-5, 4096.0, 0.5).seconds(16384) == pytest.approx(4e-5)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.words)
def test_time_never_falls_and_is_never_negative(form: Form) -> None:
    times = [form.seconds(size) for size in (0, 1, 8, 4096, 10**6, 10**9, 10**13, 2**62)]
    assert times == sorted(times)
    assert times[0] >= 0


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.words)
@pytest.mark.parametrize("size", [64, 100_000, 10**9])
def test_the_gradient_is_that_of_the_logarithm(form: Form, size: int) -> None:
    for name, slope in zip(form.parameters, form.gradient(size), strict=True):
        changed = form_to_json(form)
        step = 1e-6
        changed[name] = changed[name] + step if name == "exponent" else changed[name] * math.exp(step)
        moved = form_from_json(changed).seconds(size)
        assert (math.log(moved) - math.log(form.seconds(size))) / step == pytest.approx(slope, abs=1e-4)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.words)
def test_json_there_and_back(form: Form) -> None:
    assert form_from_json(form_to_json(form)) == form


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "spline"}, "unknown form 'spline': choose from overlap, power"),
        ({"launch_s": -1.0}, "numbers of 0 or more"),
        ({"launch_s": math.nan}, "numbers of 0 or more"),
        ({"sharpness": 0}, "above 0"),
    ],
)
def test_what_is_no_form(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        form_from_json({**form_to_json(Overlap(1e-5, 1e-10)), **changes})
