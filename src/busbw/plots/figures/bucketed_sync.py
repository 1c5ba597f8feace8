"""Gradient sync of a model over the size of its buckets: what latency and what bytes cost, from one call a tensor to one in all.

Buckets are filled as PyTorch's DDP fills them: in the order in which gradients arrive, closed once they reach the limit. Calls are counted one after the other; how much of them hides behind backward is another question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.core.call import Call
from busbw.core.cost_model import CostModel
from busbw.core.dtype import DTYPES
from busbw.core.measurement import Measurement
from busbw.errors import UsageError
from busbw.plots.chart import Axis, Boundary, Chart, Layer, Panel
from busbw.plots.figure import Figure, FigureOptions
from busbw.plots.fits import fit_line
from busbw.plots.lines import Line, count, left_out, make_lines, marks_notes, repeats_note, select
from busbw.units import MIB, format_size, format_time

if TYPE_CHECKING:
    from busbw.core.plan import Model
    from busbw.costs.curve import CurveFit

FIRST_BUCKET_BYTES, DEFAULT_BUCKET_BYTES = 1 * MIB, 25 * MIB
"""DDP's own limits; its first bucket is smaller, so that it leaves early. An explicit limit is that of all buckets."""
Y = Axis("time of all calls of a step", "time")
PER_OCTAVE = 2


@dataclass(frozen=True, slots=True)
class Sync:
    """One way to cut the gradients into calls: how many, and their seconds."""

    calls: int
    latency_s: float
    bytes_s: float

    @property
    def seconds(self) -> float:
        """All calls, one after the other."""
        return self.latency_s + self.bytes_s


def buckets(sizes: Sequence[int], limit_bytes: float) -> list[int]:
    """Bytes of each bucket, gradients of `sizes` bytes arriving in this order."""
    from busbw.pricing.stream import tensors_by_limit

    limit = max(1, round(limit_bytes))
    limits = [FIRST_BUCKET_BYTES, limit] if limit == DEFAULT_BUCKET_BYTES else [limit]
    filled = tensors_by_limit([("", size) for size in sizes], limits, in_order=True)
    return [sum(sizes[i] for i in members) for members in filled]


def sync(sizes: Sequence[int], world_size: int, costs: CostModel) -> Sync:
    """The all-reduces of these sizes."""
    found = [costs.estimate(Call("all_reduce", size, world_size)) for size in sizes]
    return Sync(len(sizes), sum(e.latency_s for e in found), sum(e.bandwidth_s for e in found))


def build(measurements: Sequence[Measurement], options: FigureOptions) -> Chart:
    """One panel for each line of all_reduce: seconds of latency and of bytes, stacked, over the limit of a bucket."""
    from busbw.pricing.readers import read_model

    if options.collectives and "all_reduce" not in options.collectives:
        raise UsageError("bucketed_sync: shows all_reduce alone, which --op leaves out")
    rows = select(measurements, FigureOptions(world_sizes=options.world_sizes))
    lines = [line for line in make_lines(rows) if line.collective == "all_reduce"]
    fits = [(line, fit) for line in lines if (fit := fit_line(line)) is not None and _is_whole(fit)]
    if not fits:
        raise UsageError(
            "bucketed_sync: no all_reduce rows that show both a floor and a rate; measure all_reduce from a few KiB to some "
            "hundred MiB"
        )
    model = read_model(options.model)
    dtype = _dtype(rows)
    sizes = gradient_sizes(model, dtype)
    panels, notes = [], []
    for line, fit in fits:
        costs = CostModel((fit.curve,))
        panels.append(_panel(line, sizes, costs, options.bucket_bytes))
        notes.append(_note(line, sizes, costs, options.bucket_bytes))
    least, most = max(fit.curve.least_bytes for _, fit in fits), min(fit.curve.most_bytes for _, fit in fits)
    below = sum(size < least for size in sizes)
    if below:
        notes.append(f"Below the smallest row ({format_size(least)}) the fit is taken on: {count(below, 'tensor')}.")
    if sum(sizes) > most:
        notes.append(f"Above the largest row ({format_size(most)}) the fit is taken on.")
    skipped = len(lines) - len(fits)
    return Chart(
        f"Gradient sync of {model.name}, by bucket size",
        f"{count(len(sizes), 'tensor')}, {format_size(sum(sizes))} of {dtype}. Left end: one call a tensor. "
        "Right end: one call in all.",
        tuple(panels),
        (
            *notes,
            "Calls one after the other; what hides behind backward is not counted here.",
            *([f"Left out, showing no floor or no rate: {count(skipped, 'line')}."] if skipped else []),
            *repeats_note(lines),
            *marks_notes(lines),
            *left_out(rows),
        ),
    )


def gradient_sizes(model: Model, dtype: str) -> tuple[int, ...]:
    """Bytes of each gradient, in the order in which they arrive."""
    by_name = {tensor.name: tensor for tensor in model.tensors}
    names = model.arrival or [tensor.name for tensor in reversed(model.parameters)]
    return tuple(by_name[name].count * DTYPES[dtype].itemsize for name in names)


def _is_whole(fit: CurveFit) -> bool:
    return fit.bandwidth_Bps is not None and fit.launch_s is not None


def _dtype(rows: Sequence[Measurement]) -> str:
    """That of the rows where they agree on one that gradients have, else bfloat16."""
    found = {row.call.dtype for row in rows if row.call.collective == "all_reduce"}
    dtype = found.pop() if len(found) == 1 else None
    return dtype if dtype is not None and "float" in dtype else "bfloat16"


def _panel(line: Line, sizes: Sequence[int], costs: CostModel, bucket_bytes: int) -> Panel:
    limits = _limits(sizes)
    ways = [sync(buckets(sizes, limit), line.world_size, costs) for limit in limits]
    layers = (
        Layer("bytes", limits, tuple(way.bytes_s for way in ways), "bytes"),
        Layer("latency", limits, tuple(way.latency_s for way in ways), "latency"),
    )
    inside = limits[0] < bucket_bytes < limits[-1]
    at = (Boundary(format_size(bucket_bytes), float(bucket_bytes)),) if inside else ()
    title = f"N = {line.world_size} {line.variant}".rstrip()
    return Panel(title, Axis("limit of a bucket", "size", "log2"), Y, layers=layers, boundaries=at)


def _limits(sizes: Sequence[int]) -> tuple[float, ...]:
    """From below the smallest tensor to all bytes: powers of two, and their halves by ratio."""
    first, last = math.floor(math.log2(min(sizes))), math.ceil(math.log2(sum(sizes)))
    return tuple(2.0 ** (i / PER_OCTAVE) for i in range(PER_OCTAVE * first, PER_OCTAVE * last + 1))


def _note(line: Line, sizes: Sequence[int], costs: CostModel, bucket_bytes: int) -> str:
    alone = sync(sizes, line.world_size, costs)
    filled = sync(buckets(sizes, bucket_bytes), line.world_size, costs)
    whole = sync([sum(sizes)], line.world_size, costs)
    where = f"N = {line.world_size} {line.variant}".rstrip()
    return (
        f"{where}: one call a tensor {format_time(alone.seconds)}, of which {format_time(alone.latency_s)} latency; buckets of "
        f"{format_size(bucket_bytes)} ({count(filled.calls, 'call')}) {format_time(filled.seconds)}; "
        f"one call {format_time(whole.seconds)}."
    )


FIGURE = Figure(
    "bucketed_sync",
    "gradient sync of a model over bucket size: latency and bytes, from one call a tensor to one",
    build,
)
