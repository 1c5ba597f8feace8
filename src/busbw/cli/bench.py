"""`busbw bench`: measure collectives; words as in nccl-tests."""

from __future__ import annotations

import argparse
import dataclasses

from busbw.bench import joined
from busbw.bench.launchers import find_placement
from busbw.bench.run import (
    auto_worlds,
    parse_sweep,
    plan_launches,
    resolve_backend,
    run_launches,
)
from busbw.bench.settings import OWN, POST_SIZES, RankTime, Settings
from busbw.bench.work import check_ranks
from busbw.cli.bench_output import Output
from busbw.cli.sizes import asked_sizes, range_options
from busbw.core.collective import COLLECTIVES, PRIMITIVES, find_collective
from busbw.core.dtype import find_dtype
from busbw.errors import BusbwError, UsageError
from busbw.units import MIB, parse_time

BACKENDS = ("auto", "nccl", "gloo", "xccl", "hccl", "ucc", "mpi", "fake")
REDOPS = ("sum", "prod", "min", "max", "avg")
_MOST_ON_GLOO = 64 * MIB


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options, grouped as they are thought of."""
    what = parser.add_argument_group("what to run")
    what.add_argument("--op", default=",".join(PRIMITIVES), help="collectives, or all (default: %(default)s)")
    what.add_argument(
        "--algorithm",
        metavar="LIST",
        default=OWN,
        help="carry collectives out by schedules of point-to-point calls: ring, tree, 'ring(order=0-2-1-3)', "
        "FILE.py:NAME, FILE.xml, a list, or all; own: the backend's own (default)",
    )
    what.add_argument("-b", "--min-bytes", metavar="SIZE", help="smallest size; 1K = 1 KiB as in nccl-tests")
    what.add_argument("-e", "--max-bytes", metavar="SIZE", help="largest size")
    what.add_argument(
        "-f", "--factor", metavar="X", type=int, help="multiply the size by X from row to row (default: 2)"
    )
    what.add_argument("-i", "--step", metavar="SIZE", help="add SIZE from row to row instead")
    what.add_argument("--sizes", help="a list instead: 4KiB,64KiB,1MiB (default: 8 B and the post's six sizes)")
    what.add_argument("-d", "--dtype", help="element types (default: float32; bfloat16 with --method post)")
    what.add_argument(
        "--redop", help=f"reductions: {', '.join(REDOPS)}, or all (default: sum); also -o, as in nccl-tests"
    )
    what.add_argument("-r", "--root", default="0", help="root rank, a list, or all (default: %(default)s)")
    place = what.add_mutually_exclusive_group()
    place.add_argument("--in-place", dest="placement", action="store_const", const="in-place", default="auto")
    place.add_argument("--out-of-place", dest="placement", action="store_const", const="out-of-place")
    place.add_argument(
        "--both", dest="placement", action="store_const", const="both", help="out of place, then in place"
    )
    what.add_argument("--split", metavar="HOW", help="groups that run at the same time: 'mod 2', 'div 4', 0-3,4-7")
    what.add_argument("--rotate-buffers", action="store_true", help="a fresh buffer for each call, as nccl-tests")
    what.add_argument("-G", "--cuda-graph", metavar="N", type=int, default=0, help="N calls as one CUDA graph")
    what.add_argument("-m", "--agg-iters", metavar="N", type=int, default=1, help="N calls per group launch (NCCL)")
    what.add_argument("-R", "--local-register", type=int, choices=(0, 1), default=0, help="register buffers (NCCL)")
    what.add_argument("--sweep", metavar="VARS", help="NCCL_ALGO=Ring,Tree,NCCL_PROTO=LL,Simple: all combinations")

    where = parser.add_argument_group("where")
    where.add_argument("--backend", default="auto", choices=BACKENDS, help="(default: what suits the devices)")
    where.add_argument("--world", default="auto", help="world sizes, such as 2,4,8, or auto (default)")
    where.add_argument("--repeats", metavar="K", type=int, default=1, help="launch everything K times (default: 1)")
    where.add_argument(
        "--sched", default="default", choices=("default", "batch", "fifo"), help="scheduling policy of the ranks"
    )
    where.add_argument(
        "--loop", default="auto", choices=("auto", "python", "compiled"), help="mpi: who loops over the calls"
    )
    where.add_argument("--fake", metavar="OPTIONS", default="", help="the fake backend's machine, noise and faults")
    where.add_argument(
        "--init-timeout", metavar="TIME", default="120s", help="for all ranks to arrive (default: %(default)s)"
    )
    where.add_argument(
        "--timeout", metavar="TIME", help="without progress in a call (default: 30 s + bytes at 10 MB/s)"
    )

    how = parser.add_argument_group("how to time")
    how.add_argument(
        "--mode",
        default="pipelined",
        choices=("pipelined", "isolated"),
        help="calls back to back, or one after a barrier",
    )
    how.add_argument(
        "--with-compute",
        metavar="N",
        nargs="?",
        type=int,
        const=-1,
        default=0,
        help="each row again beside products of N x N matrices: how much each slows the other (default N: 512; 4096 on GPUs)",
    )
    how.add_argument("-n", "--iters", metavar="N", type=int, help="timed calls (default: until the interval is narrow)")
    how.add_argument("-w", "--warmup", metavar="N", type=int, help="untimed calls before (default: until steady)")
    how.add_argument(
        "-c", "--check", metavar="N", type=int, help="checked calls per row; 0: none (default: 2; 0 with --method post)"
    )
    how.add_argument(
        "--precision", metavar="SHARE", type=float, help="95 %% interval to reach (default: 0.02 on GPUs, 0.05 on CPUs)"
    )
    how.add_argument("--time-budget", metavar="TIME", help="for the whole run; rows share it")
    how.add_argument("--row-budget", metavar="TIME", default="3s", help="for one row (default: %(default)s)")
    how.add_argument(
        "--rank-time", default="slowest", choices=("slowest", "avg", "min", "rank0"), help="whose time a row is"
    )
    how.add_argument(
        "-a",
        "--average",
        type=int,
        choices=(0, 1, 2, 3),
        help="nccl-tests' word for --rank-time: 0 rank0, 1 avg, 2 min, 3 slowest",
    )
    how.add_argument(
        "--method", default="busbw", choices=("busbw", "post"), help="post: time as the post did, and print its lines"
    )

    out = parser.add_argument_group("output")
    out.add_argument(
        "-o", "--output", metavar="FILE", action="append", help="results file (JSON lines), written row by row"
    )
    out.add_argument("--resume", action="store_true", help="go on with the results file where it stopped")
    out.add_argument("--overwrite", action="store_true", help="replace the results file")
    out.add_argument("--csv", metavar="FILE", help="the post's six columns")
    out.add_argument("--report", metavar="PAGE", help="one HTML page about the rows, written at the end (busbw report)")
    out.add_argument("--json", action="store_true", help="rows as a JSON list on standard output")
    out.add_argument("-q", "--quiet", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    settings = settings_of(args)
    sweep = parse_sweep(args.sweep)
    if args.repeats < 1:
        raise UsageError(f"--repeats {args.repeats}: must be at least 1")
    role = joined.role()
    placement = None if role is not None else find_placement()
    settings = _resolve(settings)
    if placement is not None:
        _refuse_under_a_launcher(args, placement.launcher)
        return joined.run_rank(settings, placement, args.words)
    worlds = [role.world_size] if role is not None else _worlds(args.world, settings.backend)
    try:
        for world in worlds:
            check_ranks(settings, world)
        output = Output(args, settings, worlds, sweep)
    except BusbwError as error:
        if role is not None:
            joined.refuse(settings, role, error)
        raise
    try:
        if role is not None:
            status = joined.supervise(settings, role, output)
        else:
            status = run_launches(settings, plan_launches(worlds, args.repeats, sweep), [output], output.done())
    except BusbwError as error:
        output.failed(error)
        raise
    output.finish()
    return status


def settings_of(args: argparse.Namespace) -> Settings:
    """The command line as Settings; UsageError names the value, the rule and the choices."""
    is_post = args.method == "post"
    redops, args.output = _redops_and_output(args.redop, args.output or [])
    names = list(COLLECTIVES.names()) if args.op == "all" else _list(args.op)
    collectives = tuple(dict.fromkeys(find_collective(name).name for name in names))
    sizes, by_default = _sizes(args)
    algorithms = _algorithms(args.algorithm)
    for name in ("iters", "warmup", "check", "cuda_graph", "agg_iters"):
        value = getattr(args, name)
        least = 1 if name in ("iters", "agg_iters") else 0
        if value is not None and value < least:
            raise UsageError(f"--{name.replace('_', '-')} {value}: must be at least {least}")
    if args.with_compute != -1 and not 0 <= args.with_compute <= 65536:
        raise UsageError(f"--with-compute {args.with_compute}: the side of the matrices must be from 1 to 65536")
    if args.precision is not None and not 0 < args.precision < 1:
        raise UsageError(f"--precision {args.precision}: must be a share between 0 and 1, such as 0.02 for 2 %")
    for name in ("op", "algorithm", "dtype", "redop"):
        value = getattr(args, name)
        if value is not None and not _list(value):
            raise UsageError(f"--{name} {value!r}: names nothing; leave it away, or name one or more")
    settings = Settings(
        backend=args.backend,
        collectives=collectives,
        sizes=sizes,
        dtypes=tuple(
            dict.fromkeys(find_dtype(name).name for name in _list(args.dtype or ("bfloat16" if is_post else "float32")))
        ),
        redops=tuple(dict.fromkeys(redops)),
        roots=_roots(args.root),
        algorithms=algorithms,
        placement=args.placement,
        mode=args.mode,
        method=args.method,
        iters=args.iters,
        warmup=args.warmup,
        check=args.check if args.check is not None else (0 if is_post else 2),
        precision=args.precision,
        row_budget_s=_positive("--row-budget", args.row_budget),
        time_budget_s=None if args.time_budget is None else _positive("--time-budget", args.time_budget),
        rank_time="rank0" if is_post else _rank_time(args),
        sched=args.sched,
        rotate_buffers=args.rotate_buffers,
        cuda_graph=args.cuda_graph,
        aggregate=args.agg_iters,
        register=bool(args.local_register),
        with_compute=args.with_compute,
        split=args.split,
        init_timeout_s=_positive("--init-timeout", args.init_timeout),
        timeout_s=None if args.timeout is None else _positive("--timeout", args.timeout),
        loop=args.loop,
        fake=args.fake,
        max_bytes_by_default=by_default,
    )
    if settings.backend == "fake":
        from busbw.bench.backends.fake import FakeOptions

        FakeOptions.parse(settings.fake)
    elif settings.fake:
        raise UsageError(f"--fake {settings.fake!r} means something with --backend fake only")
    return settings


def _redops_and_output(redop: str | None, outputs: list[str]) -> tuple[list[str], str | None]:
    """Part `-o`: nccl-tests' -o is the reduction (a name, a list of names, or all); anything else is the results file."""
    redops, files = [] if redop is None else _list(redop), []
    for text in outputs:
        parts = _list(text.lower())
        if parts and all(part in (*REDOPS, "all") for part in parts):
            redops += parts
        elif len(parts) > 1 and set(parts) & {*REDOPS, "all"}:
            wrong = next(part for part in parts if part not in (*REDOPS, "all"))
            raise UsageError(f"-o {text}: {wrong!r} is no reduction: choose from {', '.join(REDOPS)}, or all")
        else:
            files.append(text)
    if len(files) > 1:
        raise UsageError(f"-o {files[0]} -o {files[1]}: one results file only")
    if "all" in redops:
        redops = list(REDOPS)
    for name in redops:
        if name not in REDOPS:
            raise UsageError(f"--redop {name!r}: choose from {', '.join(REDOPS)}, or all")
    return redops or ["sum"], files[0] if files else None


