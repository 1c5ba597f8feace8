from __future__ import annotations

import pytest

from busbw.cli.sweep_buckets import chart, text
from busbw.errors import LaunchError, UsageError
from busbw.pricing.sweep import Sweep, SweepSettings, Swept, run_ranks, sweep


def made() -> Sweep:
    points = (
        Swept(1.0, 9, 0.120, 0.11, 0.15, 12, 0.110),
        Swept(25.0, 2, 0.100, 0.09, 0.12, 12, 0.105),
        Swept(500.0, 1, 0.140, 0.13, 0.16, 12, 0.104),
    )
    return Sweep(2, 13_800_000, 0.08, "all-reduces of 8 sizes", points, ("a note",))


def test_the_table_names_both_best_limits() -> None:
    lines = list(text(made()))
    assert "13.8 M parameters (float32) on 2 ranks" in lines[0]
    assert "best measured" in lines[4]
    assert "best predicted" in lines[5]
    assert "the predicted best limit is 40.0 % slower than the best that was measured" in lines[6]
    assert lines[-1] == "# note: a note"


def test_the_chart_has_both_lines_and_computation() -> None:
    (panel,) = chart(made()).panels
    measured, predicted = panel.series
    assert measured.x == predicted.x == (2**20, 25 * 2**20, 500 * 2**20)
    assert (measured.y, measured.low) == ((0.120, 0.100, 0.140), (0.11, 0.09, 0.13))
    assert predicted.y == (0.110, 0.105, 0.104)
    assert [line.y for line in panel.lines] == [0.08]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (SweepSettings(world_size=1), "one rank synchronises nothing"),
        (SweepSettings(rounds=0), "rounds 0: must be 1 or more"),
        (SweepSettings(hidden=193), "hidden 193"),  # 3 heads do not divide it
        (SweepSettings(caps_mb=()), "limits"),
    ],
)
def test_mistakes(settings: SweepSettings, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        sweep(settings)


def test_a_real_step_is_measured_and_predicted() -> None:
    pytest.importorskip("torch")
    settings = SweepSettings(layers=1, hidden=64, vocab=512, tokens=8, caps_mb=(0.05, 25.0), rounds=1, steps=2)
    seen: list[tuple[int, int]] = []
    found = sweep(settings, progress=lambda done, total: seen.append((done, total)))
    # embedding 512 x 64, positions 8 x 64, a block's 4 matrices and 8 vectors, the last norm
    assert found.parameters == 520 * 64 + 12 * 64 * 64 + 13 * 64 + 2 * 64
    assert [point.buckets for point in found.points] == [4, 1]
    assert all(point.samples == 2 and point.low_s <= point.measured_s <= point.high_s for point in found.points)
    assert all(point.predicted_s >= found.compute_s for point in found.points)
    assert all(total == 2 for _, total in seen)


def test_a_rank_that_ends_badly_is_named() -> None:
    pytest.importorskip("torch")
    with pytest.raises(LaunchError, match=r"rank \d ended with status 1: .*nonsense"):
        run_ranks(SweepSettings(backend="nonsense"), lambda done, total: None)
