from __future__ import annotations

from pathlib import Path

import pytest

from busbw.core.measurement import Measurement
from busbw.errors import UsageError
from busbw.formats import read_results
from busbw.plots.figure import FigureOptions
from busbw.plots.figures.where_the_time_goes import FIGURE

from ..rows import SIZES, row


def rows_of(collective: str, n: int, launch_s: float, s_per_byte: float) -> list[Measurement]:
    return [row(collective, n, size, launch_s + s_per_byte * size) for size in SIZES]


def test_latency_and_bytes_are_shares_of_the_fitted_time() -> None:
    (panel,) = FIGURE.build(rows_of("all_reduce", 4, 20e-6, 1e-10), FigureOptions()).panels
    beta, latency = panel.layers
    assert (beta.label, latency.label) == ("bytes (beta)", "latency (t0 + alpha)")
    assert panel.stack[-1] == pytest.approx([1.0] * len(beta.x))
    # At 4 KiB: 0.41 us of bytes in 20.41 us; at 1 GiB: 107.4 ms in 107.4 ms.
    assert beta.y[0] == pytest.approx(0.41 / 20.41, rel=0.02)
    assert beta.y[-1] == pytest.approx(1.0, abs=1e-3)
    (edge,) = panel.boundaries
    assert edge.x == pytest.approx(20e-6 / 1e-10, rel=0.01)  # half of the time is latency there


def test_launch_and_steps_part_where_latency_grows_with_the_steps_of_a_ring() -> None:
    # t0 = 8 us, alpha = 2 us: 12, 20, 36, 68 us at N = 2, 4, 8, 16 with 2, 6, 14, 30 steps.
    rows = [r for n in (2, 4, 8, 16) for r in rows_of("all_reduce", n, 8e-6 + 2 * (n - 1) * 2e-6, 1e-10)]
    panels = FIGURE.build(rows, FigureOptions()).panels
    for panel, n in zip(panels, (2, 4, 8, 16), strict=True):
        parts = {layer.label: layer.y[0] for layer in panel.layers}
        assert parts["steps (alpha)"] / parts["launch (t0)"] == pytest.approx(2 * (n - 1) * 2 / 8, rel=0.1)


def test_reducing_is_what_reduce_scatter_takes_more_for_each_byte() -> None:
    rows = rows_of("all_reduce", 4, 2e-5, 3e-10) + rows_of("reduce_scatter", 4, 1e-5, 1.8e-10)
    rows += rows_of("all_gather", 4, 1e-5, 1.2e-10)
    chart = FIGURE.build(rows, FigureOptions())
    parts = {layer.label: layer.y[-1] for layer in chart.panels[0].layers}
    assert parts["reducing (gamma)"] == pytest.approx(0.6 / 3.0, rel=0.02)
    assert any(note.startswith("Reducing at N = 4:") for note in chart.notes)


def test_where_both_halves_take_the_same_no_cost_of_reducing_is_claimed() -> None:
    rows = [r for name in ("all_reduce", "reduce_scatter", "all_gather") for r in rows_of(name, 4, 1e-5, 1e-10)]
    chart = FIGURE.build(rows, FigureOptions())
    assert len(chart.panels[0].layers) == 2
    assert any(note.startswith("Reducing at N = 4: no cost beyond the intervals") for note in chart.notes)


def test_a_line_without_a_floor_is_not_drawn() -> None:
    with pytest.raises(UsageError, match="no line shows both a floor and a rate"):
        FIGURE.build([row("all_reduce", 4, size, 1e-10 * size) for size in SIZES], FigureOptions())


def test_the_posts_own_results(seed_files: list[Path]) -> None:
    rows = [m for file in seed_files for m in read_results(str(file)).measurements]
    chart = FIGURE.build(rows, FigureOptions())
    assert [[layer.colour for layer in panel.layers] for panel in chart.panels] == [
        ["bytes", "latency"],
        ["bytes", "latency"],
        ["bytes", "reducing", "latency"],  # 9.9 ms at 1 GiB, at N = 8 alone
    ]
    assert any("it is not a cost of each reduced byte" in note for note in chart.notes)
