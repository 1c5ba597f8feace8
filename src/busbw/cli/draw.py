"""`busbw draw`: schematics of the primitives, of a schedule step by step, of a machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.errors import FileError, UsageError

if TYPE_CHECKING:
    from busbw.core.schedule import Schedule
    from busbw.core.topology import Topology
    from busbw.draw.loads import Usage
    from busbw.draw.scene import Scene

FORMATS = ("svg", "png", "html")
THEMES = ("light", "dark", "both")
LEAST_WIDTH, MOST_WIDTH = 320, 4000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to draw, each with options of its own, and where to."""
    whats = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    primitives = whats.add_parser("primitives", help="what each collective does: before, after, bytes sent, bus factor")
    primitives.add_argument("--op", metavar="OPS", help="these collectives (default: the six, reduce and all_to_all)")
    primitives.add_argument("-N", "--world", type=int, default=4, metavar="N", help="ranks, 2 to 8 (default 4)")
    schedule = whats.add_parser("schedule", help="an algorithm step by step; as .html it plays")
    schedule.add_argument(
        "algorithm",
        metavar="ALGO",
        help="such as ring, tree, nvls, or with options: ring(order=0-2-1-3); `list` prints all",
    )
    schedule.add_argument("-N", "--world", type=int, default=4, metavar="N", help="ranks, 2 to 16 (default 4)")
    schedule.add_argument("--op", default="all_reduce", help="collective (default %(default)s)")
    schedule.add_argument("--root", type=int, default=0, help="of a rooted collective (default 0)")
    schedule.add_argument(
        "--layout", choices=("ring", "rows"), help="of a still picture (default: ring where it is one)"
    )
    schedule.add_argument(
        "--steps", type=int, metavar="K", help="only the first K steps of a still picture (default 16)"
    )
    topology = whats.add_parser("topology", help="a machine: GPUs, switches, sockets, NICs, links and what limits them")
    topology.add_argument(
        "spec", metavar="SPEC", help="a preset such as pcie-8gpu, dgx-h100, cluster(hosts=4), a file, or `this`"
    )
    topology.add_argument("--op", help="count the flows of this collective: how busy each link is, the busiest in red")
    topology.add_argument(
        "--algorithm", default="ring", metavar="ALGO", help="that carries it out (default %(default)s)"
    )
    topology.add_argument("-N", "--world", type=int, metavar="N", help="ranks that take part (default: all GPUs)")
    topology.add_argument(
        "--busbw", metavar="RATE", help="measured: what each link carries at this busbw, such as 17.8GB/s"
    )
    topology.add_argument(
        "--results",
        metavar="FILE",
        help="measured: the busbw of the largest size of --op and -N in results of any format",
    )
    topology.add_argument(
        "--simulate", metavar="SIZE", help="simulated: how busy each link is in a call of this size, such as 1GiB"
    )
    for sub in (primitives, schedule, topology):
        sub.add_argument(
            "-o", "--output", metavar="FILE",
            help="FILE.svg or FILE.png (FILE.html for a schedule); - is SVG to standard output",
        )  # fmt: skip
        sub.add_argument(
            "--theme", choices=THEMES, help="both: also FILE.dark.svg (default: light; HTML follows the reader's)"
        )
        sub.add_argument("--width", type=int, metavar="PIXELS", help="of the picture (default: as wide as it needs)")


def run(args: argparse.Namespace) -> int:
    """Draw and write; the path of each picture is a line on standard output."""
    if args.width is not None and not LEAST_WIDTH <= args.width <= MOST_WIDTH:
        raise UsageError(f"--width {args.width}: must be a number of pixels from {LEAST_WIDTH} to {MOST_WIDTH}")
    if args.what == "schedule" and args.algorithm == "list":
        return _list_algorithms()
    if args.output is None:
        raise UsageError("say where to: -o FILE.svg, FILE.png, FILE.html (a schedule only), or - for standard output")
    ending = "svg" if args.output == "-" else Path(args.output).suffix.lower().lstrip(".")
    if ending not in FORMATS:
        raise UsageError(f"-o {args.output}: the file's name must end in .svg, .png or .html (a schedule only)")
    if ending == "html":
        return _animate(args)
    scene = {"primitives": _primitives, "schedule": _schedule, "topology": _topology}[args.what](args)
    _save(scene, args, ending)
    return 0


def _primitives(args: argparse.Namespace) -> Scene:
    from busbw.cli.selection import asked_ops
    from busbw.draw.primitives import DEFAULT_WIDTH, SHOWN, draw_primitives

    return draw_primitives(asked_ops(args.op) or SHOWN, args.world, args.width or DEFAULT_WIDTH)


def _schedule(args: argparse.Namespace) -> Scene:
    from busbw.draw.schedule import DEFAULT_WIDTH, draw_schedule

    if args.steps is not None and args.steps < 1:
        raise UsageError(f"--steps {args.steps}: must be 1 or more")
    return draw_schedule(_build(args), args.layout, args.width or DEFAULT_WIDTH, args.steps)


