"""How well a fit predicts what it has not seen, beside what needs no model.

- size:   each size but the first and the last left out in turn, and predicted from all others of its curve.
- large:  sizes of 512 MiB and more, predicted from those up to 64 MiB.
- worlds: N = 8, predicted from N = 2 and 4.

The error is |predicted / measured - 1| of the time up to 1 MiB, and of busbw above (|measured / predicted - 1| in times).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from busbw.core.call import Call
from busbw.core.collective import COLLECTIVES
from busbw.core.measurement import Measurement
from busbw.costs.baselines import fit_line, interpolate, line
from busbw.costs.curve import fit_curve
from busbw.costs.points import Points, group_points
from busbw.costs.report import fit_groups
from busbw.units import MIB

KINDS = {
    "size": "each size left out",
    "large": "sizes <= 64 MiB predict >= 512 MiB",
    "worlds": "N = 2 and 4 predict N = 8",
}
LARGE_FROM, SMALL_TO = 512 * 10**6, 64 * MIB + MIB // 4
"""A little more than the round numbers hold: sizes are cut to whole shards, of 2160 ranks at worst."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """One held-out row: measured seconds, what was predicted, and whether the fit's interval holds the row."""

    kind: str
    collective: str
    world_size: int
    settings: str
    size_bytes: int
    seconds: float
    fit_s: float
    interpolated_s: float
    """By straight lines in logarithms: between sizes, on beyond the last, or over N."""
    line_s: float
    """By the plain relative line t0 + S b; over N, with t0 and b of the nearest N and f(N) for b."""
    inside: bool

    def error(self, predicted_s: float) -> float:
        """Relative: of the time up to 1 MiB, of busbw above."""
        ratio = predicted_s / self.seconds if self.size_bytes <= MIB else self.seconds / predicted_s
        return abs(ratio - 1)


@dataclass(frozen=True, slots=True)
class Score:
    """Median errors over held-out rows of one kind: of one curve (`curves` = 1), or the median over several."""

    kind: str
    what: str
    rows: int
    curves: int
    fit: float
    interpolated: float
    line: float
    worst: float
    """The 90 % quantile of the fit's errors."""
    coverage: float
    """The share of rows that lie in the fit's 95 % interval."""


def hold_out(measurements: Iterable[Measurement]) -> list[Prediction]:
    """All predictions of held-out rows that these measurements allow."""
    groups = group_points(measurements)
    return [*_sizes(groups), *_large(groups), *_worlds(groups)]


def score(predictions: Sequence[Prediction]) -> list[Score]:
    """One score for each kind and curve, and one over all curves of a kind: the median of their medians.

    "size" is parted at 1 MiB, where latency gives way to bandwidth.
    """
    parts: dict[tuple[str, str], dict[tuple[object, ...], list[Prediction]]] = defaultdict(lambda: defaultdict(list))
    for row in predictions:
        side = ("time up to 1 MiB" if row.size_bytes <= MIB else "busbw above 1 MiB") if row.kind == "size" else ""
        parts[row.kind, side][row.collective, row.world_size, row.settings].append(row)
    scores = []
    for (kind, side), curves in parts.items():
        own = [_score(kind, f"{_name(rows[0])} {side}".strip(), rows) for rows in curves.values()]
        scores += own
        if len(own) > 1:
            scores.append(_over_curves(kind, f"all curves {side}".strip(), own))
    return scores


def _score(kind: str, what: str, rows: Sequence[Prediction]) -> Score:
    def of(predicted: Callable[[Prediction], float]) -> list[float]:
        return sorted(row.error(predicted(row)) for row in rows)

    ours = of(lambda row: row.fit_s)
    return Score(
        kind,
        what,
        len(rows),
        1,
        median(ours),
        median(of(lambda row: row.interpolated_s)),
        median(of(lambda row: row.line_s)),
        ours[min(int(0.9 * len(ours)), len(ours) - 1)],
        sum(row.inside for row in rows) / len(rows),
    )


def _over_curves(kind: str, what: str, own: Sequence[Score]) -> Score:
    rows = sum(each.rows for each in own)
    return Score(
        kind,
        what,
        rows,
        len(own),
        median(each.fit for each in own),
        median(each.interpolated for each in own),
        median(each.line for each in own),
        median(each.worst for each in own),
        sum(each.coverage * each.rows for each in own) / rows,
    )


def _name(row: Prediction) -> str:
    return f"{row.collective} N={row.world_size}{' ' if row.settings else ''}{row.settings}"


def _predict(kind: str, seen: Points, unseen: Points) -> Iterator[Prediction]:
    found = fit_curve(seen)
    if found is None:
        return
    for size, seconds in zip(unseen.sizes, unseen.seconds, strict=True):
        middle, low, high = found.curve.at(size)
        yield Prediction(
            kind,
            seen.collective,
            seen.world_size,
            _text(seen),
            size,
            seconds,
            middle,
            interpolate(seen.sizes, seen.seconds, size),
            line(seen.sizes, seen.seconds, size),
            low <= seconds <= high,
        )


def _text(points: Points) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(points.settings.items()))


def _sizes(groups: Iterable[Points]) -> Iterator[Prediction]:
    for points in groups:
        count = len(points.sizes)
        if count < 5:
            continue
        for left_out in range(1, count - 1):
            keep = [index != left_out for index in range(count)]
            yield from _predict("size", points.where(keep), points.where([not kept for kept in keep]))


def _large(groups: Iterable[Points]) -> Iterator[Prediction]:
    for points in groups:
        small = [size <= SMALL_TO for size in points.sizes]
        large = [size >= LARGE_FROM for size in points.sizes]
        if sum(small) >= 4 and any(large):
            yield from _predict("large", points.where(small), points.where(large))


def _worlds(groups: Iterable[Points]) -> Iterator[Prediction]:
    families: dict[tuple[str, str], dict[int, Points]] = defaultdict(dict)
    for points in groups:
        families[points.collective, _text(points)][points.world_size] = points
    for (collective, text), by_world in families.items():
        if not {2, 4, 8} <= by_world.keys():
            continue
        two, four, eight = (by_world[n] for n in (2, 4, 8))
        model = fit_groups([two, four], two.rows + four.rows).model
        launch, per_byte = fit_line(four.sizes, four.seconds)
        factor = COLLECTIVES.get(collective).bus_factor
        for size, seconds in zip(eight.sizes, eight.seconds, strict=True):
            at_two, at_four = (interpolate(each.sizes, each.seconds, size) for each in (two, four))
            estimate = model.estimate(Call(collective, size, 8))
            yield Prediction(
                "worlds",
                collective,
                8,
                text,
                size,
                seconds,
                estimate.seconds,
                at_four**2 / at_two,
                launch + per_byte * size * factor(8) / factor(4),
                estimate.low <= seconds <= estimate.high,
            )
