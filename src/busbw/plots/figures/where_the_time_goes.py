"""Where the time of a call goes, over S: launch and steps (alpha), bytes (beta), reducing (gamma) where it is known.

All parts are those of the fit. At one N, launch and steps are one number, latency; they part only where the latency of
several N grows with the steps of a ring. Reducing is what reduce-scatter takes more than all-gather for each byte, where
that lies beyond the intervals of both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.core.measurement import Measurement
from busbw.errors import UsageError
from busbw.plots.chart import Axis, Boundary, Chart, Layer, Panel
from busbw.plots.figure import Figure, FigureOptions
from busbw.plots.fits import boundary, fit_line, grid, rough_size
from busbw.plots.lines import Line, left_out, make_lines, marks_notes, pick_collectives, repeats_note, select
from busbw.units import format_size, format_time

if TYPE_CHECKING:
    from busbw.costs.curve import CurveFit

X = Axis("message size S", "size", "log2")
Y = Axis("share of the time", "share", most=1.0)
REDUCING = ("all_reduce", "reduce_scatter")


@dataclass(frozen=True, slots=True)
class Parts:
    """One line's time at some sizes, in seconds; the parts add up to the fitted time."""

    sizes: tuple[float, ...]
    launch_s: tuple[float, ...]
    """Launch and steps together where `steps_s` is empty."""
    steps_s: tuple[float, ...]
    bytes_s: tuple[float, ...]
    reducing_s: tuple[float, ...]
    """Empty where it is not known."""


def build(measurements: Sequence[Measurement], options: FigureOptions) -> Chart:
    """One panel for each line: shares of its fitted time, stacked."""
    rows = select(measurements, options)
    every = make_lines(select(measurements, FigureOptions(world_sizes=options.world_sizes)))
    lines = pick_collectives(make_lines(rows), options)
    if not lines:
        raise UsageError("where_the_time_goes: no row moves data between ranks; that takes N >= 2 and S > 0")
    fits = {line: fit_line(line) for line in every}
    panels, notes, untold = [], [], []
    alphas = _alphas(lines, fits)
    for line in lines:
        fit = fits.get(line)
        if fit is None or fit.bandwidth_Bps is None or fit.launch_s is None:
            untold.append(f"{line.name} at N = {line.world_size}")
            continue
        gamma = _gamma(line, fits)
        parts = split(fit, alphas.get(line.name), gamma)
        panels.append(_panel(line, fit, parts))
        total_s = fit.curve.at(fit.curve.most_bytes)[0]
        if parts.reducing_s:
            notes.append(
                f"Reducing at N = {line.world_size}: what reduce_scatter takes more than all_gather, "
                f"{format_time(parts.reducing_s[-1])} of {format_time(total_s)} at {format_size(fit.curve.most_bytes)}."
            )
    if not panels:
        raise UsageError(
            "where_the_time_goes: no line shows both a floor and a rate; measure from a few KiB to some hundred MiB"
        )
    return Chart(
        "Where the time goes",
        "Shares of the fitted time of a call: what every call pays, and what its bytes pay.",
        tuple(panels),
        (
            *_latency_note(panels),
            *notes,
            *_gamma_note(lines, fits, notes),
            *(
                [f"Cannot tell for {', '.join(untold)}: the sizes do not show both a floor and a rate."]
                if untold
                else []
            ),
            *repeats_note(lines),
            *marks_notes(lines),
            *left_out(rows),
        ),
    )


def split(fit: CurveFit, alpha_s: float | None, gamma_s_per_byte: float | None) -> Parts:
    """The parts of a fitted curve, at sizes a quarter of an octave apart. `alpha_s` is that of one step of a ring."""
    from busbw.costs.scaling import steps

    curve = fit.curve
    sizes = grid(curve.least_bytes, curve.most_bytes)
    seconds = [curve.at(size)[0] for size in sizes]
    wire_s = [min(size * curve.s_per_byte, time_s) for size, time_s in zip(sizes, seconds, strict=True)]
    latency_s = [time_s - wire for time_s, wire in zip(seconds, wire_s, strict=True)]
    reducing: list[float] = []
    if gamma_s_per_byte is not None:
        share = min(gamma_s_per_byte / curve.s_per_byte, 1.0)
        reducing = [wire * share for wire in wire_s]
        wire_s = [wire * (1 - share) for wire in wire_s]
    stepping: list[float] = []
    if alpha_s is not None and fit.launch_s is not None:
        share = min(alpha_s * steps(curve.collective, curve.world_size) / fit.launch_s.value, 1.0)
        stepping = [latency * share for latency in latency_s]
        latency_s = [latency * (1 - share) for latency in latency_s]
    return Parts(sizes, tuple(latency_s), tuple(stepping), tuple(wire_s), tuple(reducing))


