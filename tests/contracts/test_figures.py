"""One contract for every figure: whatever file lies in busbw/plots/figures has to keep it."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.core.call import Call
from busbw.core.measurement import Measurement
from busbw.errors import UsageError
from busbw.plots.figure import FIGURES, FigureOptions

from ..plots.rows import two_runs


@pytest.mark.parametrize("name", FIGURES.names())
def test_a_figure_is_named_as_its_file_and_says_what_it_shows(name: str, root: Path) -> None:
    figure = FIGURES.get(name)
    assert figure.name == name
    assert figure.summary
    assert "\n" not in figure.summary
    assert f"## {name}: " in (root / "docs" / "figures.md").read_text()


@pytest.mark.parametrize("name", FIGURES.names())
def test_a_figure_holds_si_numbers_and_says_what_it_left_out(name: str) -> None:
    rows = two_runs()
    chart = FIGURES.get(name).build(rows, FigureOptions())
    assert chart.title
    assert any(note.startswith("Left out") for note in chart.notes)
    for panel in chart.panels:
        if panel.x.unit == "size":
            measured = {float(row.call.size_bytes) for row in rows}
            assert {x for series in panel.series for x in series.x} <= measured
            assert {strip.x for strip in panel.strips} <= measured


@pytest.mark.parametrize("name", FIGURES.names())
def test_a_figure_that_has_nothing_to_draw_says_so_by_its_name(name: str) -> None:
    for rows in ([], [Measurement(Call("barrier", 0, 4), 1e-5)], [Measurement(Call("all_reduce", 1024, 1), 1e-5)]):
        with pytest.raises(UsageError, match=f"^{name}: "):
            FIGURES.get(name).build(rows, FigureOptions())
