import pytest

from busbw.core.student_t import student_t


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [
        (1, 12.7062),
        (2, 4.30265),
        (3, 3.18245),
        (4, 2.77645),
        (5, 2.57058),
        (10, 2.22814),
        (30, 2.04227),
        (1e6, 1.95997),
        (1e9, 1.95996),
    ],
)
def test_the_tables_of_95_percent(degrees: float, expected: float) -> None:
    assert student_t(0.975, degrees) == pytest.approx(expected, rel=1e-3)
    assert student_t(0.025, degrees) == pytest.approx(-expected, rel=1e-3)


def test_the_table_of_99_percent() -> None:
    assert student_t(0.995, 30) == pytest.approx(2.74999, rel=1e-3)