def _panel(line: Line, fit: CurveFit, parts: Parts) -> Panel:
    total = [sum(values) for values in zip(*(values for values in _seconds(parts) if values), strict=True)]

    def layer(label: str, values: Sequence[float], colour: str) -> Layer:
        return Layer(label, parts.sizes, tuple(v / t for v, t in zip(values, total, strict=True)), colour)

    layers = [layer("bytes (beta)", parts.bytes_s, "bytes")]
    if parts.reducing_s:
        layers.append(layer("reducing (gamma)", parts.reducing_s, "reducing"))
    if parts.steps_s:
        layers.append(layer("steps (alpha)", parts.steps_s, "steps"))
        layers.append(layer("launch (t0)", parts.launch_s, "launch"))
    else:
        layers.append(layer("latency (t0 + alpha)", parts.launch_s, "latency"))
    edge = boundary(fit)
    labelled = () if edge is None else (Boundary(f"boundary {rough_size(edge.value)}", edge.value),)
    title = f"{line.name}, N = {line.world_size}"
    return Panel(title, X, Y, layers=tuple(layers), boundaries=labelled)


def _seconds(parts: Parts) -> tuple[tuple[float, ...], ...]:
    return parts.launch_s, parts.steps_s, parts.bytes_s, parts.reducing_s


def _alphas(lines: Sequence[Line], fits: dict[Line, CurveFit | None]) -> dict[str, float]:
    """By collective and variant: the latency of one step, where several N identify it."""
    from busbw.costs.scaling import fit_scaling

    families: dict[str, list[CurveFit]] = defaultdict(list)
    for line in lines:
        fit = fits.get(line)
        if fit is not None:
            families[line.name].append(fit)
    found = {name: fit_scaling(family).alpha_s for name, family in families.items()}
    return {name: alpha.value for name, alpha in found.items() if alpha is not None}


def _gamma(line: Line, fits: dict[Line, CurveFit | None]) -> float | None:
    """Seconds for each reduced byte of S: reduce-scatter's minus all-gather's, beyond both intervals; else None."""
    rates = {}
    for name in ("reduce_scatter", "all_gather"):
        fit = next((f for other, f in fits.items() if _beside(line, other, name)), None)
        if fit is None or fit.bandwidth_Bps is None:
            return None
        rates[name] = fit.bandwidth_Bps
    slow, fast = rates["reduce_scatter"], rates["all_gather"]
    if line.collective not in REDUCING or slow.high >= fast.low:
        return None
    return (line.world_size - 1) / line.world_size * (1 / slow.value - 1 / fast.value)


def _beside(line: Line, other: Line, name: str) -> bool:
    return (other.collective, other.world_size, other.variant) == (name, line.world_size, line.variant)


def _latency_note(panels: Sequence[Panel]) -> tuple[str, ...]:
    if any(layer.colour == "latency" for panel in panels for layer in panel.layers):
        return ("Latency: launch and steps together; these N do not tell them apart.",)
    return ()


def _gamma_note(lines: Sequence[Line], fits: dict[Line, CurveFit | None], found: Sequence[str]) -> tuple[str, ...]:
    reducing = [line for line in lines if line.collective in REDUCING]
    measured = {line.world_size for line in fits if line.collective == "reduce_scatter"}
    measured &= {line.world_size for line in fits if line.collective == "all_gather"}
    without = sorted({line.world_size for line in reducing if _gamma(line, fits) is None} & measured)
    if without:
        where = ", ".join(map(str, without))
        more = " So it is not a cost of each reduced byte." if found else ""
        return (f"Reducing at N = {where}: no cost beyond the intervals of reduce_scatter and all_gather.{more}",)
    if reducing and not measured:
        return ("Reducing is not parted from bytes: that takes reduce_scatter and all_gather at the same N.",)
    return ()


FIGURE = Figure(
    "where_the_time_goes", "shares of launch, steps, bytes and reducing in the fitted time, stacked over size", build
)
