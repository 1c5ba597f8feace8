"""compare(): two runs row by row, what changed, and whether it is real."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from busbw.comparing.assumed import LONG, ON_CPUS, SHORT, SHORT_S, assumed_spread, neighbours_spread
from busbw.comparing.comparison import ALPHA, Comparison, CurveComparison, Ratio, RowComparison
from busbw.comparing.launches import ASSUMED, MODERATED, Decision, complete_curves, decide
from busbw.comparing.matching import DEFAULTS, LaunchKey, Side, Work, match
from busbw.core.measurement import Measurement, Results
from busbw.errors import UsageError
from busbw.units import format_time

Floats = npt.NDArray[np.float64]


def compare(
    a: Results | Sequence[Results],
    b: Results | Sequence[Results],
    *,
    min_change: float = 0.01,
    resolution: float = 0.05,
    across: Iterable[str] = (),
    spread: float | None = None,
) -> Comparison:
    """Compare run B with run A, row by row; each may be several files, whose launches are pooled.

    A change counts when it is real (a false alarm anywhere has a probability of 3 %) and at least `min_change`, a
    share; a row counts as the same when its 95 % interval lies within `resolution`. `across` names labels in which the
    sides may differ (sched, mode, NCCL_ALGO). `spread` is the standard deviation between launches, as a share, that
    is assumed where there are too few of them, in place of the defaults of `busbw.comparing.assumed`.
    Raises UsageError when a value breaks a rule, or when no row can be compared.
    """
    for name, value in (("min_change", min_change), ("resolution", resolution), ("spread", spread)):
        if value is not None and not 0 <= value < 10:
            raise UsageError(f"{name} {value:g} must be a share from 0 up, such as 0.05 for 5 %")
    if spread == 0:
        raise UsageError("spread 0: launches always differ by something; give a share above 0, such as 0.01 for 1 %")
    across = tuple(across)
    side_a, side_b = (
        Side(name, [files] if isinstance(files, Results) else list(files), across)
        for name, files in (("A", a), ("B", b))
    )
    pairs, unmatched, refused = match(side_a, side_b)
    if not pairs:
        why = f"; {refused[0].work.text()}: {refused[0].reason}" if refused else ""
        examples = "".join(f"; {item.side} has {item.work.text()}" for item in unmatched[:1] + unmatched[-1:])
        raise UsageError(f"A and B have no row that can be compared{why or examples or ': a side has no rows'}")
    table = _Table(side_a, side_b, pairs)
    decision, curves, assumed = _decide(table, spread)
    ratios = [
        Ratio.of(float(log_ratio), float(half_width), float(p), float(reach), min_change, resolution)
        for log_ratio, half_width, p, reach in zip(
            decision.log_ratio, decision.half_width, decision.p, decision.reach, strict=True
        )
    ]
    rows = tuple(table.row(index, ratio, decision.logs) for index, ratio in enumerate(ratios[: len(pairs)]))
    named = [
        CurveComparison(name, len(members), ratio)
        for (name, members), ratio in zip(curves.items(), ratios[len(pairs) :], strict=True)
    ]
    notes = [*_few_launches(table, decision, assumed, spread), *table.notes, *_differences(a, b, pairs, side_a, side_b)]
    return Comparison(
        rows,
        tuple(named),
        tuple(unmatched),
        tuple(refused),
        table.launches_a,
        table.launches_b,
        decision.method,
        min_change,
        resolution,
        tuple(notes),
    )


class _Table:
    """The pairs' times as numbers: `logs` of shape (launches, rows), A's launches first, nan where one lacks a row."""

    def __init__(self, side_a: Side, side_b: Side, pairs: Sequence[tuple[Work, Work]]) -> None:
        self.pairs = pairs
        self.works = [work for work, _ in pairs]
        keys_a = sorted({key for work, _ in pairs for key in side_a.rows[work]})
        keys_b = sorted({key for _, work in pairs for key in side_b.rows[work]})
        self.launches_a, self.launches_b = len(keys_a), len(keys_b)
        self.is_b = np.array([False] * len(keys_a) + [True] * len(keys_b))
        self.logs = np.full((len(keys_a) + len(keys_b), len(pairs)), np.nan)
        self.labels: list[Mapping[str, str]] = []
        means = 0
        for column, (work_a, work_b) in enumerate(pairs):
            rows_a, rows_b = side_a.rows[work_a], side_b.rows[work_b]
            everything = [row for rows in (rows_a, rows_b) for launch in rows.values() for row in launch]
            medians = all(row.summary is not None for row in everything)
            mixed = not medians and any(row.summary is not None for row in everything)
            means += mixed
            for first, keys, rows in ((0, keys_a, rows_a), (len(keys_a), keys_b, rows_b)):
                self._fill(column, first, keys, rows, medians)
            self.labels.append(everything[0].labels)
        self.notes = []
        if means:
            self.notes.append(
                f"means are compared in {means} row{'s' if means > 1 else ''}, since one side gives no median"
            )

    def _fill(
        self,
        column: int,
        first: int,
        keys: Sequence[LaunchKey],
        rows: Mapping[LaunchKey, Sequence[Measurement]],
        medians: bool,
    ) -> None:
        for index, key in enumerate(keys, start=first):
            if key in rows:
                self.logs[index, column] = np.mean([math.log(_time_s(row, medians)) for row in rows[key]])

    def row(self, index: int, ratio: Ratio, logs: Floats) -> RowComparison:
        """The finished row."""
        column = logs[:, index]
        one, other = (column[side & np.isfinite(column)] for side in (~self.is_b, self.is_b))
        work_a, work_b = self.pairs[index]
        notes = []
        for name in ("dtype", "redop", "root", "in_place"):
            if (getattr(work_a.call, name) is None) != (getattr(work_b.call, name) is None):
                side = "A" if getattr(work_a.call, name) is None else "B"
                notes.append(f"{side} does not say its {name}")
        work = work_a if work_a.call.dtype is not None else work_b
        return RowComparison(
            work, math.exp(one.mean()), math.exp(other.mean()), len(one), len(other), ratio, tuple(notes)
        )


def _time_s(row: Measurement, median: bool) -> float:
    if row.summary is None:
        return row.time_s
    return row.summary.median_s if median else row.summary.mean_s


def _decide(table: _Table, spread: float | None) -> tuple[Decision, dict[str, list[int]], Floats]:
    """The decision on rows and curves; rows that too few launches have are judged by the assumed spread alone."""
    logs, is_b, count = table.logs, table.is_b, len(table.pairs)
    by_curve: dict[Work, list[int]] = defaultdict(list)
    for index, work in enumerate(table.works):
        by_curve[dataclasses.replace(work, call=dataclasses.replace(work.call, size_bytes=0))].append(index)
    by_size = [sorted(members, key=lambda index: table.works[index].call.size_bytes) for members in by_curve.values()]
    named = {work.curve_text(): members for work, members in zip(by_curve, by_size, strict=True)}
    if len(named) > 1:
        named["all rows"] = list(range(count))
    time_s = np.exp(np.nanmean(logs, axis=0))
    if spread is None:
        assumed = np.array([assumed_spread(*pair) for pair in zip(table.labels, time_s.tolist(), strict=True)])
        if table.launches_a == table.launches_b == 1:
            assumed = np.maximum(assumed, neighbours_spread(logs[1] - logs[0], by_size))
    else:
        assumed = np.full(count, spread)
    few = np.isfinite(logs).sum(axis=0) < 4
    if few.all() or not few.any():
        curves = complete_curves(logs, named)
        return decide(logs, is_b, list(curves.values()), assumed, ALPHA), curves, assumed
    many = np.flatnonzero(~few)
    place = {int(row): index for index, row in enumerate(many)}
    inner = {name: [place[row] for row in rows if row in place] for name, rows in named.items()}
    curves = complete_curves(logs[:, many], inner)
    one = decide(logs[:, many], is_b, list(curves.values()), assumed[many], ALPHA)
    other = decide(logs[:, few], is_b, [], assumed[few], ALPHA)

    def joined(field: str) -> Floats:
        of_many: Floats = getattr(one, field)
        whole = np.empty(count)
        whole[many], whole[few] = of_many[: len(many)], getattr(other, field)
        return np.concatenate([whole, of_many[len(many) :]])

    used = logs.copy()
    used[:, many] = one.logs
    decision = Decision(joined("log_ratio"), joined("half_width"), joined("p"), joined("reach"), one.method, used)
    return decision, curves, assumed


def _few_launches(table: _Table, decision: Decision, assumed: Floats, spread: float | None) -> list[str]:
    if decision.method not in (ASSUMED, MODERATED):
        return []
    launches = f"A has {_count(table.launches_a)} and B {_count(table.launches_b)}"
    if spread is not None:
        given = f"a spread of {spread:.1%} between launches is taken as given (--spread)"
    else:
        given = (
            f"a spread between launches of {min(assumed):.0%}"
            + (f" to {max(assumed):.0%}" if max(assumed) > 1.02 * min(assumed) else "")
            + f" is assumed ({SHORT:.0%} below {format_time(SHORT_S)}, {LONG:.0%} above, {ON_CPUS:.0%} on CPUs"
            + (", more where neighbouring sizes scatter more)" if decision.method == ASSUMED else ")")
        )
    return [f"{launches}, too few to tell a change from the luck of a launch, so {given}: take --repeats 5 or more"]


def _count(launches: int) -> str:
    return f"{launches} launch{'es' if launches > 1 else ''}"


_MOST_DIFFERENCES = 8


def _differences(
    a: Results | Sequence[Results],
    b: Results | Sequence[Results],
    pairs: Sequence[tuple[Work, Work]],
    side_a: Side,
    side_b: Side,
) -> list[str]:
    """What else differs between the sides: labels that do not decide what is compared, and the recorded machine."""
    found: list[str] = []
    values: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for work_a, work_b in pairs:
        for index, rows in enumerate((side_a.rows[work_a], side_b.rows[work_b])):
            for row in (row for launch in rows.values() for row in launch):
                for name, value in row.labels.items():
                    values[name][index].add(value)
    for name, (one, other) in sorted(values.items()):
        if name in DEFAULTS and not (one and other):
            taken = f"taken as {DEFAULTS[name]}" if DEFAULTS[name] else "taken as not set"
            found.append(f"{name}: {'A' if other else 'B'} does not say, {taken}")
        elif one and other and one != other:
            found.append(f"{name}: {', '.join(sorted(one)[:4])} in A, {', '.join(sorted(other)[:4])} in B")
    first_a, first_b = (side if isinstance(side, Results) else next(iter(side)) for side in (a, b))
    one_env, other_env = _flat(first_a.run.environment), _flat(first_b.run.environment)
    if one_env and other_env:
        for name in sorted(one_env.keys() | other_env.keys()):
            one_value, other_value = one_env.get(name, "not set"), other_env.get(name, "not set")
            if one_value != other_value:
                found.append(f"{name}: {one_value} in A, {other_value} in B")
    more = len(found) - _MOST_DIFFERENCES
    return found[:_MOST_DIFFERENCES] + ([f"{more} more differences between the machines"] if more > 0 else [])


def _flat(environment: Mapping[str, Any]) -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in environment.items():
        if isinstance(value, Mapping):
            flat.update({str(key): str(inner) for key, inner in value.items()})
        elif isinstance(value, list):
            flat[name] = "; ".join(
                str(item.get("name", item)) if isinstance(item, Mapping) else str(item) for item in value
            )
        else:
            flat[name] = str(value)
    return flat
