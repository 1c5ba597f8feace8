"""Where to cut a curve, and which shape each part has: the least of an information criterion over all cuts at once.

A part of n points with k parameters costs, in nats::

    n/2 log((misfit + 1/2) / (n - k + 1/2)) + k + cut

the maximised likelihood with the part's own variance, on which the noise of the whole curve counts as half a point of
prior (else three parameters would fit four points perfectly and buy themselves a part), Akaike's 1 for each parameter
(a little more where the curve has few points), and a price for the cut. Parts add up, so dynamic programming finds the best cuts exactly (Jackson et al., "An algorithm
for optimal partitioning of data on an interval", IEEE SPL 12, 2005).

Two prices are in use. FINE, 1, is Akaike's again, made for predicting: it follows the curve as closely as pays off, and
often cuts where there is no switch. SURE, 5, is for naming a switch: of curves of one shape with a scatter of 1-3 %, one
in a hundred is cut, and of those with a jump of 30 % or more, nine in ten are (tests/costs/test_segments.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from busbw.core.cost_form import Form, Overlap, Power
from busbw.core.cost_model import LEAST_POINTS, MOST_PARAMETERS, Piece
from busbw.costs.shape import SHAPES, Floats, Runs, Solved

FINE, SURE = 1.0, 5.0
PRIOR_POINTS = 0.5
MOST_GROSS = 0.25
"""The share of a part's points that may be grossly off it; each more costs as much as a sure cut. Weights that fall with
distance would else let a shape pass through half of the points and call the others outliers."""
MOST_CUTS = 48
"""Places where a curve may be cut; more points than that are cut at evenly chosen ones."""
LEAST_NOISE = 1e-3
MOST_CORRECTION = 1.5
POSSIBLE_NOISE = (0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3)
"""Where sizes lie too far apart to see it: what one size a factor of 16 from the next scatters by, at least to most."""
_LOG_MISFIT_OF_NORMAL = 0.78
"""E[4 log(1 + z^2/4)] of a standard normal z: what turns a misfit into a sum of squares."""


@dataclass(frozen=True, slots=True)
class Part:
    """Points [start, stop) under one form; `cost` without the cut's."""

    start: int
    stop: int
    cost: float
    piece: Piece


