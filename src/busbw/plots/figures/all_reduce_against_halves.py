"""All-reduce against its two halves, reduce-scatter and all-gather one after the other: times, and their difference.

By the ring's bytes the two cost the same; each call pays its launch, so the halves pay one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from busbw.core.finding import Facts
from busbw.core.measurement import Mark, Measurement
from busbw.errors import UsageError
from busbw.findings import Evidence
from busbw.plots.chart import Axis, Chart, MarkedPoint, Panel, ReferenceLine, Series
from busbw.plots.figure import Figure, FigureOptions
from busbw.plots.lines import left_out, select
from busbw.units import format_size

X = Axis("message size S", "size", "log2")
TIME = Axis("time", "time", "log")
DIFFERENCE = Axis("(RS + AG) / AR - 1", "share")
CLOSE = 0.10
"""Differences below this count as none, unless the rows themselves are known better or worse."""


@dataclass(frozen=True, slots=True)
class Halves:
    """One size at one N: seconds of all-reduce and of its halves together, and what the difference may be by chance."""

    size_bytes: int
    whole_s: float
    both_s: float
    allowance: float
    """Of the ratio, relative: the 95 % half-width of the three rows together."""
    marks: tuple[Mark, ...]

    @property
    def difference(self) -> float:
        """How much more the halves take, as a share."""
        return self.both_s / self.whole_s - 1


def find_halves(evidence: Evidence) -> dict[tuple[str, int], tuple[Halves, ...]]:
    """By variant and N: the sizes that have all three rows."""
    found = {}
    for family in evidence.families:
        for whole in family.of("all_reduce"):
            scatter, gather = (family.get(name, whole.world_size) for name in ("reduce_scatter", "all_gather"))
            if scatter is None or gather is None:
                continue
            sizes = []
            for point in whole.points:
                one, two = scatter.at(point.size_bytes), gather.at(point.size_bytes)
                if one is None or two is None:
                    continue
                both_s = one.time_s + two.time_s
                shares = ((whole, point, 1.0), (scatter, one, one.time_s / both_s), (gather, two, two.time_s / both_s))
                allowance = sum((evidence.row_allowance(curve, at) * part) ** 2 for curve, at, part in shares) ** 0.5
                marks = tuple(dict.fromkeys(mark for p in (point, one, two) for row in p.rows for mark in row.marks))
                sizes.append(Halves(point.size_bytes, point.time_s, both_s, allowance, marks))
            if sizes:
                found[family.variant, whole.world_size] = tuple(sizes)
    return found


def build(measurements: Sequence[Measurement], options: FigureOptions) -> Chart:
    """Two panels: the times, and how much more the halves take; one line an N."""
    if options.collectives and "all_reduce" not in options.collectives:
        raise UsageError("all_reduce_against_halves: shows all_reduce and its halves, which --op leaves out")
    chosen = select(measurements, FigureOptions(world_sizes=options.world_sizes))
    rows = [row for row in chosen if row.call.collective in ("all_reduce", "reduce_scatter", "all_gather")]
    found = find_halves(Evidence(rows, Facts()))
    if not found:
        raise UsageError(
            "all_reduce_against_halves: no size has all_reduce, reduce_scatter and all_gather at one N of 2 or more"
        )
    variants = list(dict.fromkeys(variant for variant, _ in found))
    times, differences = [], []
    for (variant, n), sizes in found.items():
        index = variants.index(variant)
        label, colour = f"N = {n} {variant}".rstrip(), f"N={n}"
        x = tuple(float(half.size_bytes) for half in sizes)
        whole, both = (tuple(getattr(half, name) for half in sizes) for name in ("whole_s", "both_s"))
        times.append(Series(f"AR {label}", x, whole, colour, variant=2 * index))
        times.append(Series(f"RS + AG {label}", x, both, colour, variant=2 * index + 1))
        differences.append(_difference(label, colour, index, sizes))
    return Chart(
        "All-reduce against its two halves",
        "A ring all-reduce is a reduce-scatter, then an all-gather: as many bytes, but two calls pay two launches.",
        (
            Panel("AR, and RS + AG", X, TIME, tuple(times)),
            Panel(
                "how much longer the halves take",
                X,
                DIFFERENCE,
                tuple(differences),
                lines=(ReferenceLine("equal", 0.0),),
                dodge=len(differences) > 1,
            ),
        ),
        (*_close(found), _bars(found), *_marks(found), *left_out(chosen)),
    )


def _difference(label: str, colour: str, index: int, sizes: Sequence[Halves]) -> Series:
    values = tuple(half.difference for half in sizes)
    marked = (MarkedPoint(float(half.size_bytes), half.difference, half.marks) for half in sizes if half.marks)
    return Series(
        label,
        tuple(float(half.size_bytes) for half in sizes),
        values,
        colour,
        tuple((1 + value) / (1 + half.allowance) - 1 for value, half in zip(values, sizes, strict=True)),
        tuple((1 + value) * (1 + half.allowance) - 1 for value, half in zip(values, sizes, strict=True)),
        tuple(marked),
        variant=2 * index,
    )


def _close(found: dict[tuple[str, int], tuple[Halves, ...]]) -> tuple[str, ...]:
    """From which size on they agree, at each N."""
    parts = []
    for (variant, n), sizes in found.items():
        off = [half.size_bytes for half in sizes if abs(half.difference) > max(CLOSE, half.allowance)]
        good = [half for half in sizes if not off or half.size_bytes > max(off)]
        where = f"N = {n} {variant}".rstrip()
        if good:
            worst = max(abs(half.difference) for half in good)
            parts.append(f"at {where} within {100 * worst:.1f} % from {format_size(good[0].size_bytes)} on")
        else:
            parts.append(f"at {where} nowhere")
    return (f"They agree {'; '.join(parts)}.",)


def _bars(found: dict[tuple[str, int], tuple[Halves, ...]]) -> str:
    widest = max(half.allowance for sizes in found.values() for half in sizes)
    return (
        "Bar: 95 % interval of the difference, from the rows' own intervals, or where they have none from the scatter of "
        f"neighbouring rows (up to {100 * widest:.0f} %)."
    )


def _marks(found: dict[tuple[str, int], tuple[Halves, ...]]) -> tuple[str, ...]:
    count = sum(bool(half.marks) for sizes in found.values() for half in sizes)
    if not count:
        return ()
    return (f"\N{WHITE CIRCLE} Read with care: {count} point{'s' if count > 1 else ''}; busbw show gives the reasons.",)


FIGURE = Figure(
    "all_reduce_against_halves", "all-reduce against reduce-scatter + all-gather, with the relative difference", build
)
