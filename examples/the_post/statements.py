"""Each statement of the post with our verdict on it, from its own rows: nothing here is a number that was typed in, but
what the post says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from busbw.algorithms import centralised, ring
from busbw.core.cost_model import CostModel
from busbw.core.finding import Finding
from busbw.core.measurement import Measurement, Results
from busbw.costs.curve import CurveFit
from busbw.findings import explain
from busbw.findings._words import share, signed
from busbw.plots.figures.bucketed_sync import buckets, gradient_sizes, sync
from busbw.plots.figures.where_the_time_goes import split
from busbw.plots.fits import fit_line, rough_size
from busbw.plots.lines import make_lines
from busbw.pricing.readers import read_model
from busbw.units import GB, GIB, KIB, MIB, format_rate, format_size, format_time

HOLDS, FAILS, CANNOT_TELL = "holds", "does not hold", "cannot tell"
ALIKE = 0.05
"""What counts as the number that the post gives, where it rounds."""
RING_OPS = ("broadcast", "all_gather", "reduce_scatter", "all_reduce")


class Post:
    """The post's rows, what our findings say of them, and their fits."""

    def __init__(self, results: list[Results]) -> None:
        self.rows = [row for part in results for row in part.measurements]
        self.findings = {finding.law: finding for finding in explain(results)}

    def row(self, op: str, n: int, size_bytes: int) -> Measurement:
        """The row of a call; sizes may be off by whole elements a rank."""
        same = [row for row in self.rows if (row.call.collective, row.call.world_size) == (op, n)]
        return min(same, key=lambda row: abs(row.call.size_bytes - size_bytes))

    def time_s(self, op: str, n: int, size_bytes: int) -> float:
        """Its seconds."""
        return self.row(op, n, size_bytes).time_s

    def plateau_Bps(self, op: str, n: int) -> float:  # noqa: N802 - the unit's own capitals
        """The median busbw of 256 MiB and more."""
        same = [r for r in self.rows if (r.call.collective, r.call.world_size) == (op, n) and r.call.size_bytes > 2**27]
        return median(row.busbw_GBps or 0.0 for row in same) * GB

    @cached_property
    def fits(self) -> dict[tuple[str, int], CurveFit]:
        """The fit of each curve."""
        found = {(line.collective, line.world_size): fit_line(line) for line in make_lines(self.rows)}
        return {key: fit for key, fit in found.items() if fit is not None}


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict, the numbers it rests on in a few words, and more where a finding says more."""

    verdict: str
    numbers: str
    more: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of the post: its words, the number it gives, the figure that shows it, and how it is judged."""

    title: str
    says: str
    figure: str
    judge: Callable[[Post], Judged]


def _of(finding: Finding, numbers: str, verdict: str | None = None) -> Judged:
    """The finding's own verdict and statement, with causes that are open and what would decide."""
    words = {"holds": HOLDS, "fails": FAILS, "cannot_tell": CANNOT_TELL}
    parts = [_sentence(finding.statement)]
    if len(finding.causes) > 1:
        parts.append(_sentence("Causes that fit alike: " + "; or ".join(cause.text for cause in finding.causes)))
    parts += [_sentence(f"Ruled out, {cause.code.replace('-', ' ')}: {cause.text}") for cause in finding.ruled_out]
    if finding.next and finding.verdict != "holds":
        parts.append(_sentence(f"What would tell: {finding.next}"))
    return Judged(verdict or words[finding.verdict], numbers, " ".join(parts))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _rates(values: Iterable[float]) -> str:
    return ", ".join(f"{value / GB:.1f}" for value in values) + " GB/s"


def _span(values: Iterable[float]) -> str:
    rates = sorted(values)
    return f"{rates[0] / GB:.1f} to {rates[-1] / GB:.1f} GB/s"


def _bytes_of_a_ring(post: Post) -> Judged:
    worlds = (2, 4, 8)
    sent = [float(ring.all_reduce(n).sent_share().max()) for n in worlds]
    root = float(centralised.all_reduce(8).sent_share().max())
    right = all(math.isclose(value, 2 * (n - 1) / n) for value, n in zip(sent, worlds, strict=True))
    numbers = f"{', '.join(f'{value:g} S' for value in sent)} at N = 2, 4, 8; a root at N = 8: {root:g} S"
    return Judged(
        HOLDS if right and max(sent) < 2 and root == 7 else FAILS,
        numbers,
        "These are sums over the schedules that `busbw simulate` and `busbw draw` use too.",
    )


def _lower_bound(post: Post) -> Judged:
    sent = float(ring.all_reduce(8).sent_share().max())
    return _of(post.findings["lower_bound"], f"{sent:g} S at N = 8, the least that a rank can send", FAILS)


