"""Rows, put in order for findings: curves over size, their floors and plateaus, and how far rows can be trusted.

A *curve* is the rows of one operation at one N, measured one way. Its *plateau* is the median busbw of its largest
sizes, its *floor* the median time of those small sizes whose wire time does not matter. Each comes with an allowance: the
relative 95 % half-width that follows from samples where rows have an interval, else from what neighbouring rows
disagree by, of this N where there are enough of them, else of all.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median, median_low

from busbw.core.collective import COLLECTIVES
from busbw.core.finding import Facts, Number
from busbw.core.measurement import Measurement, Results
from busbw.core.topology import Topology
from busbw.units import MIB

CHOSEN_BY_LIBRARY = frozenset({"algorithm", "protocol", "channels", "transport", "rank_time"})
"""Labels that say what happened; all others say what was asked for, and rows that differ in them are not one curve."""

RING_OPS = ("all_gather", "all_reduce", "reduce_scatter")
"""Every rank sends to its neighbour while it receives from the other one."""
STAR_OPS = ("scatter", "gather")
"""One root talks to all others, one way."""
ONE_WAY_AT_TWO = ("send_recv_one_way", "scatter", "gather", "broadcast", "reduce")
"""At N = 2 their bytes go one way only."""
TWO_WAY_AT_TWO = ("all_gather", "reduce_scatter", "all_reduce", "send_recv", "all_to_all")
"""At N = 2 both ranks send as much as they receive, at once."""

DEFAULT_SPREAD = 0.05
"""Relative standard deviation that is assumed of a row when nothing tells."""
LEAST_SPREAD = 0.004
"""Nothing is known better than this: printed digits, and drift between one row and the next."""


@dataclass(frozen=True, slots=True)
class Point:
    """One size of a curve: the median of its rows."""

    size_bytes: int
    time_s: float
    busbw_Bps: float | None  # noqa: N815 - the unit's own capitals
    half_width: float | None
    """Relative half-width of the row's own interval."""
    rows: tuple[Measurement, ...]

    @property
    def source(self) -> str:
        """Where the row stands."""
        return where(self.rows[0])


def where(row: Measurement) -> str:
    """file:line of a row; "given" for one that was typed in, "measured" for one just taken."""
    if row.source is not None:
        return f"{row.source.file}:{row.source.line}"
    return "given" if row.origin == "read" else row.origin


@dataclass(frozen=True, slots=True)
class Level:
    """A floor (seconds) or a plateau (B/s): its value, its relative 95 % allowance, and the rows it is the median of."""

    name: str
    value: float
    allowance: float
    unit: str
    points: tuple[Point, ...]

    @property
    def number(self) -> Number:
        """For a finding."""
        last = self.points[-1].source
        first = self.points[0].source
        source = last if first == last else f"{first} to {last.rsplit(':', 1)[-1]}"
        return Number(self.name, self.value, self.unit, source)

    def over(self, other: Level) -> float:
        """Self / other."""
        return self.value / other.value

    def differs(self, other: Level, times: float = 1.0) -> bool:
        """Whether the two differ by more than `times` their joint allowance."""
        return abs(math.log(self.value / other.value)) > times * joint(self.allowance, other.allowance)


def joint(*allowances: float) -> float:
    """The allowance of a sum or ratio of independent numbers."""
    return math.sqrt(sum(a * a for a in allowances))


@dataclass(frozen=True)
class Curve:
    """One operation at one N, measured one way."""

    collective: str
    world_size: int
    points: tuple[Point, ...]
    """By size; sizes with a positive time only."""

    @property
    def name(self) -> str:
        """As findings call it."""
        return f"{self.collective} N={self.world_size}"

    @property
    def factor(self) -> float:
        """Busbw / algbw."""
        return COLLECTIVES.get(self.collective).bus_factor(self.world_size)

    @cached_property
    def large(self) -> tuple[Point, ...]:
        """The sizes of the plateau: within a factor of 8 of the largest, and in the regime where time grows with size."""
        points = self.points
        if not points or points[-1].busbw_Bps is None:
            return ()
        largest, least_s = points[-1].size_bytes, min(point.time_s for point in points)
        if len(points) == 1:
            return points if largest >= MIB else ()
        first, last = points[0], points[-1]
        slope = math.log(last.time_s / first.time_s) / math.log(last.size_bytes / max(first.size_bytes, 1))
        if slope < 0.8:
            return tuple(point for point in points if point.size_bytes * 8 >= largest and point.time_s >= 6 * least_s)
        return tuple(point for point in points if point.size_bytes * 8 >= largest)

    @cached_property
    def rate_Bps(self) -> float | None:  # noqa: N802
        """Median busbw of the large sizes."""
        return median(point.busbw_Bps or 0.0 for point in self.large) if self.large else None

    def wire_s(self, size_bytes: int) -> float:
        """Seconds that the size takes at the plateau's rate; 0 where there is no plateau."""
        return size_bytes * self.factor / self.rate_Bps if self.rate_Bps else 0.0

    @cached_property
    def small(self) -> tuple[Point, ...]:
        """The sizes of the floor: the wire's share of their time is at most 15 %."""
        return self.below(0.15)

    def below(self, wire_share: float) -> tuple[Point, ...]:
        """The small sizes whose wire time is at most this share of their time."""
        if self.rate_Bps:
            return tuple(p for p in self.points if self.wire_s(p.size_bytes) <= wire_share * p.time_s)
        if not self.points:
            return ()
        first = self.points[0].time_s
        flat = [point for point in self.points if point.time_s <= 1.3 * first and point.size_bytes <= MIB]
        return tuple(flat) if len(flat) > 1 else ()

    @property
    def floor_s(self) -> float | None:
        """Median time of the small sizes, or that of a larger size which takes clearly less."""
        if not self.small:
            return None
        usual = median_low(point.time_s for point in self.small)
        later = min((p.time_s for p in self.points if p.size_bytes > self.small[-1].size_bytes), default=usual)
        return later if later < 0.9 * usual else usual

    def at(self, size_bytes: int) -> Point | None:
        """The point of this size, to 2 %."""
        near = min(self.points, key=lambda point: abs(point.size_bytes - size_bytes), default=None)
        return near if near is not None and abs(near.size_bytes - size_bytes) <= 0.02 * size_bytes else None


