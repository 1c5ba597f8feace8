"""What a collective call costs: a Call in, seconds out, with an interval, and what the answer rests on.

A CostModel holds one Curve for each (collective, N, settings) that was fitted, and says how launch and rate go from one
N to another. `costs.fit` makes it from measurements; pricing and simulation ask it.

- T is never negative, and falls as S grows only at `Curve.falls`: where measured times fall beyond their scatter (a
  switch of protocol that came too late). Smaller falls are drawn to the middle of both sides.
- Inside the measured sizes the *pieces* answer; outside, the first and the last *regime* do (see Curve), and
  `Estimate.extrapolates` says so.
- Intervals are of 95 % for the time of a row measured in the same way, not for a single call in a busy job.

History of the saved form:
    1   {"type": "cost_model", "format": 1, "curves": [...], "scalings": [...]}
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from busbw.core.call import Call
from busbw.core.collective import COLLECTIVES
from busbw.core.cost_form import Form, Overlap, form_from_json, form_to_json
from busbw.core.student_t import student_t
from busbw.errors import FileError, UsageError
from busbw.units import format_size

FORMAT_VERSION = 1
MOST_PARAMETERS = 4
LEAST_POINTS = 4
"""No more parameters than this in a piece or a regime, nor fewer sizes where a curve is cut into several."""
_WIDEST = 5.0  # a half-width above this, in log T, only says "unknown"


@dataclass(frozen=True, slots=True)
class Estimate:
    """The price of one call in seconds: `low` to `high` holds 95 %.

    `bandwidth_s` is what S would take at the curve's full rate, `latency_s` all else: launch, steps, and a rate that
    is not reached yet. Both are of the middle estimate and add up to `seconds`. `extrapolates` holds one sentence for
    each way in which the call lies outside what was measured; empty when it lies inside.
    """

    seconds: float
    low: float
    high: float
    latency_s: float
    bandwidth_s: float
    extrapolates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """One form over a range of sizes, with how far it can be trusted.

    `scatter` is the relative standard deviation of rows about the form; `covariance` is that of the logarithms of the
    form's parameters (of the exponent itself, in Power), from `degrees` degrees of freedom.
    """

    least_bytes: int
    most_bytes: int
    points: int
    form: Form
    scatter: float
    degrees: float
    covariance: tuple[tuple[float, ...], ...]

    def half_width(self, size_bytes: float) -> float:
        """Half of the 95 % interval of log T at S."""
        gradient = self.form.gradient(size_bytes)
        variance = self.scatter**2 + sum(
            a * b * c
            for a, row in zip(gradient, self.covariance, strict=True)
            for b, c in zip(gradient, row, strict=True)
        )
        return min(student_t(0.975, self.degrees) * math.sqrt(max(variance, 0.0)), _WIDEST)

    def bounds(self, size_bytes: float) -> tuple[float, float]:
        """Low and high of T at S."""
        seconds, width = self.form.seconds(size_bytes), math.exp(self.half_width(size_bytes))
        return seconds / width, seconds * width

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of the fields."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {**fields, "form": form_to_json(self.form), "covariance": [list(row) for row in self.covariance]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Piece:
        """The inverse of `to_json`."""
        form = form_from_json(data["form"])
        covariance = tuple(tuple(map(float, row)) for row in data["covariance"])
        size = len(form.parameters)
        if len(covariance) != size or any(len(row) != size for row in covariance):
            raise ValueError(f"a form of {size} parameters needs a covariance of as many rows and columns")
        return cls(
            int(data["least_bytes"]),
            int(data["most_bytes"]),
            int(data["points"]),
            form,
            float(data["scatter"]),
            float(data["degrees"]),
            covariance,
        )


@dataclass(frozen=True, slots=True)
class Curve:
    """T over S for one collective, N and group of settings.

    `pieces` follow the measured points as finely as predicting others of them allows (Akaike's criterion). `regimes`
    are cut only where there is no doubt; all are Overlap forms, whose launch and rate can be read off. `tails` are the
    readings of the last regime that the data allows: the first answers beyond the largest size, all widen its interval.
    """

    collective: str
    world_size: int
    settings: Mapping[str, str]
    pieces: tuple[Piece, ...]
    regimes: tuple[Piece, ...]
    tails: tuple[Piece, ...]
    falls: tuple[int, ...] = ()
    """The `most_bytes` of each piece after which T falls: there the measured times do, beyond their scatter."""
    _levels: tuple[tuple[float, float], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        level: list[float] = []
        ends: list[float] = []
        for piece in self.pieces:
            ends += [piece.form.seconds(piece.least_bytes), piece.form.seconds(piece.most_bytes)]
            if piece.most_bytes in self.falls or piece is self.pieces[-1]:
                level += _never_falling(ends)
                ends = []
        object.__setattr__(self, "_levels", tuple(zip(level[::2], level[1::2], strict=True)))

    @property
    def least_bytes(self) -> int:
        """The smallest measured size."""
        return self.pieces[0].least_bytes

    @property
    def most_bytes(self) -> int:
        """The largest measured size."""
        return self.pieces[-1].most_bytes

    @property
    def levels(self) -> tuple[tuple[float, float], ...]:
        """T at the smallest and largest size of each piece, in seconds: between them T never falls, but at `falls`."""
        return self._levels

    @property
    def s_per_byte(self) -> float:
        """Seconds for each further byte of S at full rate: f(N)/B of the tail; 0 where it is not known."""
        form = self.tails[0].form
        return form.s_per_byte if isinstance(form, Overlap) else 0.0

    @property
    def launch_s(self) -> float:
        """T as S goes to 0, of the first regime; 0 where it is not known."""
        form = self.regimes[0].form
        return form.launch_s if isinstance(form, Overlap) else 0.0

    def at(self, size_bytes: float) -> tuple[float, float, float]:
        """Seconds, low and high of T at S."""
        if size_bytes < self.least_bytes:
            seconds, low, high = self._before(size_bytes)
        elif size_bytes > self.most_bytes:
            seconds, low, high = self._beyond(size_bytes)
        else:
            seconds, low, high = self._inside(size_bytes)
        return seconds, min(low, seconds), max(high, seconds)

    def _inside(self, size_bytes: float) -> tuple[float, float, float]:
        index = next(i for i, piece in enumerate(self.pieces) if size_bytes <= piece.most_bytes)
        piece = self.pieces[index]
        if size_bytes >= piece.least_bytes:
            least, most = self._levels[index]
            return (min(max(piece.form.seconds(size_bytes), least), most), *piece.bounds(size_bytes))
        # Between two pieces: the switch may lie anywhere, so T goes evenly from one to the other.
        before = self.pieces[index - 1]
        share = math.log(size_bytes / before.most_bytes) / math.log(piece.least_bytes / before.most_bytes)
        seconds = self._levels[index - 1][1] ** (1 - share) * self._levels[index][0] ** share
        lows, highs = zip(before.bounds(size_bytes), piece.bounds(size_bytes), strict=True)
        return seconds, min(lows), max(highs)

    def _before(self, size_bytes: float) -> tuple[float, float, float]:
        head, least = self.regimes[0], self._levels[0][0]
        low, _ = head.bounds(size_bytes)
        _, high = self.pieces[0].bounds(self.least_bytes)
        return min(head.form.seconds(size_bytes), least), low, high

    def _beyond(self, size_bytes: float) -> tuple[float, float, float]:
        most = self._levels[-1][1]
        lows, highs = zip(*(tail.bounds(size_bytes) for tail in self.tails), strict=True)
        return max(self.tails[0].form.seconds(size_bytes), most), min(lows), max(highs)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of the fields."""
        return {
            "collective": self.collective,
            "world_size": self.world_size,
            "settings": dict(self.settings),
            "pieces": [piece.to_json() for piece in self.pieces],
            "regimes": [piece.to_json() for piece in self.regimes],
            "tails": [piece.to_json() for piece in self.tails],
            "falls": list(self.falls),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Curve:
        """The inverse of `to_json`."""
        pieces, regimes, tails = (
            tuple(Piece.from_json(piece) for piece in data[name]) for name in ("pieces", "regimes", "tails")
        )
        sizes = [size for piece in pieces for size in (piece.least_bytes, piece.most_bytes)]
        if not (pieces and regimes and tails) or sizes != sorted(sizes) or sizes[0] < 0:
            raise ValueError("a curve needs pieces, regimes and tails, in the order of their sizes")
        if str(data["collective"]) not in COLLECTIVES.names() or int(data["world_size"]) < 1:
            raise ValueError(f"{data['collective']!r} on {data['world_size']!r} ranks is no collective")
        settings = {str(name): str(value) for name, value in data["settings"].items()}
        falls = tuple(int(size) for size in data.get("falls", ()))
        return cls(str(data["collective"]), int(data["world_size"]), settings, pieces, regimes, tails, falls)


LAWS: Mapping[str, Callable[[int], float]] = {
    "constant": lambda n: 0.0,
    "steps": lambda n: n - 1.0,
    "log2": lambda n: math.log2(n),
}
"""How a quantity may grow with N, beside a constant: not at all; with the steps around a ring; with a tree's depth."""


@dataclass(frozen=True, slots=True)
class Law:
    """base + slope x LAWS[name](N), both of 0 or more."""

    name: str
    base: float
    slope: float

    def at(self, world_size: int) -> float:
        """Its value at N."""
        return self.base + self.slope * LAWS[self.name](world_size)


@dataclass(frozen=True, slots=True)
class Scaling:
    """How one collective under one group of settings goes from N to N.

    `launch` are laws of T at S = 0 in seconds, `wire` of 1/B in seconds per byte of busbw. The first is used; the others
    are those that the data does not tell from it.
    """

    collective: str
    settings: Mapping[str, str]
    launch: tuple[Law, ...]
    wire: tuple[Law, ...]

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of the fields."""
        laws = {
            name: [{"name": law.name, "base": law.base, "slope": law.slope} for law in getattr(self, name)]
            for name in ("launch", "wire")
        }
        return {"collective": self.collective, "settings": dict(self.settings), **laws}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Scaling:
        """The inverse of `to_json`."""
        laws = {}
        for name in ("launch", "wire"):
            laws[name] = tuple(
                Law(str(law["name"]), float(law["base"]), float(law["slope"]))
                for law in data[name]
                if law["name"] in LAWS
            )
            if not laws[name] or not all(
                0 <= value < math.inf for law in laws[name] for value in (law.base, law.slope)
            ):
                raise ValueError(f"a scaling needs a law of its {name}, with base and slope of 0 or more")
        settings = {str(name): str(value) for name, value in data["settings"].items()}
        return cls(str(data["collective"]), settings, laws["launch"], laws["wire"])


@dataclass(frozen=True, slots=True)
class CostModel:
    """Prices calls: `estimate(call)` from the curves of its collective, at its N, between two, or beyond them."""

    curves: tuple[Curve, ...]
    scalings: tuple[Scaling, ...] = ()

    def seconds(self, call: Call) -> float:
        """The middle estimate of `estimate`."""
        return self.estimate(call).seconds

    def estimate(self, call: Call) -> Estimate:
        """The price of one call; UsageError when nothing was fitted for its collective.

        What the call leaves open (dtype, redop, root, in_place) and the labels of the runs are taken from the group of
        settings that fits it best; `select` narrows the model to one group beforehand.
        """
        if call.world_size == 1:
            return Estimate(0.0, 0.0, 0.0, 0.0, 0.0, ("N = 1: nothing moves between ranks; no time is counted",))
        by_world, reasons = self._group(call)
        worlds = sorted(by_world)
        n = call.world_size
        if n in by_world:
            return _at_curve(by_world[n], call.size_bytes, reasons)
        if worlds[0] < n < worlds[-1]:
            below, above = max(w for w in worlds if w < n), min(w for w in worlds if w > n)
            return _between(by_world[below], by_world[above], n, call.size_bytes, reasons)
        nearest = by_world[worlds[0] if n < worlds[0] else worlds[-1]]
        return self._beyond(nearest, n, call.size_bytes, reasons)

    def select(self, **settings: str) -> CostModel:
        """Only the curves with these settings (`dtype="bfloat16"`, `NCCL_ALGO="Ring"`); UsageError when none is left."""
        kept = [item for item in self.curves if settings.items() <= item.settings.items()]
        if not kept:
            choices = sorted({f"{name}={value}" for curve in self.curves for name, value in curve.settings.items()})
            raise UsageError(f"no curve has {settings}: the settings of this model are {', '.join(choices) or 'none'}")
        scalings = [item for item in self.scalings if settings.items() <= item.settings.items()]
        return CostModel(tuple(kept), tuple(scalings))

    def worlds(self, collective: str) -> tuple[int, ...]:
        """The N that were fitted for a collective."""
        return tuple(sorted({curve.world_size for curve in self.curves if curve.collective == collective}))

    def _group(self, call: Call) -> tuple[dict[int, Curve], tuple[str, ...]]:
        groups: dict[tuple[tuple[str, str], ...], dict[int, Curve]] = {}
        for curve in self.curves:
            if curve.collective == call.collective:
                groups.setdefault(tuple(sorted(curve.settings.items())), {})[curve.world_size] = curve
        if not groups:
            known = ", ".join(sorted({curve.collective for curve in self.curves})) or "nothing"
            raise UsageError(f"the cost model has no {call.collective}: it knows {known}; fit a file that measures it")
        asked = call_settings(call)

        def merit(key: tuple[tuple[str, str], ...]) -> tuple[int, bool, int, int]:
            has = dict(key)
            against = sum(name in has and has[name] != value for name, value in asked.items())
            alike = sum(has.get(name) == value for name, value in asked.items())
            points = sum(piece.points for curve in groups[key].values() for piece in curve.pieces)
            return -against, call.world_size in groups[key], alike, points

        best = max(groups, key=merit)
        has = dict(best)
        others = [f"{name} {has[name]}, not {value}" for name, value in asked.items() if has.get(name, value) != value]
        return groups[best], tuple(f"fitted on {other}" for other in others)

    def _beyond(self, curve: Curve, n: int, size_bytes: int, reasons: tuple[str, ...]) -> Estimate:
        """T_N(S) = l T(S w / l): the floor of the nearest N grown by l, the wire's seconds per byte by w."""
        scaling = next(
            (s for s in self.scalings if s.collective == curve.collective and s.settings == curve.settings),
            Scaling(curve.collective, curve.settings, (Law("constant", 1.0, 0.0),), (Law("constant", 1.0, 0.0),)),
        )
        factor = COLLECTIVES.get(curve.collective).bus_factor
        by_volume = factor(n) / factor(curve.world_size) if factor(curve.world_size) else 1.0
        found = []
        for launch, wire in itertools.product(scaling.launch, scaling.wire):
            grown = _ratio(launch, n, curve.world_size)
            slowed = by_volume * _ratio(wire, n, curve.world_size)
            estimate = _at_curve(curve, size_bytes * slowed / grown, ())
            found.append(
                [grown * value for value in (estimate.seconds, estimate.low, estimate.high, estimate.latency_s)]
            )
        seconds, _, _, latency_s = found[0]
        far = f"N = {n} was not measured: scaled from N = {curve.world_size}; a jump of the latency is not foreseen"
        outside = _outside(curve, size_bytes)
        return Estimate(
            seconds,
            min(f[1] for f in found),
            max(f[2] for f in found),
            latency_s,
            seconds - latency_s,
            (*reasons, far, *outside),
        )

    def to_json(self) -> dict[str, Any]:
        """The saved form: a plain dictionary."""
        return {
            "type": "cost_model",
            "format": FORMAT_VERSION,
            "curves": [curve.to_json() for curve in self.curves],
            "scalings": [scaling.to_json() for scaling in self.scalings],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CostModel:
        """The inverse of `to_json`; keys that this version does not know are ignored.

        Raises FileError for a newer format, KeyError, TypeError or ValueError for what is not a cost model.
        """
        if data["type"] != "cost_model":
            raise ValueError(f"a {data['type']!r}, not a cost model")
        version = data["format"]
        if not isinstance(version, int) or version < 1:
            raise ValueError(f"cost model format {version!r} is not a version")
        if version > FORMAT_VERSION:
            raise FileError(f"cost model format {version} is newer than {FORMAT_VERSION}, known here: upgrade busbw")
        return cls(
            tuple(Curve.from_json(curve) for curve in data["curves"]),
            tuple(Scaling.from_json(scaling) for scaling in data.get("scalings", ())),
        )

    def save(self, path: str | Path) -> None:
        """Write it as one JSON file; FileError when it cannot be written."""
        try:
            Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise FileError(f"{path}: cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, path: str | Path) -> CostModel:
        """Read what `save` wrote; FileError names the file and what is wrong with it."""
        try:
            return cls.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
        except OSError as error:
            raise FileError(f"{path}: cannot be read: {error.strerror}") from error
        except FileError as error:
            raise FileError(f"{path}: {error}") from error
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            why = f"{type(error).__name__}: {str(error)[:200]}"
            raise FileError(f"{path}: not a cost model ({why}); make one with busbw fit FILE -o model.json") from error


def call_settings(call: Call) -> dict[str, str]:
    """What a call says of its settings, as text: only what is known."""
    place = None if call.in_place is None else ("in" if call.in_place else "out")
    named = {"dtype": call.dtype, "redop": call.redop, "root": call.root, "place": place}
    return {name: str(value) for name, value in named.items() if value is not None}


def _at_curve(curve: Curve, size_bytes: float, reasons: tuple[str, ...]) -> Estimate:
    seconds, low, high = curve.at(size_bytes)
    wire_s = min(size_bytes * curve.s_per_byte, seconds)
    return Estimate(seconds, low, high, seconds - wire_s, wire_s, (*reasons, *_outside(curve, size_bytes)))


def _outside(curve: Curve, size_bytes: float) -> tuple[str, ...]:
    if size_bytes < curve.least_bytes:
        return (f"S is below the smallest measured size, {format_size(curve.least_bytes)}",)
    if size_bytes > curve.most_bytes:
        return (f"S is above the largest measured size, {format_size(curve.most_bytes)}",)
    return ()


def _between(below: Curve, above: Curve, n: int, size_bytes: int, reasons: tuple[str, ...]) -> Estimate:
    """Between two N: evenly in log T over log N."""
    share = math.log(n / below.world_size) / math.log(above.world_size / below.world_size)
    ends = _at_curve(below, size_bytes, ()), _at_curve(above, size_bytes, ())

    def mix(name: str) -> float:
        first, second = (getattr(end, name) for end in ends)
        return float(first ** (1 - share) * second**share) if first > 0 and second > 0 else 0.0

    seconds = mix("seconds")
    wire_s = min(mix("bandwidth_s"), seconds)
    middle = f"N = {n} was not measured: between N = {below.world_size} and {above.world_size}"
    outside = dict.fromkeys(reason for end in ends for reason in end.extrapolates)
    # The step from one N to the next may lie on either side of n.
    low, high = min(end.low for end in ends), max(end.high for end in ends)
    return Estimate(
        seconds, min(low, seconds), max(high, seconds), seconds - wire_s, wire_s, (*reasons, middle, *outside)
    )


def _ratio(law: Law, n: int, reference: int) -> float:
    return law.at(n) / law.at(reference) if law.at(reference) > 0 and law.at(n) > 0 else 1.0


def _never_falling(values: Iterable[float]) -> list[float]:
    """The closest series, in logarithms, that never falls (pool adjacent violators)."""
    pools: list[tuple[float, int]] = []
    for value in values:
        mean, count = math.log(max(value, 1e-300)), 1
        while pools and pools[-1][0] > mean:
            before, weight = pools.pop()
            mean, count = (before * weight + mean * count) / (weight + count), weight + count
        pools.append((mean, count))
    level = [math.exp(mean) for mean, count in pools for _ in range(count)]
    assert all(a <= b for a, b in pairwise(level))
    return level


__all__ = [
    "LAWS",
    "LEAST_POINTS",
    "MOST_PARAMETERS",
    "CostModel",
    "Curve",
    "Estimate",
    "Law",
    "Piece",
    "Scaling",
    "call_settings",
]
