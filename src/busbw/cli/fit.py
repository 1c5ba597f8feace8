"""`busbw fit`: launch, B, half-peak size and regimes with intervals; a cost model to price with."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from busbw.cli.saving import refuse_other_kinds
from busbw.cli.selection import add_selection, asked_ops, asked_worlds
from busbw.core.measurement import Measurement
from busbw.errors import FileError, UsageError
from busbw.formats._selection import keep, read_told
from busbw.units import GB, MICROSECOND

if TYPE_CHECKING:
    from busbw.costs.curve import CurveFit, Interval
    from busbw.costs.holdout import Prediction, Score
    from busbw.costs.report import FitReport
    from busbw.costs.scaling import ScalingFit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Files, which rows of them, and what to make of them."""
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="results of any format that is read; - is standard input"
    )
    add_selection(parser)
    parser.add_argument(
        "--holdout",
        action="store_true",
        help="errors on sizes and N that were left out, beside interpolation and a line",
    )
    parser.add_argument("-o", "--output", metavar="MODEL", help="save the cost model, as JSON")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="also the pieces, and each curve of --holdout")


def run(args: argparse.Namespace) -> int:
    """Read, fit, print; save the model where asked. Files that cannot be read are named, the others count."""
    from busbw.costs import fit

    if args.output is not None:
        refuse_other_kinds(args.output, b'"cost_model"', "cost model")
    rows, failures = _rows(args)
    if failures and not rows:
        for failure in failures:
            sys.stderr.write(f"busbw fit: error: {failure}\n")
        return 2
    report = fit(rows)
    predictions = _predictions(rows) if args.holdout else []
    if args.output:
        report.model.save(args.output)
    if args.json:
        json.dump(_json(report, predictions, args.holdout), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        lines = [
            *_curves(report, args.verbose),
            *_scalings(report.scalings),
            *(f"# left out: {why}" for why in report.skipped),
        ]
        if args.holdout:
            lines += ["", *_scores(predictions, args.verbose)]
        if args.output:
            lines.append(f"# cost model: {args.output}")
        sys.stdout.writelines(f"{line}\n" for line in lines)
    for failure in failures:
        sys.stderr.write(f"busbw fit: error: {failure}\n")
    return 2 if failures else 0


def _rows(args: argparse.Namespace) -> tuple[list[Measurement], list[FileError]]:
    ops, worlds = asked_ops(args.op), asked_worlds(args.world)
    rows: list[Measurement] = []
    failures: list[FileError] = []
    for path in args.files:
        try:
            rows += read_told(path, ops, worlds).measurements
        except FileError as error:
            failures.append(error)
    there = sorted({row.call.collective for row in rows}), sorted({row.call.world_size for row in rows})
    rows = list(keep(rows, ops, worlds))
    if not rows and not failures:
        names, sizes = (", ".join(map(str, values)) for values in there)
        raise UsageError(f"no row is left: the files hold {names or 'nothing'} at N = {sizes or 'none'}")
    return rows, failures


def _predictions(rows: Sequence[Measurement]) -> list[Prediction]:
    from busbw.costs.holdout import hold_out

    return hold_out(rows)


# --- the tables ------------------------------------------------------------------------------------------------------

_HEAD = (
    f"# {'op':<16} {'N':>4} {'sizes':>11} {'rows':>5} {'launch':>19} {'B (busbw)':>19} {'half peak':>21} {'boundary':>21} "
    f"{'scatter':>7}"
)
_UNITS = (
    f"# {'':<16} {'':>4} {'':>11} {'':>5} {'(us)':>19} {'(GB/s)':>19} {'n1/2':>21} {'launch = wire':>21} {'(%)':>7}"
)


def _curves(report: FitReport, verbose: bool) -> Iterator[str]:
    from busbw.costs.wording import about, settings_text, shared_settings, short_size

    shared = shared_settings([fit.curve for fit in report.curves])
    if shared:
        yield f"# {settings_text(shared)}"
    yield _HEAD
    yield _UNITS
    for fit in report.curves:
        curve, points = fit.curve, fit.points
        sizes = f"{short_size(curve.least_bytes)}-{short_size(curve.most_bytes)}"
        yield (
            f"  {curve.collective:<16} {curve.world_size:>4} {sizes:>11} {points.rows:>5} "
            f"{_interval(fit.launch_s, MICROSECOND):>19} {_interval(fit.bandwidth_Bps, GB):>19} "
            f"{_sizes(fit.half_peak_bytes):>21} {_sizes(fit.boundary_bytes):>21} {100 * fit.scatter:>7.1f}"
        ).rstrip()
        own = {name: value for name, value in curve.settings.items() if name not in shared}
        if own:
            yield f"      {settings_text(own)}"
        yield from (f"      {line}" for line in about(fit, verbose))
    yield "# each value with its 95 % interval; launch: T as S goes to 0, all steps included; -: these sizes do not identify it"


def _scalings(scalings: Sequence[ScalingFit]) -> Iterator[str]:
    several = [scaling for scaling in scalings if max(len(scaling.launch.values), len(scaling.bandwidth.values)) > 1]
    if not several:
        yield "# over N: one N for each collective, so launch t0 and alpha a step are not identifiable apart"
        return
    yield "#"
    yield "# over N"
    for scaling in several:
        launches = ", ".join(
            f"{n}: {value.value / MICROSECOND:.1f}" for n, value in sorted(scaling.launch.values.items())
        )
        rates = ", ".join(f"{n}: {value.value / GB:.1f}" for n, value in sorted(scaling.bandwidth.values.items()))
        yield f"  {scaling.collective}"
        yield f"      launch (us) at N = {launches or 'none'}: {scaling.launch.text}"
        if scaling.alpha_s is not None:
            alpha, launch = _interval(scaling.alpha_s, MICROSECOND), _interval(scaling.launch_s, MICROSECOND)
            yield f"      so t0 = {launch} us and alpha = {alpha} us a step"
        else:
            yield "      t0 and alpha: not identifiable apart"
        yield f"      B (GB/s) at N = {rates or 'none'}: {scaling.bandwidth.text}"


def _scores(predictions: Sequence[Prediction], verbose: bool) -> Iterator[str]:
    from busbw.costs.holdout import KINDS, score

    scores = score(predictions)
    if not scores:
        yield "# holdout: nothing can be left out; it takes 5 sizes of a curve, sizes on both sides, or N = 2, 4 and 8"
        return
    width = max(len(each.what) for each in scores)
    yield "# holdout: median errors in % (of time up to 1 MiB, of busbw above), the fit beside what needs no model"
    yield f"# {'':<{width}} {'rows':>5} {'fit':>7} {'log-log':>8} {'line':>7} {'worst 10%':>10} {'in interval':>12}"
    for kind, title in KINDS.items():
        mine = [each for each in scores if each.kind == kind]
        if not mine:
            continue
        yield f"# {title}"
        shown = [each for each in mine if verbose or each.curves > 1 or len(mine) <= 12]
        yield from (_score(each, width) for each in shown)
        if len(shown) < len(mine):
            yield f"  ({len(mine) - len(shown)} curves: -v shows each)"


def _score(each: Score, width: int) -> str:
    return (
        f"  {each.what:<{width}} {each.rows:>5} {100 * each.fit:>7.1f} {100 * each.interpolated:>8.1f} "
        f"{100 * each.line:>7.1f} {100 * each.worst:>10.1f} {100 * each.coverage:>10.0f} %"
    )


def _interval(interval: Interval | None, unit: float) -> str:
    if interval is None:
        return "-"
    value, low, high = (_number(each / unit) for each in (interval.value, interval.low, interval.high))
    return f"{value} ({low}-{high})"


def _sizes(interval: Interval | None) -> str:
    if interval is None:
        return "-"
    from busbw.costs.wording import short_size

    return f"{short_size(interval.value)} ({short_size(interval.low)}-{short_size(interval.high)})"


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


# --- JSON: docs/json.md ----------------------------------------------------------------------------------------------


def _json(report: FitReport, predictions: Sequence[Prediction], held_out: bool) -> dict[str, Any]:
    from busbw.costs.holdout import score

    return {
        "curves": [_curve_json(fit) for fit in report.curves],
        "scalings": [_scaling_json(scaling) for scaling in report.scalings],
        "skipped": list(report.skipped),
        "holdout": [
            {
                "kind": each.kind,
                "what": each.what,
                "rows": each.rows,
                "curves": each.curves,
                "error": each.fit,
                "error_interpolated": each.interpolated,
                "error_line": each.line,
                "error_p90": each.worst,
                "coverage": each.coverage,
            }
            for each in score(predictions)
        ]
        if held_out
        else None,
        "model": report.model.to_json(),
    }


def _curve_json(fit: CurveFit) -> dict[str, Any]:
    curve = fit.curve
    return {
        "collective": curve.collective,
        "world_size": curve.world_size,
        "settings": dict(curve.settings),
        "least_bytes": curve.least_bytes,
        "most_bytes": curve.most_bytes,
        "sizes": len(fit.points.sizes),
        "rows": fit.points.rows,
        "launch_s": _interval_json(fit.launch_s),
        "bandwidth_GBps": _interval_json(fit.bandwidth_Bps, GB),
        "half_peak_bytes": _interval_json(fit.half_peak_bytes),
        "boundary_bytes": _interval_json(fit.boundary_bytes),
        "scatter": fit.scatter,
        "regimes": [
            {"least_bytes": piece.least_bytes, "most_bytes": piece.most_bytes, "shape": piece.form.words}
            for piece in curve.regimes
        ],
        "switches": [
            {
                "least_bytes": switch.least_bytes,
                "most_bytes": switch.most_bytes,
                "jump": switch.jump,
                "support_nats": switch.support if math.isfinite(switch.support) else None,
            }
            for switch in fit.switches
        ],
        "outliers": [
            {
                "size_bytes": outlier.size_bytes,
                "time_s": outlier.seconds,
                "ratio": outlier.ratio,
                "source": None
                if outlier.source is None
                else {"file": outlier.source.file, "line": outlier.source.line},
            }
            for outlier in fit.outliers
        ],
        "notes": list(fit.notes),
    }


def _scaling_json(scaling: ScalingFit) -> dict[str, Any]:
    return {
        "collective": scaling.collective,
        "settings": dict(scaling.settings),
        "launch": {"verdict": scaling.launch.verdict, "text": scaling.launch.text},
        "bandwidth": {"verdict": scaling.bandwidth.verdict, "text": scaling.bandwidth.text},
        "alpha_s": _interval_json(scaling.alpha_s),
        "t0_s": _interval_json(scaling.launch_s),
    }


def _interval_json(interval: Interval | None, unit: float = 1.0) -> dict[str, float | None] | None:
    if interval is None:
        return None
    value, low, high = interval.value / unit, interval.low / unit, interval.high / unit
    return {"value": value, "low": low, "high": high if math.isfinite(high) else None}