@dataclass(frozen=True)
class Family:
    """Curves that were measured alike."""

    variant: str
    """What sets it apart from other families, such as `NCCL_ALGO=Ring`; "" when it is the only one."""
    curves: dict[tuple[str, int], Curve]

    def get(self, collective: str, world_size: int) -> Curve | None:
        """The curve, or None."""
        return self.curves.get((collective, world_size))

    def of(self, collective: str) -> list[Curve]:
        """The curves of an operation, by N."""
        return sorted(
            (curve for curve in self.curves.values() if curve.collective == collective),
            key=lambda curve: curve.world_size,
        )

    @property
    def world_sizes(self) -> list[int]:
        """Every N, ascending."""
        return sorted({curve.world_size for curve in self.curves.values()})

    @property
    def prefix(self) -> str:
        """For the start of a statement."""
        return f"{self.variant}: " if self.variant else ""


class Evidence:
    """What findings look at: all rows, the curves that they form, and the facts."""

    def __init__(
        self,
        rows: Iterable[Measurement],
        facts: Facts,
        runs: Iterable[Results] = (),
        machine: Topology | None = None,
    ) -> None:
        self.rows = tuple(rows)
        self.machine = machine
        self.facts = facts
        self.runs = tuple(runs)
        known = COLLECTIVES.names()
        self.usable = [
            row
            for row in self.rows
            if row.call.collective in known
            and row.call.kind.moves_data
            and row.call.world_size >= 2
            and row.call.size_bytes > 0
            and row.time_s > 0
        ]

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """The curves, those measured alike together; the family with most rows first."""
        split = _distinguishing(self.usable)
        groups: dict[tuple[str, ...], list[Measurement]] = defaultdict(list)
        for row in self.usable:
            groups[tuple(split_value(row, name) for name in split)].append(row)
        ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
        families = []
        for values, rows in ordered:
            pairs = zip(split, values, strict=True)
            variant = ", ".join(f"{name}={value}" for name, value in pairs if value) if len(groups) > 1 else ""
            families.append(Family(variant, dict(_curves(rows))))
        return tuple(families)

    @property
    def curves(self) -> Iterator[Curve]:
        """All curves of all families."""
        return (curve for family in self.families for curve in family.curves.values())

    def plateau(self, curve: Curve | None) -> Level | None:
        """The busbw of the large sizes in B/s, with its allowance."""
        if curve is None or not curve.large or not curve.rate_Bps:
            return None
        rates = [point.busbw_Bps or 0.0 for point in curve.large]
        own = joint(*(point.half_width or 0.0 for point in curve.large)) / len(rates)
        scatter = 1.96 * self.spread(curve.world_size, "large") * 1.25 / math.sqrt(len(rates))
        allowance = max(scatter, own, 0.5 * math.log(max(rates) / min(rates)), LEAST_SPREAD)
        return Level(f"plateau of {curve.name}", curve.rate_Bps, allowance, "B/s", curve.large)

    def floor(self, curve: Curve | None) -> Level | None:
        """The time of the small sizes in s, with its allowance."""
        if curve is None or curve.floor_s is None:
            return None
        own = joint(*(point.half_width or 0.0 for point in curve.small)) / len(curve.small)
        scatter = 1.96 * self.spread(curve.world_size, "small") * 1.25 / math.sqrt(len(curve.small))
        return Level(f"floor of {curve.name}", curve.floor_s, max(scatter, own, LEAST_SPREAD), "s", curve.small)

    def spread(self, world_size: int, regime: str) -> float:
        """Relative standard deviation of one row at this N in a regime (small or large sizes)."""
        return self._spreads.get((world_size, regime)) or self._spreads.get((0, regime)) or DEFAULT_SPREAD

    def widest_spread(self, regime: str) -> float:
        """The largest of the spreads at any N, for findings that try every curve at every size."""
        return max((spread for (_, name), spread in self._spreads.items() if name == regime), default=DEFAULT_SPREAD)

    def spread_is_known(self, regime: str) -> bool:
        """Whether rows or samples tell the spread, so that it is not assumed."""
        return (0, regime) in self._spreads

    def row_allowance(self, curve: Curve, point: Point) -> float:
        """Relative 95 % allowance of one row."""
        if point.half_width is not None:
            return max(point.half_width, LEAST_SPREAD)
        regime = "small" if curve.wire_s(point.size_bytes) < 0.5 * point.time_s else "large"
        return 1.96 * self.spread(curve.world_size, regime)

    @cached_property
    def _spreads(self) -> dict[tuple[int, str], float]:
        steps: dict[tuple[int, str], list[float]] = defaultdict(list)
        widths: dict[tuple[int, str], list[float]] = defaultdict(list)
        for curve in self.curves:
            for regime, points in (("small", curve.small), ("large", curve.large)):
                for world_size in (0, curve.world_size):
                    steps[world_size, regime] += _steps(curve, points, regime)
                    widths[world_size, regime] += [p.half_width for p in points if p.half_width is not None]
        spreads = {}
        for key in steps:
            if len(widths[key]) >= 2:
                spreads[key] = max(median(widths[key]) / 1.96, LEAST_SPREAD)
                if len(steps[key]) >= 4:  # rows differ by more than their samples do where a machine has levels
                    spreads[key] = max(spreads[key], _robust(steps[key], falls=False))
            elif len(steps[key]) >= (2 if key[0] == 0 else 4):
                spreads[key] = max(_robust(steps[key], falls=key[1] == "small"), LEAST_SPREAD)
        return spreads