def _plateaus(post: Post) -> Judged:
    rings = [post.plateau_Bps(op, 8) for op in RING_OPS]
    rooted = [post.plateau_Bps(op, 8) for op in ("scatter", "gather")]
    inside = min(rings) > 16e9 * (1 - ALIKE) and max(rings) < 19e9 * (1 + ALIKE)
    inside = inside and min(rooted) > 44e9 * (1 - ALIKE) and max(rooted) < 50e9 * (1 + ALIKE)
    numbers = f"broadcast, AG, RS, AR {_rates(rings)}; scatter, gather {_rates(rooted)}"
    return Judged(HOLDS if inside else FAILS, numbers, _of(post.findings["ring_against_rooted"], "").more)


def _two_halves(post: Post) -> Judged:
    finding = post.findings["all_reduce_is_two_halves"]
    whole, one, two = (post.time_s(op, 8, GIB) for op in ("all_reduce", "reduce_scatter", "all_gather"))
    numbers = f"{1e3 * whole:.1f} ms against {1e3 * one:.1f} + {1e3 * two:.1f}, {share((one + two) / whole - 1)} more"
    return _of(finding, numbers, f"{HOLDS} from {format_size(_agree_from(post))} up")


def _agree_from(post: Post) -> int:
    """The smallest size from which on the halves take within 10 % of all-reduce at every N."""
    start = 0
    for n in (2, 4, 8):
        sizes = sorted(
            r.call.size_bytes for r in post.rows if (r.call.collective, r.call.world_size) == ("all_reduce", n)
        )
        off = [size for size in sizes if abs(_halves_over_whole(post, n, size) - 1) > 0.1]
        start = max(start, min(size for size in sizes if not off or size > max(off)))
    return start


def _halves_over_whole(post: Post, n: int, size_bytes: int) -> float:
    both = post.time_s("reduce_scatter", n, size_bytes) + post.time_s("all_gather", n, size_bytes)
    return both / post.time_s("all_reduce", n, size_bytes)


def _half_of_all_gather(post: Post) -> Judged:
    ratios = [post.time_s("all_gather", n, GIB) / post.time_s("all_reduce", n, GIB) for n in (2, 4, 8)]
    numbers = ", ".join(f"{ratio:.2f}" for ratio in ratios) + " at N = 2, 4, 8"
    return _of(post.findings["all_reduce_half_of_all_gather"], numbers)


def _collapse(post: Post) -> Judged:
    rates = [(post.row("all_reduce", n, GIB).busbw_GBps or 0.0) * GB for n in (2, 4, 8)]
    return _of(post.findings["busbw_collapses_over_n"], f"all-reduce {_rates(rates)} at N = 2, 4, 8")


def _flat(post: Post) -> Judged:
    small, large = ([post.time_s("all_reduce", n, size) for n in (2, 4, 8)] for size in (4 * KIB, 64 * KIB))
    rises = ", ".join(signed(b / a - 1) for a, b in zip(small, large, strict=True))
    numbers = f"{format_time(small[0])} at N = 2, {format_time(small[2])} to {format_time(large[2])} at N = 8; {rises} from 4 to 64 KiB"
    return _of(post.findings["latency_is_flat"], numbers)


def _linear_floor(post: Post) -> Judged:
    floors = [format_time(post.time_s("all_reduce", n, 4 * KIB)) for n in (2, 4, 8)]
    return _of(post.findings["latency_grows_with_n"], f"{', '.join(floors)} at N = 2, 4, 8")


def _formula(post: Post) -> Judged:
    off = [signed(_halves_over_whole(post, n, 4 * KIB) - 1) for n in (2, 4, 8)]
    numbers = f"by it RS + AG = AR at any size; at 4 KiB the two take {', '.join(off)} more at N = 2, 4, 8"
    return _of(post.findings["launch_per_call"], numbers, f"{HOLDS} from {format_size(_agree_from(post))} up")


def _latency_and_bandwidth(post: Post) -> Judged:
    parts = [split(post.fits["all_reduce", n], None, None) for n in (2, 4, 8)]
    first = [part.launch_s[0] / (part.launch_s[0] + part.bytes_s[0]) for part in parts]
    last = [part.bytes_s[-1] / (part.launch_s[-1] + part.bytes_s[-1]) for part in parts]
    numbers = f"at 4 KiB {100 * min(first):.1f} % of the fitted time or more is latency, at 1 GiB {100 * min(last):.1f} % is bytes"
    return Judged(HOLDS if min(*first, *last) > 0.95 else FAILS, numbers)


def _boundary(post: Post) -> Judged:
    found = {}
    for op in ("all_reduce", "scatter", "gather"):
        edges = [post.fits[op, n].boundary_bytes for n in (2, 4, 8)]
        found[op] = [edge for edge in edges if edge is not None]
    at = ", ".join(
        f"{rough_size(edge.value)} ({rough_size(edge.low)} to {rough_size(edge.high)})" for edge in found["all_reduce"]
    )
    rooted = [edge.value for op in ("scatter", "gather") for edge in found[op]]
    holds = all(edge.low <= MIB <= edge.high for edge in found["all_reduce"])
    numbers = f"all-reduce {at} at N = 2, 4, 8"
    more = f"Fitted, with 95 % intervals. Scatter and gather: {rough_size(min(rooted))} to {rough_size(max(rooted))}."
    return Judged(HOLDS if holds else FAILS, numbers, more)


