"""The fit on the page: one line a curve with its intervals, what it rests on, and how it goes with N."""

from __future__ import annotations

import math
from dataclasses import dataclass

from busbw.costs.curve import CurveFit, Interval
from busbw.costs.report import FitReport
from busbw.costs.scaling import ScalingFit
from busbw.costs.wording import about, settings_text, shared_settings
from busbw.units import format_rate, format_size, format_time

NOT_IDENTIFIED = "–"


@dataclass(frozen=True, slots=True)
class Value:
    """A fitted value and its 95 % interval as texts."""

    value: str
    range: str


@dataclass(frozen=True, slots=True)
class CurveLine:
    """One curve: its call, what it rests on, its numbers, and what else is to be said."""

    collective: str
    world_size: int
    settings: str
    sizes: str
    rows: int
    launch: Value
    bandwidth: Value
    half_peak: Value
    boundary: Value
    scatter: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OverN:
    """How one collective goes with N, in sentences."""

    collective: str
    settings: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FitPage:
    """All curves of one run. `why_none` says why there are none."""

    curves: tuple[CurveLine, ...] = ()
    over_n: tuple[OverN, ...] = ()
    shared: str = ""
    skipped: tuple[str, ...] = ()
    why_none: str = ""


def fit_page(fit: FitReport | None, why_none: str) -> FitPage:
    """A fit as the page shows it."""
    if fit is None:
        return FitPage(why_none=why_none)
    shared = shared_settings([curve.curve for curve in fit.curves])
    return FitPage(
        tuple(_line(curve, shared) for curve in fit.curves),
        tuple(_over_n(scaling, shared) for scaling in fit.scalings if len(scaling.launch.values) > 1),
        settings_text(shared),
        fit.skipped,
    )


def _own(settings: object, shared: dict[str, str]) -> str:
    assert isinstance(settings, dict)
    return settings_text({name: value for name, value in settings.items() if name not in shared})


def _line(fit: CurveFit, shared: dict[str, str]) -> CurveLine:
    curve = fit.curve
    return CurveLine(
        curve.collective,
        curve.world_size,
        _own(dict(curve.settings), shared),
        f"{format_size(curve.least_bytes)} to {format_size(curve.most_bytes)}",
        fit.points.rows,
        _value(fit.launch_s, time_interval),
        _value(fit.bandwidth_Bps, rate_interval),
        _value(fit.half_peak_bytes, size_interval),
        _value(fit.boundary_bytes, size_interval),
        f"{100 * fit.scatter:.1f} %",
        tuple(about(fit, verbose=False)),
    )


def _over_n(scaling: ScalingFit, shared: dict[str, str]) -> OverN:
    sentences = [f"Launch: {scaling.launch.text}."]
    if scaling.alpha_s is not None and scaling.launch_s is not None:
        launch, alpha = (" (".join(time_interval(each)) + ")" for each in (scaling.launch_s, scaling.alpha_s))
        sentences.append(f"So t0 = {launch} and alpha = {alpha} a step.")
    else:
        sentences.append("t0 and alpha: not identifiable apart.")
    sentences.append(f"Bandwidth: {scaling.bandwidth.text}.")
    return OverN(scaling.collective, _own(dict(scaling.settings), shared), tuple(sentences))


def _value(interval: Interval | None, texts: object) -> Value:
    if interval is None:
        return Value(NOT_IDENTIFIED, "")
    assert callable(texts)
    return Value(*texts(interval))


def time_interval(interval: Interval) -> tuple[str, str]:
    """A time, and its 95 % interval."""
    return format_time(interval.value), _range(interval, format_time)


def rate_interval(interval: Interval) -> tuple[str, str]:
    """A rate, and its 95 % interval."""
    return format_rate(interval.value), _range(interval, format_rate)


def size_interval(interval: Interval) -> tuple[str, str]:
    """A size, and its 95 % interval."""
    return _size(interval.value), _range(interval, _size)


def _size(size_bytes: float) -> str:
    """Three digits; a fitted size is no whole number of anything."""
    step = 10 ** max(math.floor(math.log10(max(size_bytes, 1))) - 2, 0)
    unit = next((u for u in (2**40, 2**30, 2**20, 2**10) if size_bytes >= u), 1)
    return format_size(round(size_bytes / step) * step) if unit == 1 else format_size(_three_digits(size_bytes, unit))


def _three_digits(size_bytes: float, unit: int) -> int:
    value = size_bytes / unit
    return round(float(f"{value:.3g}") * unit)


def _range(interval: Interval, text: object) -> str:
    assert callable(text)
    if not math.isfinite(interval.high) or interval.high >= 2.0**60:
        return f"{text(interval.low)} or more"
    low, high = str(text(interval.low)), str(text(interval.high))
    (a, unit), (b, other) = low.split(" "), high.split(" ")
    return f"{a} to {b} {unit}" if unit == other else f"{low} to {high}"
