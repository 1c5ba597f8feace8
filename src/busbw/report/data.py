"""What the page's scripts work on, as JSON: lines of the figures, rows of the table, cost models, comparisons, looks.

The scripts evaluate a cost model themselves (page/cost_model.js), from its saved form and two things that are worked out
here: the quantile of Student's t of each piece, and the levels of each curve. A test in a browser holds them to
`CostModel.estimate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from busbw.core.collective import COLLECTIVES, double_ring_factor, one, ring_factor
from busbw.core.cost_model import CostModel, Curve
from busbw.core.measurement import Measurement
from busbw.core.student_t import student_t
from busbw.plots.lines import Line, collective_order, has_bandwidth, make_lines
from busbw.plots.palette import DASHES, THEMES, Look, looks
from busbw.report.compared import ComparedPage
from busbw.report.sides import Side

FACTORS: Mapping[Callable[[int], float], str] = {one: "1", ring_factor: "(N-1)/N", double_ring_factor: "2(N-1)/N"}
"""Bus factors as they are written, which is also how the scripts know them."""
COLUMNS = (
    "run", "op", "world_size", "size_bytes", "dtype", "redop", "root", "place", "time_s", "time_low_s", "time_high_s",
    "algbw_GBps", "busbw_GBps", "wrong", "samples", "repeat", "marks", "labels", "source",
)  # fmt: skip
"""The cells of a row, in order; texts are indices into the texts of the table."""
_TEXTS = frozenset({"run", "op", "dtype", "redop", "place", "marks", "labels", "source"})
_RUN_LOOKS = ("all_gather", "all_reduce", "broadcast", "reduce_scatter", "scatter", "gather")


def page_data(
    sides: Sequence[Side],
    models: Mapping[str, CostModel],
    comparisons: Sequence[ComparedPage],
    most_rows: int,
) -> dict[str, Any]:
    """Everything for the scripts; `models` by the letter of the run, `most_rows` of the table at most."""
    rows = [(side.letter, row) for side in sides for row in side.rows]
    moving = [row for _, row in rows if has_bandwidth(row)]
    lines = [(side.letter, line) for side in sides for line in make_lines(side.rows)]
    ops = sorted({row.call.collective for row in moving}, key=collective_order)
    world_sizes = sorted({row.call.world_size for row in moving})
    texts: dict[str, int] = {}
    return {
        "ops": ops,
        "world_sizes": world_sizes,
        "runs": [{"letter": side.letter, "name": side.name} for side in sides],
        "looks": [
            {"key": key, "shape": look.shape, "var": variable(index)}
            for index, (key, look) in enumerate(page_looks(sides, ops, world_sizes).items())
        ],
        "dashes": [list(dash) for dash in DASHES],
        "factors": {kind.name: FACTORS[kind.bus_factor] for kind in COLLECTIVES if kind.bus_factor in FACTORS},
        "lines": [_line(letter, line, texts) for letter, line in lines],
        "models": {letter: page_model(model) for letter, model in models.items()},
        "comparisons": [_comparison(page) for page in comparisons if page.comparison is not None],
        "columns": list(COLUMNS),
        "rows": [_row(letter, row, texts) for letter, row in rows[:most_rows]],
        "texts": list(texts),
    }


def page_looks(sides: Sequence[Side], ops: Sequence[str], world_sizes: Sequence[int]) -> dict[str, Look]:
    """The look of each op, N (`N=8`) and run (`run A`)."""
    runs = dict(zip((f"run {side.letter}" for side in sides), _cycle(_RUN_LOOKS), strict=False))
    own = looks([*ops, *(f"N={n}" for n in world_sizes)])
    return {**own, **{key: looks([name])[name] for key, name in runs.items()}}


def variable(index: int) -> str:
    """The style sheet's name of a look's colour."""
    return f"--look-{index}"


def look_colours(theme: str, sides: Sequence[Side], ops: Sequence[str], world_sizes: Sequence[int]) -> dict[str, str]:
    """Variables of the style sheet: the colours of a theme, and of each look in it."""
    colours = THEMES[theme]
    own = {"--bg": colours.background, "--ink": colours.ink, "--quiet": colours.quiet_ink, "--grid": colours.grid}
    own |= {"--axis": colours.axis, "--alarm": colours.alarm}
    every = page_looks(sides, ops, world_sizes).values()
    return own | {variable(index): look.colours[theme] for index, look in enumerate(every)}


def page_model(model: CostModel) -> dict[str, Any]:
    """The saved form of a cost model, with what the scripts need to evaluate it without statistics."""
    saved = model.to_json()
    curves = [{**data, **_derived(curve, data)} for curve, data in zip(model.curves, saved["curves"], strict=True)]
    finite: dict[str, Any] = _finite({**saved, "curves": curves})
    return finite


def _derived(curve: Curve, data: Mapping[str, Any]) -> dict[str, Any]:
    parts = {
        name: [
            {**piece, "quantile": student_t(0.975, own.degrees)}
            for piece, own in zip(data[name], getattr(curve, name), strict=True)
        ]
        for name in ("pieces", "regimes", "tails")
    }
    return {**parts, "levels": [list(level) for level in curve.levels]}


def _line(letter: str, line: Line, texts: dict[str, int]) -> dict[str, Any]:
    marks = [_text("; ".join(mark.reason for mark in point.marks), texts) for point in line.points]
    return {
        "run": letter,
        "op": line.collective,
        "n": line.world_size,
        "variant": line.variant,
        "points": [
            [point.size_bytes, *map(_short, (point.time_s, point.low_s, point.high_s)), point.rows, mark]
            for point, mark in zip(line.points, marks, strict=True)
        ],
    }


def _comparison(page: ComparedPage) -> dict[str, Any]:
    assert page.comparison is not None
    return {
        "a": page.a,
        "b": page.b,
        "rows": [
            {
                "op": row.call.collective, "n": row.call.world_size, "s": row.call.size_bytes,
                "curve": row.work.curve_text(), "a_s": _short(row.time_a_s), "b_s": _short(row.time_b_s),
                "ratio": _short(row.ratio.ratio), "low": _short(row.ratio.low), "high": _short(row.ratio.high),
                "verdict": row.ratio.verdict,
            }
            for row in page.comparison.rows
        ],
    }  # fmt: skip


def _row(letter: str, row: Measurement, texts: dict[str, int]) -> list[Any]:
    call, summary = row.call, row.summary
    cells = {
        "run": letter,
        "op": call.collective,
        "world_size": call.world_size or None,
        "size_bytes": call.size_bytes,
        "dtype": call.dtype or "",
        "redop": call.redop or "",
        "root": call.root,
        "place": {None: "", True: "in", False: "out"}[call.in_place],
        "time_s": row.time_s,
        "time_low_s": None if summary is None else summary.low_s,
        "time_high_s": None if summary is None else summary.high_s,
        "algbw_GBps": row.algbw_GBps,
        "busbw_GBps": row.busbw_GBps,
        "wrong": row.wrong,
        "samples": None if summary is None else summary.samples,
        "repeat": row.repeat,
        "marks": " ".join(mark.code for mark in row.marks),
        "labels": " ".join(f"{name}={value}" for name, value in sorted(row.labels.items())),
        "source": "" if row.source is None else f"{row.source.file}:{row.source.line}",
    }
    return [_text(str(cells[name]), texts) if name in _TEXTS else _finite(cells[name]) for name in COLUMNS]


def _text(text: str, texts: dict[str, int]) -> int:
    return texts.setdefault(text, len(texts))


def _short(value: float | None) -> float | None:
    """Six digits: more than a figure can show."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def _finite(value: Any) -> Any:
    """JSON has no infinity: what has no bound becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value


def _cycle(names: Sequence[str]) -> Sequence[str]:
    return [names[index % len(names)] for index in range(1000)]
