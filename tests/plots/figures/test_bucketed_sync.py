from __future__ import annotations

from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.formats import read_results
from busbw.plots.figure import FigureOptions
from busbw.plots.figures.bucketed_sync import FIGURE, buckets, gradient_sizes
from busbw.pricing.readers import read_model
from busbw.units import KIB, MIB

from ..rows import SIZES, row


def test_buckets_close_once_they_reach_the_limit_and_the_first_by_default_at_1_mib() -> None:
    assert buckets([300 * KIB] * 10, 600 * KIB) == [600 * KIB] * 5
    assert buckets([20 * MIB] * 4, 30 * MIB) == [40 * MIB, 40 * MIB]
    assert buckets([20 * MIB] * 4, 25 * MIB) == [20 * MIB, 40 * MIB, 20 * MIB]
    assert buckets([5, 7, 9], 1) == [5, 7, 9]


def test_gpt2_has_148_gradients_and_98_of_them_hold_a_thousandth_of_the_bytes() -> None:
    sizes = sorted(gradient_sizes(read_model("gpt2"), "bfloat16"))
    assert (len(sizes), sum(sizes)) == (148, 2 * 124_439_808)
    assert sum(sizes[:98]) / sum(sizes) < 0.001 < sum(sizes[:99]) / sum(sizes)


def test_latency_is_paid_for_each_call_and_bytes_once() -> None:
    # T = 50 us + S / 10 GB/s: 148 calls pay 7.4 ms and one call 50 us; the bytes take 24.9 ms either way.
    rows = [row("all_reduce", 2, size, 50e-6 + size / 1e10) for size in SIZES]
    chart = FIGURE.build(rows, FigureOptions())
    (panel,) = chart.panels
    carried, latency = panel.layers
    assert (carried.label, latency.label) == ("bytes", "latency")
    assert latency.y[0] == pytest.approx(148 * 50e-6, rel=0.01)
    assert latency.y[-1] == pytest.approx(50e-6, rel=0.01)
    assert carried.y[0] == pytest.approx(0.02489, rel=0.01)
    assert max(carried.y) == pytest.approx(min(carried.y), rel=1e-6)
    assert [(edge.label, edge.x) for edge in panel.boundaries] == [("25 MiB", 25.0 * MIB)]


def test_another_model_and_bucket() -> None:
    rows = [row("all_reduce", 2, size, 50e-6 + size / 1e10, dtype="float32") for size in SIZES]
    chart = FIGURE.build(rows, FigureOptions(model="gpt2-medium", bucket_bytes=4 * MIB))
    assert "gpt2-medium" in chart.title
    assert "of float32" in chart.subtitle
    assert chart.panels[0].boundaries[0].x == 4.0 * MIB
    with pytest.raises(UsageError):
        FIGURE.build(rows, FigureOptions(model="no-such-model"))


def test_it_takes_rows_of_all_reduce_with_a_floor() -> None:
    with pytest.raises(UsageError, match="bucketed_sync: no all_reduce rows"):
        FIGURE.build([row("all_gather", 2, size, 50e-6 + size / 1e10) for size in SIZES], FigureOptions())


def test_the_posts_own_results(seed_files: list[Path]) -> None:
    rows = [m for file in seed_files for m in read_results(str(file)).measurements]
    at_8 = FIGURE.build(rows, FigureOptions(world_sizes=(8,))).panels[0]
    carried, latency = at_8.layers
    assert latency.y[0] == pytest.approx(9.0e-3, rel=0.02)  # "about 10 ms" of the post's text
    assert carried.y[-1] + latency.y[-1] == pytest.approx(24.6e-3, rel=0.02)  # "about 25 ms"