class Segments:
    """All runs of neighbouring points of one curve under all shapes; asked for the best cuts."""

    def __init__(self, sizes: Sequence[int], seconds: Sequence[float]) -> None:
        self.sizes, self.seconds = np.array(sizes, float), np.array(seconds, float)
        self._unit_size = float(np.exp(np.log(self.sizes).mean()))
        self._unit_s = float(np.exp(np.log(self.seconds).mean()))
        seen = scatter(self.sizes, self.seconds)
        self.noise = self._likely_noise() if seen is None else seen

    @cached_property
    def _spans(self) -> tuple[tuple[int, int], ...]:
        count = len(self.sizes)
        least = min(LEAST_POINTS, count)
        places = np.unique(np.linspace(0, count, min(count, MOST_CUTS) + 1).round().astype(int)).tolist()
        return tuple(
            (i, j)
            for i in places
            for j in places
            if j - i >= least and (i == 0 or i >= least) and (j == count or count - j >= least)
        )

    def _runs(self, spans: tuple[tuple[int, int], ...], noise: float) -> Runs:
        inside = np.zeros((len(spans), len(self.sizes)))
        for run, (start, stop) in enumerate(spans):
            inside[run, start:stop] = 1
        return Runs(self.sizes / self._unit_size, self.seconds / self._unit_s, spans, inside, noise)

    def _likely_noise(self) -> float:
        """The scatter under which one shape over all points is most likely (Student's t of 4 degrees)."""
        count = len(self.sizes)
        best = (math.inf, POSSIBLE_NOISE[0])
        for noise in POSSIBLE_NOISE:
            runs = self._runs(((0, count),), noise)
            for solved in (solved for shape in SHAPES for solved in shape.solve(runs)):
                if solved.valid[0] and solved.parameters < count:
                    surprise = count * math.log(noise) + 2.5 / 4 * float(solved.misfit[0])
                    surprise += _small_sample_price(solved.parameters, count)
                    best = min(best, (surprise, noise))
        return best[1]

    @cached_property
    def _solved(self) -> list[tuple[bool, Solved]]:
        runs = self._runs(self._spans, self.noise)
        return [(shape.has_limits, solved) for shape in SHAPES for solved in shape.solve(runs)]

    @cached_property
    def _costs(self) -> Floats:
        """Of shape (runs, shapes), in nats; infinite where a shape does not exist, or leaves no degree of freedom."""
        counts = np.array([stop - start for start, stop in self._spans], float)
        columns = []
        for _, solved in self._solved:
            assert solved.parameters <= MOST_PARAMETERS
            free = counts - solved.parameters
            variance = (solved.misfit + PRIOR_POINTS) / (np.maximum(free, 0) + PRIOR_POINTS)
            price = _small_sample_price(solved.parameters, len(self.sizes))
            too_many = np.maximum(solved.gross - MOST_GROSS * counts, 0)
            cost = counts / 2 * np.log(variance) + price + SURE * too_many
            columns.append(np.where(solved.valid & (free >= 1), cost, np.inf))
        costs: Floats = np.array(columns).T
        return costs

    def cut(self, price: float, *, with_limits: bool = False) -> list[Part]:
        """The best parts in order. `with_limits`: only shapes whose launch or rate can be read off."""
        costs = self._costs
        if with_limits:
            costs = np.where([has_limits for has_limits, _ in self._solved], costs, np.inf)
        shapes = costs.argmin(axis=1)
        count = len(self.sizes)
        total, came_by = [0.0] + [math.inf] * count, [-1] * (count + 1)
        for run in sorted(range(len(self._spans)), key=lambda run: self._spans[run][1]):
            start, stop = self._spans[run]
            reached = total[start] + float(costs[run, shapes[run]]) + price
            if reached < total[stop]:
                total[stop], came_by[stop] = reached, run
        parts, stop = [], count
        while stop > 0:
            run = came_by[stop]
            parts.append(self._part(run, int(shapes[run])))
            stop = self._spans[run][0]
        return parts[::-1]

    def readings(self, start: int, stop: int) -> list[Part]:
        """All shapes with limits that these points can have; the best first."""
        run = self._spans.index((start, stop))
        kept = [
            (float(self._costs[run, shape]), shape)
            for shape, (has_limits, _) in enumerate(self._solved)
            if has_limits and math.isfinite(self._costs[run, shape])
        ]
        return [self._part(run, shape) for _, shape in sorted(kept)]

    def _part(self, run: int, shape: int) -> Part:
        start, stop = self._spans[run]
        solved = self._solved[shape][1]
        form = self._unscaled(solved.form(run))
        sizes = [int(size) for size in self.sizes[start:stop]]
        # An end that was chosen for the fit costs a degree of freedom, as a parameter does.
        chosen_ends = (start > 0) + (stop < len(self.sizes))
        free = max(stop - start - solved.parameters - chosen_ends + PRIOR_POINTS, 1.0)
        variance = self.noise**2 * (float(solved.misfit[run]) / _LOG_MISFIT_OF_NORMAL + PRIOR_POINTS) / free
        gradient = np.array([form.gradient(size) for size in sizes])
        information = gradient.T @ (gradient * solved.weights[run, start:stop, None])
        covariance = variance * np.linalg.pinv(information, rcond=1e-9, hermitian=True)
        piece = Piece(
            sizes[0], sizes[-1], len(sizes), form, math.sqrt(variance), free, tuple(map(tuple, covariance.tolist()))
        )
        return Part(start, stop, float(self._costs[run, shape]), piece)

    def _unscaled(self, form: Form) -> Form:
        if isinstance(form, Power):
            return Power(form.seconds_at * self._unit_s, form.at_bytes * self._unit_size, form.exponent)
        return Overlap(form.launch_s * self._unit_s, form.s_per_byte * self._unit_s / self._unit_size, form.sharpness)


def _small_sample_price(parameters: int, points: int) -> float:
    """Akaike's price of a shape as corrected by Hurvich & Tsai (1989), k n/(n - k - 2), with the n of the whole curve.

    The correction is for errors with a normal distribution. On six sizes, where it would be 3 and more, it forbids what the
    eye sees (a floor and a rate), so it ends at MOST_CORRECTION.
    """
    spare = points - parameters - 2
    return parameters * (min(points / spare, MOST_CORRECTION) if spare > 0 else MOST_CORRECTION)


def scatter(sizes: Floats, seconds: Floats) -> float | None:
    """The relative scatter of rows, from how far each lies off the line between its neighbours; the median, robustly.

    Only neighbours within a factor of 4 count: between those further apart, the curve bends by more than it scatters.
    None where fewer than three rows have such neighbours.
    """
    x, y = np.log(sizes), np.log(seconds)
    if len(x) < 3:
        return None
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    off = (y[1:-1] - y[:-2] * (1 - share) - y[2:] * share) / np.sqrt(1 + share**2 + (1 - share) ** 2)
    near = np.maximum(np.diff(x)[1:], np.diff(x)[:-1]) <= math.log(4) + 1e-9
    if near.sum() < 3:
        return None
    return max(1.4826 * float(np.median(np.abs(off[near]))), LEAST_NOISE)