def _resolve(settings: Settings) -> Settings:
    """Choose the backend, and cut the default sizes where it is slow."""
    backend = resolve_backend(settings.backend)
    for option, asked in (
        ("-m", settings.aggregate > 1),
        ("-R", settings.register),
        ("--cuda-graph", settings.cuda_graph > 0),
    ):
        if asked and backend != "nccl":
            raise UsageError(f"{option} means something with --backend nccl only, and this run uses {backend}")
    if settings.loop != "auto" and backend != "mpi":
        raise UsageError(f"--loop {settings.loop} means something with --backend mpi only, and this run uses {backend}")
    if settings.with_compute < 0:
        settings = dataclasses.replace(settings, with_compute=4096 if backend == "nccl" else 512)
    sizes = settings.sizes
    if settings.max_bytes_by_default and backend in ("gloo", "mpi", "fake"):
        sizes = tuple(dict.fromkeys(min(size, _MOST_ON_GLOO) for size in sizes))
    return dataclasses.replace(settings, backend=backend, sizes=sizes)


def _algorithms(text: str) -> tuple[str, ...]:
    """The ways to run, checked: UsageError or FileError before any rank is started."""
    if text == OWN:
        return (OWN,)
    from busbw.algorithms.spec import parse_algorithm, split_algorithms
    from busbw.core.schedule import ALGORITHMS

    names = [OWN, *ALGORITHMS.names()] if text == "all" else split_algorithms(text)
    for name in names:
        if name != OWN:
            parse_algorithm(name)
    return tuple(dict.fromkeys(names))


