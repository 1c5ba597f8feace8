from __future__ import annotations

import pytest

from busbw.plots.fits import boundary, fit_line, grid, ribbon, rough_size
from busbw.plots.lines import make_lines
from busbw.units import KIB, MIB

from .rows import SIZES, row


def test_a_line_is_fitted_on_the_points_that_are_drawn() -> None:
    rows = [row("all_gather", 4, size, 2e-5 + size / 1e10, repeat=i) for size in SIZES for i in (0, 1, 2)]
    (line,) = make_lines(rows)
    fit = fit_line(line)
    assert fit is not None
    assert fit.points.sizes == SIZES
    assert fit.points.rows == 18
    edge = boundary(fit)
    assert edge is not None
    assert edge.value == pytest.approx(2e5, rel=0.01)
    drawn = ribbon(line, fit, "N=4")
    assert drawn.y[-1] == pytest.approx(2e-5 + SIZES[-1] / 1e10, rel=0.01)
    assert len(drawn.x) == 18 * 4 + 1  # 18 octaves


def test_one_size_has_no_fit() -> None:
    (line,) = make_lines([row("all_gather", 4, MIB, 1e-3)])
    assert fit_line(line) is None
    assert boundary(None) is None


def test_grid_and_rough_sizes() -> None:
    assert grid(1024.0, 4096.0, per_octave=1) == (1024.0, 2048.0, 4096.0)
    assert rough_size(604.25 * KIB) == "604 KiB"
