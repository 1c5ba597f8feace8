"""`busbw sweep-buckets`: a real DDP step over bucket_cap_mb on this machine, beside what is predicted."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from busbw.errors import MissingDependency, UsageError
from busbw.units import MIB, format_time

if TYPE_CHECKING:
    from busbw.plots.chart import Chart
    from busbw.pricing.sweep import Sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the ranks, the limits, and where the picture goes."""
    parser.add_argument(
        "-N", "--world", type=int, default=2, metavar="N", help="ranks, started on this host (default 2)"
    )
    parser.add_argument(
        "--backend", choices=("gloo", "nccl"), default="gloo", help="of torch.distributed (default gloo)"
    )
    parser.add_argument("--caps", metavar="MB", help="limits in MiB, such as 1,5,25,100 (default: 1 to 500)")
    parser.add_argument("--layers", type=int, default=6, help="of the small GPT (default %(default)s)")
    parser.add_argument("--hidden", type=int, default=384, help="its width (default %(default)s)")
    parser.add_argument("--vocab", type=int, default=8192, help="its vocabulary (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=32, help="tokens of a step, on one rank (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="visits of every limit (default %(default)s)")
    parser.add_argument("--steps", type=int, default=6, help="timed steps a visit (default %(default)s)")
    parser.add_argument("--profile", metavar="FILE", help="predict from this, not from what the same ranks measure")
    parser.add_argument("-o", "--output", metavar="DIR", help="a folder for the picture, SVG and PNG, light and dark")
    parser.add_argument("--json", action="store_true", help="everything as JSON")


def run(args: argparse.Namespace) -> int:
    """Measure, predict, print, draw."""
    import importlib.util

    from busbw.pricing.profile import read_profile
    from busbw.pricing.sweep import CAPS_MB, SweepSettings, sweep

    if importlib.util.find_spec("torch") is None:
        raise MissingDependency("torch", "torch", "a DDP step")
    settings = SweepSettings(
        args.world,
        args.backend,
        args.layers,
        args.hidden,
        args.vocab,
        args.tokens,
        CAPS_MB if args.caps is None else _caps(args.caps),
        args.rounds,
        args.steps,
    )
    profile = None if args.profile is None else read_profile(args.profile)[:2]
    found = sweep(settings, profile, _progress())
    if args.json:
        json.dump(found.to_json(), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in text(found))
    if args.output:
        from busbw.cli.plot import draw_chart

        draw_chart(chart(found), args.output, "sweep_buckets")
    return 0


def text(found: Sweep) -> Iterator[str]:
    """The table, and what it says."""
    yield f"# DDP step of a GPT with {found.parameters / 1e6:.1f} M parameters (float32) on {found.world_size} ranks"
    yield f"# computation alone {format_time(found.compute_s)}; predicted from {found.profile}"
    yield f"# {'bucket_cap_mb':>13} {'buckets':>7} {'measured':>9} {'95 % of samples':>21} {'predicted':>9} {'ratio':>6}"
    for point in found.points:
        between = f"{format_time(point.low_s)} to {format_time(point.high_s)}"
        marks = []
        if point is found.best:
            marks.append("measured")
        if point is found.predicted_best:
            marks.append("predicted")
        mark = f"  <- best {' and '.join(marks)}" if marks else ""
        yield (
            f"  {point.bucket_cap_mb:>13g} {point.buckets:>7} {format_time(point.measured_s):>9} {between:>21} "
            f"{format_time(point.predicted_s):>9} {point.measured_s / point.predicted_s:>6.2f}{mark}"
        )
    lost = found.predicted_best.measured_s / found.best.measured_s - 1
    yield f"# the predicted best limit is {100 * lost:.1f} % slower than the best that was measured"
    yield from (f"# note: {note}" for note in found.notes)


def chart(found: Sweep) -> Chart:
    """Measured and predicted step over the limit."""
    from busbw.plots.chart import Axis, Chart, Panel, ReferenceLine, Series

    x = tuple(point.bucket_cap_mb * MIB for point in found.points)
    measured = Series(
        "measured",
        x,
        tuple(point.measured_s for point in found.points),
        "all_reduce",
        tuple(point.low_s for point in found.points),
        tuple(point.high_s for point in found.points),
    )
    predicted = Series("predicted", x, tuple(point.predicted_s for point in found.points), "all_gather", variant=1)
    panel = Panel(
        "",
        Axis("bucket_cap_mb", "size", "log2"),
        Axis("step", "time"),
        (measured, predicted),
        lines=(ReferenceLine(f"computation alone, {format_time(found.compute_s)}", found.compute_s),),
    )
    subtitle = (
        f"a GPT with {found.parameters / 1e6:.1f} M parameters, N = {found.world_size}; predicted from {found.profile}"
    )
    return Chart("A DDP step over the limit of its buckets", subtitle, (panel,), notes=found.notes)


def _caps(words: str) -> tuple[float, ...]:
    try:
        caps = tuple(sorted({float(word) for word in words.split(",")}))
    except ValueError:
        caps = (0.0,)
    if min(caps) <= 0:
        raise UsageError(f"--caps {words!r}: must be numbers of MiB above 0, such as 1,5,25,100")
    return caps


def _progress() -> Callable[[int, int], None]:
    """A bar on a terminal, where tqdm is there."""
    if not sys.stderr.isatty():
        return lambda done, total: None
    try:
        from tqdm import tqdm
    except ImportError:
        return lambda done, total: None
    bar = tqdm(unit="visit", leave=False)

    def show(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    return show