def _bucketing(post: Post) -> Judged:
    costs = CostModel((post.fits["all_reduce", 8].curve,))
    sizes = gradient_sizes(read_model("gpt2"), "bfloat16")
    alone, whole = sync(sizes, 8, costs), sync([sum(sizes)], 8, costs)
    filled = sync(buckets(sizes, 25 * MIB), 8, costs)
    small = sync(sorted(sizes)[:98], 8, costs)
    holds = abs(alone.latency_s / 10e-3 - 1) < 0.15 and abs(whole.seconds / 25e-3 - 1) < ALIKE
    numbers = (
        f"{len(sizes)} tensors: {format_time(alone.latency_s)} of latency at N = 8; all {format_size(sum(sizes))} in one call "
        f"{format_time(whole.seconds)}"
    )
    part = sum(sorted(sizes)[:98]) / sum(sizes)
    more = (
        f"GPT-2 124M in bfloat16, by the fit of all-reduce. The 98 smallest tensors hold {100 * part:.2g} % of the bytes and cost "
        f"{format_time(small.seconds)}; buckets of DDP's sizes make {filled.calls} calls of {format_time(filled.seconds)} together."
    )
    return Judged(HOLDS if holds else FAILS, numbers, more)


def _full_duplex(post: Post) -> Judged:
    one = [post.plateau_Bps(op, 2) for op in ("broadcast", "scatter", "gather")]
    two = [post.plateau_Bps(op, 2) for op in ("all_gather", "reduce_scatter", "all_reduce")]
    numbers = f"one pair: one way {_span(one)}, both ways {_span(two)} each"
    return _of(post.findings["one_way_two_way"], numbers)


def _socket(post: Post) -> Judged:
    gathers = [post.plateau_Bps("all_gather", n) for n in (4, 8)]
    across = post.plateau_Bps("scatter", 8) * 4 / 7
    numbers = f"all-gather {_rates(gathers)} at N = 4, 8; scatter carries {format_rate(across)} across the sockets"
    judged = _of(post.findings["socket_link"], numbers)
    model = _of(post.findings["which_limit"], "").more
    return Judged(judged.verdict, judged.numbers, f"{judged.more} {model}")


def _bumps(post: Post) -> Judged:
    finding = post.findings["protocol_switch"]
    off = [number for number in finding.numbers if "broadcast N=8 1 MiB" in number.name]
    numbers = f"broadcast at N = 8, 1 MiB: the straight line says {off[0].text}" if off else "no row lies off its line"
    return _of(finding, numbers)


STATEMENTS = (
    Statement("A ring all-reduce sends 2(N-1)/N S", "2(N-1)/N S a rank, below 2 S at any N; a root of the centralised way (N-1) S", "", _bytes_of_a_ring),
    Statement("The floor is to send about S and receive about S", "about S each way", "", _lower_bound),
    Statement("Ring collectives share a plateau", "16 to 19 GB/s at N = 8; scatter and gather 44 to 50", "busbw_over_size", _plateaus),
    Statement("algbw of all-reduce is half of all-gather's", "about half", "busbw_over_size", _half_of_all_gather),
    Statement("Links are full-duplex, so send and receive don't compete", "they don't compete", "busbw_over_size", _full_duplex),
    Statement("The ring's wall is the UPI link", "the link between the sockets", "busbw_over_size", _socket),
    Statement("busbw nearly collapses onto one curve over N", "21.5 to 17.8 GB/s", "scaling_with_n", _collapse),
    Statement("Small messages pay latency, large ones bandwidth", "pure latency, pure bandwidth", "where_the_time_goes", _latency_and_bandwidth),
    Statement("Time is flat below 64 KiB", "about 11 us at N = 2, 65 us at N = 8", "time_over_size", _flat),
    Statement("The latency floor grows linearly with N", "linearly", "time_over_size", _linear_floor),
    Statement("The boundary lies at about 1 MiB", "about 1 MiB", "time_over_size", _boundary),
    Statement("Protocols and algorithms make the bumps in the curves", "ring or tree; LL, LL128, Simple", "time_over_size", _bumps),
    Statement("All-reduce is reduce-scatter, then all-gather", "at 1 GiB and N = 8: 105.3 ms against 59.2 + 49.3, 3 % apart", "all_reduce_against_halves", _two_halves),
    Statement("T = 2(N-1) (S/(N B) + alpha)", "without a term for the call", "all_reduce_against_halves", _formula),
    Statement("Tensors reduced one by one pay for their number", "about 150 tensors: 10 ms of latency a step, against 25 ms for all 250 MB", "bucketed_sync", _bucketing),
)  # fmt: skip
"""In the order of the page: statements of one figure stand together."""

BESIDE = ("cost_of_reducing", "noise", "times_that_fall", "plateau_is_reached")
"""Findings on the same rows that the post's text does not speak of."""