def _steps(curve: Curve, points: Sequence[Point], regime: str) -> list[float]:
    """What neighbouring rows disagree by where they should agree: log ratio of the larger size to the smaller one.

    Negative where time falls (small) or busbw falls (large) as the size grows.
    """
    found = []
    if regime == "small" and len(points) > 3 and points[0] is curve.points[0]:
        points = points[1:]  # the first row may not have been warm, which is no noise
    for one, two in pairwise(points):
        if regime == "large":
            found.append(math.log((two.busbw_Bps or 1.0) / (one.busbw_Bps or 1.0)))
        else:
            # Launch and wire may add up or overlap: whichever of the two makes the rows agree better.
            added_s = one.time_s + curve.wire_s(two.size_bytes) - curve.wire_s(one.size_bytes)
            steps = (math.log(two.time_s / one.time_s), math.log(two.time_s / added_s))
            found.append(min(steps, key=abs))
    return found


def _robust(steps: Sequence[float], falls: bool) -> float:
    """Standard deviation of one row from differences of two: robust, but no less than the falls among few of them say."""
    spread = 1.4826 * median(abs(step) for step in steps) / math.sqrt(2)
    if falls and len(steps) < 20:
        spread = max(spread, max(0.0, -min(steps)) / 1.4)
    return spread


def split_value(row: Measurement, name: str) -> str:
    """The value of a distinguishing label; `dtype` counts as one."""
    return (row.call.dtype or "") if name == "dtype" else row.labels.get(name, "")


def _distinguishing(rows: Sequence[Measurement]) -> list[str]:
    """Labels in which rows differ that were set, and algorithm or protocol where one size has several."""
    values: dict[str, set[str]] = defaultdict(set)
    names = {name for row in rows for name in row.labels} | {"dtype"}
    for row in rows:
        for name in names:
            values[name].add(split_value(row, name))
    found = [name for name in sorted(names - CHOSEN_BY_LIBRARY) if len(values[name]) > 1]
    for name in ("algorithm", "protocol"):
        per_call: dict[object, set[str]] = defaultdict(set)
        for row in rows:
            key = (row.call, *(split_value(row, other) for other in found))
            per_call[key].add(row.labels.get(name, ""))
        if any(len(seen) > 1 for seen in per_call.values()):
            found.append(name)
    return found


def _curves(rows: Sequence[Measurement]) -> Iterator[tuple[tuple[str, int], Curve]]:
    by_curve: dict[tuple[str, int], dict[int, list[Measurement]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_curve[row.call.collective, row.call.world_size][row.call.size_bytes].append(row)
    for (collective, world_size), by_size in by_curve.items():
        points = tuple(_point(size, by_size[size]) for size in sorted(by_size))
        yield (collective, world_size), Curve(collective, world_size, points)


def _point(size_bytes: int, rows: list[Measurement]) -> Point:
    """The rows out of place where there are such; their median time."""
    chosen = [row for row in rows if not row.call.in_place] or rows
    time_s = median(row.time_s for row in chosen)
    widths = [row.summary.half_width for row in chosen if row.summary and row.summary.half_width is not None]
    return Point(size_bytes, time_s, chosen[0].call.busbw_Bps(time_s), max(widths, default=None), tuple(chosen))
