from __future__ import annotations

import numpy as np
import pytest

from busbw.core.cost_form import Overlap
from busbw.core.cost_model import LEAST_POINTS, MOST_PARAMETERS
from busbw.costs.segments import FINE, SURE, Segments, scatter
from busbw.costs.shape import SHAPES

SIZES = [2**power for power in range(3, 34)]
FORMS = (Overlap(10e-6, 1 / 20e9), Overlap(40e-6, 1 / 200e9, 0.5), Overlap(20e-6, 1 / 50e9, 2.5))


def noisy(form: Overlap, relative: float, rng: np.random.Generator, jump: float = 1.0, at: int = 99) -> list[float]:
    noise = np.exp(relative * rng.standard_normal(len(SIZES)))
    return [
        form.seconds(s) * float(z) * (jump if i >= at else 1) for i, (s, z) in enumerate(zip(SIZES, noise, strict=True))
    ]


def test_every_shape_is_a_file_of_the_folder() -> None:
    assert SHAPES.names() == ("floor", "line", "overlap", "power", "rate")
    assert [shape.name for shape in SHAPES] == list(SHAPES.names())


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.words)
def test_one_shape_without_scatter_is_found_exactly(form: Overlap) -> None:
    segments = Segments(SIZES, [form.seconds(size) for size in SIZES])
    (part,) = segments.cut(SURE, with_limits=True)
    assert isinstance(part.piece.form, Overlap)
    assert part.piece.form.sharpness == form.sharpness
    assert part.piece.form.launch_s == pytest.approx(form.launch_s, rel=1e-4)
    assert part.piece.form.s_per_byte == pytest.approx(form.s_per_byte, rel=1e-4)


@pytest.mark.parametrize("relative", [0.01, 0.03])
def test_a_switch_is_seldom_named_where_there_is_none(relative: float) -> None:
    rng = np.random.default_rng(1)
    cut = [len(Segments(SIZES, noisy(form, relative, rng)).cut(SURE, with_limits=True)) > 1 for form in FORMS * 20]
    assert sum(cut) <= 2


@pytest.mark.parametrize("jump", [0.65, 1.4])
def test_a_switch_is_named_where_there_is_one(jump: float) -> None:
    rng = np.random.default_rng(2)
    found = 0
    for form in FORMS * 10:
        at = int(rng.integers(6, len(SIZES) - 6))
        parts = Segments(SIZES, noisy(form, 0.02, rng, jump, at)).cut(SURE, with_limits=True)
        found += [abs(part.stop - at) <= 1 for part in parts[:-1]] == [True]
    assert found >= 27


def test_parts_have_at_least_four_points_and_at_most_four_parameters() -> None:
    rng = np.random.default_rng(3)
    times = np.exp(
        np.cumsum(rng.uniform(0, 3.0, len(SIZES)) * (np.arange(len(SIZES)) % 5 == 0))
    )  # no shape at all: as many cuts as there can be
    parts = Segments(SIZES, times.tolist()).cut(FINE)
    assert len(parts) > 2
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert min(part.stop - part.start for part in parts) >= LEAST_POINTS
    assert max(len(part.piece.form.parameters) for part in parts) <= MOST_PARAMETERS


def test_half_of_the_points_cannot_be_outliers_of_the_other_half() -> None:
    """Six sizes, far apart, whose small ones a rate alone misses by up to 500 times."""
    sizes = [4096, 65536, 2**20, 2**24, 2**28, 2**30]
    times = [42.1e-6, 40.4e-6, 31.3e-6, 301.3e-6, 4694.8e-6, 18709.7e-6]
    (part,) = Segments(sizes, times).cut(SURE, with_limits=True)
    assert isinstance(part.piece.form, Overlap)
    assert 20e-6 < part.piece.form.launch_s < 50e-6
    assert 0.8 < part.piece.form.s_per_byte * 57.3e9 < 1.25


def test_many_points_are_cut_at_chosen_places() -> None:
    sizes = [2**20 * k for k in range(1, 201)]
    form = Overlap(10e-6, 1 / 20e9)
    times = [form.seconds(size) * (1.5 if size > 100 * 2**20 else 1) for size in sizes]
    parts = Segments(sizes, times).cut(SURE, with_limits=True)
    assert len(parts) >= 2
    assert any(abs(part.piece.most_bytes / 2**20 - 100) <= 3 for part in parts[:-1])


def test_scatter_is_seen_between_near_neighbours_only() -> None:
    rng = np.random.default_rng(4)
    near = 1.1 ** np.arange(300)
    assert scatter(near, np.exp(0.05 * rng.standard_normal(300))) == pytest.approx(0.05, rel=0.2)
    assert scatter(16.0 ** np.arange(3, 9), np.ones(6)) is None
