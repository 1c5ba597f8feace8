"""One curve: T over S for one collective, N and settings, with what can be read off it and what cannot."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from busbw.core.collective import COLLECTIVES
from busbw.core.cost_form import Overlap
from busbw.core.cost_model import Curve, Piece
from busbw.core.measurement import Source
from busbw.core.student_t import student_t
from busbw.costs.points import Points
from busbw.costs.segments import FINE, SURE, Part, Segments

ALIKE = 1.0
"""Readings within so many nats of the best (2 on Akaike's scale) are told apart by chance."""
_FAR_OFF = 4.0
_LEAST_FAR_OFF = 0.05


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and the 95 % interval that holds it; `high` is infinite where the data sets no bound."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Switch:
    """A place where one regime ends and another begins: somewhere from `least_bytes` to `most_bytes`.

    `jump` is T of the later regime over T of the earlier one there; `support` by how many nats two regimes describe the
    curve better than one.
    """

    least_bytes: int
    most_bytes: int
    jump: float
    support: float


@dataclass(frozen=True, slots=True)
class Outlier:
    """A row far off its piece: measured over fitted time."""

    size_bytes: int
    seconds: float
    ratio: float
    source: Source | None


@dataclass(frozen=True, slots=True)
class CurveFit:
    """A curve, and what it says. None means that these sizes do not identify it; `notes` say why."""

    points: Points
    curve: Curve
    launch_s: Interval | None
    """T as S goes to 0: launch and the latency of all steps together. One N cannot tell them apart."""
    bandwidth_Bps: Interval | None  # noqa: N815 - the unit's own capitals
    """B, the busbw that the last regime goes to as S grows."""
    half_peak_bytes: Interval | None
    """n1/2: where busbw reaches B / 2."""
    boundary_bytes: Interval | None
    """Where launch and wire cost the same: t0 B / f(N)."""
    switches: tuple[Switch, ...]
    outliers: tuple[Outlier, ...]
    scatter: float
    """The relative scatter of rows about the pieces: the median piece's."""
    notes: tuple[str, ...]


def fit_curve(points: Points) -> CurveFit | None:
    """Fit one group of points; None when they are too few (one size of a collective that moves data)."""
    moves = COLLECTIVES.get(points.collective).moves_data
    if not moves or points.sizes == (0,):
        return _barrier(points)
    if len(points.sizes) < 2:
        return None
    segments = Segments(points.sizes, points.seconds)
    pieces = segments.cut(FINE)
    regimes = segments.cut(SURE, with_limits=True)
    tails, heads = (_alike(segments.readings(part.start, part.stop)) for part in (regimes[-1], regimes[0]))
    with_rate = [part for part in segments.readings(regimes[-1].start, regimes[-1].stop) if _has_rate(part)]
    if with_rate and not _has_rate(tails[0]):  # bytes take time, even where these sizes do not show it
        tails.insert(0, with_rate[0])
    curve = Curve(
        points.collective,
        points.world_size,
        points.settings,
        tuple(part.piece for part in pieces),
        tuple(part.piece for part in regimes),
        tuple(part.piece for part in tails),
        _falls(points, pieces),
    )
    factor = COLLECTIVES.get(points.collective).bus_factor(points.world_size)
    launch = _hull([part.piece for part in heads], "launch_s")
    per_byte = _hull([part.piece for part in tails], "s_per_byte")
    notes = _notes(points, curve, launch, per_byte)
    bandwidth = None
    if per_byte is not None and per_byte.low > 0:
        bandwidth = Interval(factor / per_byte.value, factor / per_byte.high, factor / per_byte.low)
    return CurveFit(
        points,
        curve,
        launch if launch is not None and launch.low > 0 else None,
        bandwidth,
        _half_peak(curve) if bandwidth else None,
        _boundary(launch, per_byte),
        tuple(_switch(segments, before, after) for before, after in pairwise(regimes)),
        _outliers(points, pieces),
        sorted(part.piece.scatter for part in pieces)[len(pieces) // 2],
        notes,
    )


def _alike(readings: Sequence[Part]) -> list[Part]:
    return [part for part in readings if part.cost <= readings[0].cost + ALIKE]


def _has_rate(part: Part) -> bool:
    return isinstance(part.piece.form, Overlap) and part.piece.form.s_per_byte > 0


def _barrier(points: Points) -> CurveFit:
    seconds = points.seconds[0]
    piece = Piece(0, 0, 1, Overlap(seconds, 0.0), 0.1, 2.0, ((0.0,),))
    curve = Curve(points.collective, points.world_size, points.settings, (piece,), (piece,), (piece,))
    note = "one time only: its scatter is taken as 10 %"
    launch = Interval(seconds, *piece.bounds(0))
    return CurveFit(points, curve, launch, None, None, None, (), (), 0.1, (note,))


def _hull(readings: Sequence[Piece], name: str) -> Interval | None:
    """The interval over all readings that the data does not tell apart; its low is 0 where one of them has no such term."""
    bounds = []
    for piece in readings:
        form = piece.form
        value = float(getattr(form, name))
        if name not in form.parameters:
            bounds.append((0.0, 0.0))
            continue
        index = form.parameters.index(name)
        width = math.exp(min(student_t(0.975, piece.degrees) * math.sqrt(piece.covariance[index][index]), 20.0))
        bounds.append((value / width, value * width))
    value = float(getattr(readings[0].form, name))
    if value <= 0:
        return None
    lows, highs = zip(*bounds, strict=True)
    return Interval(value, min(lows), max(highs))


def _boundary(launch: Interval | None, per_byte: Interval | None) -> Interval | None:
    """t0 / (f/B); both intervals are taken as independent, which they nearly are across decades of size."""
    if launch is None or per_byte is None or launch.low <= 0 or per_byte.low <= 0:
        return None
    value = launch.value / per_byte.value
    down = math.hypot(math.log(launch.value / launch.low), math.log(per_byte.high / per_byte.value))
    up = math.hypot(math.log(launch.high / launch.value), math.log(per_byte.value / per_byte.low))
    return Interval(value, value * math.exp(-down), value * math.exp(up))


def _half_peak(curve: Curve) -> Interval | None:
    """The smallest S from which on S / T is above half of the full rate, on the curve and on its bounds."""

    def first(seconds: Callable[[float], float]) -> float:
        size, step = float(curve.least_bytes), 2 ** (1 / 32)
        while size < 2.0**60 and seconds(size) > 2 * size * curve.s_per_byte:
            size *= step
        return size

    value = first(lambda size: curve.at(size)[0])
    if value <= curve.least_bytes:
        return None  # the grid begins above it
    return Interval(value, first(lambda size: curve.at(size)[1]), first(lambda size: curve.at(size)[2]))


def _switch(segments: Segments, before: Part, after: Part) -> Switch:
    joined = segments.readings(before.start, after.stop)
    support = (joined[0].cost if joined else math.inf) - before.cost - after.cost
    least, most = before.piece.most_bytes, after.piece.least_bytes
    middle = math.sqrt(least * most)
    return Switch(least, most, after.piece.form.seconds(middle) / before.piece.form.seconds(middle), support)


def _falls(points: Points, pieces: Sequence[Part]) -> tuple[int, ...]:
    """Where one piece ends above where the next begins by more than both scatter, and the measured times fall as well."""
    found = []
    for before, after in pairwise(pieces):
        last, first = before.piece.most_bytes, after.piece.least_bytes
        drop = math.log(before.piece.form.seconds(last) / after.piece.form.seconds(first))
        chance = 2 * math.hypot(before.piece.scatter, after.piece.scatter)
        if drop > chance and points.seconds[after.start] < points.seconds[before.stop - 1]:
            found.append(last)
    return tuple(found)


def _outliers(points: Points, pieces: Sequence[Part]) -> tuple[Outlier, ...]:
    found = []
    for part in pieces:
        for index in range(part.start, part.stop):
            ratio = points.seconds[index] / part.piece.form.seconds(points.sizes[index])
            if abs(math.log(ratio)) > max(_FAR_OFF * _typical(points, part), _LEAST_FAR_OFF):
                found.append(Outlier(points.sizes[index], points.seconds[index], ratio, points.sources[index]))
    return tuple(found)


def _typical(points: Points, part: Part) -> float:
    """The scatter of a part by its median distance, which an outlier hardly moves."""
    off = sorted(
        abs(math.log(points.seconds[i] / part.piece.form.seconds(points.sizes[i])))
        for i in range(part.start, part.stop)
    )
    return 1.4826 * off[len(off) // 2]


def _notes(points: Points, curve: Curve, launch: Interval | None, per_byte: Interval | None) -> tuple[str, ...]:
    notes = []
    if len(points.sizes) < 4:
        notes.append(f"{len(points.sizes)} sizes only: the shape is assumed, not seen")
    if launch is None or launch.low <= 0:
        notes.append("launch not identifiable: no size is small enough to show a floor")
    if per_byte is None or per_byte.low <= 0:
        notes.append("B not identifiable: no size is large enough to show a rate")
    elif curve.most_bytes * per_byte.value < 0.5 * curve.at(curve.most_bytes)[0]:
        notes.append("B lies above twice the highest rate that was measured: it is an extrapolation")
    if points.wrong:
        notes.append(f"{points.wrong} rows had wrong data; their times count all the same")
    return tuple(notes)