def _rank_time(args: argparse.Namespace) -> RankTime:
    names: tuple[RankTime, ...] = ("rank0", "avg", "min", "slowest")
    chosen: RankTime = args.rank_time if args.average is None else names[args.average]
    return chosen


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _positive(option: str, text: str) -> float:
    value = parse_time(text)
    if value <= 0:
        raise UsageError(f"{option} {text}: must be longer than 0")
    return value


def _roots(text: str) -> tuple[int, ...] | None:
    if text == "all" or text == "-1":
        return None
    try:
        roots = tuple(int(part) for part in _list(text))
    except ValueError:
        roots = ()
    if not roots or min(roots) < 0:
        raise UsageError(f"--root {text!r}: must be a rank, a list of ranks, or all")
    return roots


def _sizes(args: argparse.Namespace) -> tuple[tuple[int, ...], bool]:
    if args.method == "post" and args.sizes is None:
        return POST_SIZES, not range_options(args)
    asked = asked_sizes(args)
    return ((8, *POST_SIZES), True) if asked is None else (asked, False)


def _worlds(text: str, backend: str) -> list[int]:
    if text == "auto":
        return auto_worlds(backend)
    try:
        worlds = [int(part) for part in _list(text)]
    except ValueError:
        worlds = []
    if not worlds or min(worlds) < 1:
        raise UsageError(f"--world {text!r}: must be one or more numbers of ranks, such as 2,4,8, or auto")
    return list(dict.fromkeys(worlds))


def _refuse_under_a_launcher(args: argparse.Namespace, launcher: str) -> None:
    for option, asked in (("--world", args.world != "auto"), ("--repeats", args.repeats != 1), ("--sweep", args.sweep)):
        if asked:
            raise UsageError(
                f"{option} starts ranks, and here {launcher} has started them: give {launcher} the number, or run busbw bench by itself"
            )