def _build(args: argparse.Namespace) -> Schedule:
    from busbw.algorithms.spec import parse_algorithm
    from busbw.core.collective import find_collective

    spec = parse_algorithm(args.algorithm)
    return spec.build(find_collective(args.op).name, args.world, root=args.root)


def _animate(args: argparse.Namespace) -> int:
    if args.what != "schedule":
        raise UsageError(f"-o {args.output}: only a schedule is drawn as HTML; use .svg or .png")
    from busbw.draw.animation import schedule_page

    theme = args.theme if args.theme in ("light", "dark") else "auto"
    _write(Path(args.output), schedule_page(_build(args), theme=theme).encode())
    return 0


def _topology(args: argparse.Namespace) -> Scene:
    from busbw.draw.machine import draw_topology
    from busbw.topologies import read_topology

    given = {"--busbw": args.busbw, "--results": args.results, "--simulate": args.simulate}
    sources = [option for option, value in given.items() if value is not None]
    for option in (*sources, *(("-N",) if args.world is not None else ())):
        if args.op is None:
            raise UsageError(f"{option} needs --op: which collective runs on the machine")
    if len(sources) > 1:
        raise UsageError(f"{' and '.join(sources)}: the numbers at the links come from one of them")
    topology = read_topology(args.spec)
    return draw_topology(topology, None if args.op is None else _usage(args, topology))


def _usage(args: argparse.Namespace, topology: Topology) -> Usage:
    from busbw.algorithms.spec import parse_algorithm
    from busbw.core.collective import find_collective
    from busbw.draw.loads import at_rate, count_flows, simulated
    from busbw.units import format_size, parse_rate, parse_size

    collective = find_collective(args.op).name
    world_size = topology.world_size if args.world is None else args.world
    if not 2 <= world_size <= topology.world_size:
        raise UsageError(
            f"-N {world_size}: {topology.name} has {topology.world_size} GPUs; 2 or more of them take part"
        )
    schedule = parse_algorithm(args.algorithm).build(collective, world_size)
    if args.simulate is not None:
        from busbw.sim import simulate

        size_bytes = parse_size(args.simulate)
        (prediction,) = simulate(args.algorithm, topology, [size_bytes], collective, world_size=world_size)
        words = f"{args.algorithm} {collective} of {format_size(size_bytes)} on {world_size} ranks"
        return simulated(prediction, words)
    if args.busbw is None and args.results is None:
        return count_flows(schedule, topology)
    rate_Bps = (  # noqa: N806 - the unit's own capitals
        _measured(args.results, collective, world_size) if args.results else parse_rate(args.busbw)
    )
    if not rate_Bps > 0:
        raise UsageError(f"--busbw {args.busbw!r}: must be above zero, such as 17.8GB/s")
    return at_rate(schedule, topology, rate_Bps)


def _measured(file: str, collective: str, world_size: int) -> float:
    """The busbw of the largest size in the file, in bytes a second."""
    from busbw.formats import read_results

    rows = [row for row in read_results(file).measurements if row.call.collective == collective]
    chosen = [row for row in rows if row.call.world_size == world_size]
    if not chosen:
        sizes = sorted({row.call.world_size for row in rows})
        there = f"it has {collective} at N = {', '.join(map(str, sizes))}" if rows else f"it has no {collective}"
        raise UsageError(f"--results {file}: no row of {collective} at N = {world_size}; {there}")
    row = max(chosen, key=lambda row: row.call.size_bytes)
    rate = row.call.busbw_Bps(row.time_s)
    if rate is None:
        raise UsageError(f"--results {file}: its row of {collective} at N = {world_size} has no busbw")
    return rate


def _list_algorithms() -> int:
    from busbw.core.schedule import ALGORITHMS

    for algorithm in ALGORITHMS:
        sys.stdout.write(f"{algorithm.name:28}{', '.join(sorted(algorithm.builders))}\n")
    return 0


def _save(scene: Scene, args: argparse.Namespace, ending: str) -> None:
    from busbw.draw.render_svg import svg_to_png, to_svg

    themes = ("light", "dark") if args.theme == "both" else (args.theme or "light",)
    if args.output == "-":
        if len(themes) > 1:
            raise UsageError("--theme both: standard output takes one picture; name a file with -o")
        svg = to_svg(scene, themes[0], args.width)
        # Like a file, in UTF-8 whatever the terminal's encoding; numeric references say the same where it has no bytes.
        sys.stdout.write(
            svg.encode(sys.stdout.encoding or "utf-8", "xmlcharrefreplace").decode(sys.stdout.encoding or "utf-8")
        )
        return
    path = Path(args.output)
    for theme in themes:
        place = path.with_suffix(f".dark{path.suffix}") if theme == "dark" and args.theme == "both" else path
        svg = to_svg(scene, theme, args.width)
        _write(place, svg.encode() if ending == "svg" else svg_to_png(svg))


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}") from error
    sys.stdout.write(f"{path}\n")
