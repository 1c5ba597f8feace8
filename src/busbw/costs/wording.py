"""What a fit says in words: regimes, switches, outliers, settings. The command line and the report share it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from busbw.core.cost_form import Overlap
from busbw.core.cost_model import Curve, Piece
from busbw.costs.curve import CurveFit
from busbw.units import GB, format_size, format_time


def about(fit: CurveFit, verbose: bool) -> Iterator[str]:
    """What is worth saying of one curve beside its numbers; `verbose` adds the pieces."""
    curve = fit.curve
    if len(curve.regimes) > 1:
        for regime in curve.regimes:
            yield f"regime {short_size(regime.least_bytes)} to {short_size(regime.most_bytes)}: {piece_text(regime)}"
        for switch in fit.switches:
            where = f"between {short_size(switch.least_bytes)} and {short_size(switch.most_bytes)}"
            yield f"switch {where}: T x {switch.jump:.2f} there; two regimes are better by {switch.support:.0f} nats"
    else:
        yield f"one regime: {curve.regimes[0].form.words}"
    if verbose:
        for piece in curve.pieces:
            yield f"piece {short_size(piece.least_bytes)} to {short_size(piece.most_bytes)}: {piece_text(piece)}"
    for size in curve.falls:
        yield f"T falls behind {short_size(size)}, and so do the measured times"
    for outlier in fit.outliers:
        where = "" if outlier.source is None else f" ({outlier.source.file}:{outlier.source.line})"
        what = f"{format_time(outlier.seconds)} is {outlier.ratio:.2f} of the fit"
        yield f"outlier at {short_size(outlier.size_bytes)}: {what}{where}"
    yield from fit.notes


def piece_text(piece: Piece) -> str:
    """One piece or regime: its shape, launch and rate, and what it rests on."""
    form = piece.form
    parts = [form.words]
    if isinstance(form, Overlap):
        if form.launch_s > 0:
            parts.append(f"launch {format_time(form.launch_s)}")
        if form.s_per_byte > 0:
            parts.append(f"{1 / form.s_per_byte / GB:.3g} GB/s algbw")
    return f"{', '.join(parts)} ({piece.points} sizes, scatter {100 * piece.scatter:.1f} %)"


def shared_settings(curves: Sequence[Curve]) -> dict[str, str]:
    """The settings that all curves have in common."""
    first = curves[0].settings
    return {name: value for name, value in first.items() if all(curve.settings.get(name) == value for curve in curves)}


def settings_text(settings: Mapping[str, str]) -> str:
    """Settings in one line."""
    return "  ".join(f"{name}={value}" for name, value in sorted(settings.items()))


def short_size(size_bytes: float) -> str:
    """Short, for columns: three digits and a letter, 1.2M = 1.2 MiB."""
    if size_bytes >= 2.0**60 or not math.isfinite(size_bytes):
        return "inf"
    whole = round(size_bytes)
    for unit in ("", "K", "M", "G", "T"):
        if size_bytes < 1000 or unit == "T":
            return f"{whole}" if not unit else f"{size_bytes:.3g}{unit}"
        size_bytes /= 1024
    return format_size(whole)
