"""`busbw simulate`: predict a collective on a machine, and say which wire it waits for."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from busbw.cli.sizes import asked_sizes
from busbw.errors import UsageError
from busbw.units import GIB, KIB, format_rate, format_size, format_time, parse_rate, parse_size, parse_time

if TYPE_CHECKING:
    from busbw.algorithms.spec import Spec
    from busbw.core.topology import Topology
    from busbw.sim.prediction import Prediction
    from busbw.sim.ranking import Ranking

MODELS = ("flows", "nccl")
LINKS_SHOWN = 8
FLOWS_SHOWN = 8
_AT_ONCE = ("direct", "centralised")
"""Algorithms in which a rank sends to all others in one round."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The machine, the call, the costs, the output."""
    what = parser.add_argument_group("what to predict")
    what.add_argument(
        "--topology",
        metavar="MACHINE",
        required=True,
        help="a preset ('dgx-h100', 'switch(gpus=512, bandwidth=50GiB/s)'), a file of any kind that `busbw topo` reads, or this",
    )
    what.add_argument("--op", default="all_reduce", help="the collective (default: %(default)s)")
    what.add_argument(
        "--algorithm",
        metavar="NAMES",
        help="ring(order=0-2-1-3), a list, a file, or all (default: as NCCL by and large)",
    )
    what.add_argument("-N", "--world", metavar="N", type=int, help="the first N ranks (default: all)")
    what.add_argument("-r", "--root", metavar="RANK", type=int, default=0, help="(default: 0)")
    what.add_argument("-b", "--min-bytes", metavar="SIZE", help="smallest size; 1K = 1 KiB as in nccl-tests")
    what.add_argument("-e", "--max-bytes", metavar="SIZE", help="largest size")
    what.add_argument("-f", "--factor", metavar="X", type=int, help="multiply the size by X from row to row")
    what.add_argument("-i", "--step", metavar="SIZE", help="add SIZE from row to row instead")
    what.add_argument("--sizes", help="a list instead (default: 1 KiB to 1 GiB, by factors of 16)")
    what.add_argument("-d", "--dtype", default="float32", help="element type (default: %(default)s)")
    how = parser.add_argument_group("how")
    how.add_argument("--exact", action="store_true", help="follow every message by its dependencies, without barriers")
    how.add_argument("--pieces", metavar="K", type=int, default=1, help="cut each message into K (with --exact)")
    how.add_argument(
        "--model", choices=MODELS, default="flows", help="flows on wires, or nccl: the estimate that NCCL itself makes"
    )
    cost = parser.add_argument_group("costs, in place of the machine's own")
    cost.add_argument("--launch", metavar="TIME", help="once a call")
    cost.add_argument("--message", metavar="TIME", help="once a message, beside the latency of its way")
    cost.add_argument("--reduce-rate", metavar="RATE", help="bytes a second that a rank adds up")
    cost.add_argument("--half-rate", metavar="SIZE", help="message at which a wire reaches half of its rate")
    out = parser.add_argument_group("output")
    out.add_argument("-o", "--output", metavar="DIR", help="folder for a picture: time and busbw over size")
    out.add_argument("--trace", metavar="FILE", help="timeline of the largest size, for Perfetto or chrome://tracing")
    out.add_argument("--json", action="store_true", help="rows as a JSON list, with the keys of bench's")
    out.add_argument("-q", "--quiet", action="store_true", help="rows only, without wires and what-ifs")


def run(args: argparse.Namespace) -> int:
    """Read the machine, predict, print."""
    from busbw.algorithms.spec import split_algorithms
    from busbw.core.collective import find_collective
    from busbw.core.dtype import find_dtype
    from busbw.topologies import read_topology

    op = find_collective(args.op).name
    dtype = find_dtype(args.dtype).name
    sizes = asked_sizes(args) or (KIB, 16 * KIB, 256 * KIB, 4096 * KIB, 65536 * KIB, GIB)
    machine = _with_costs(read_topology(args.topology), args)
    names = split_algorithms(args.algorithm or "")
    if args.model == "nccl":
        return _nccl(args, machine, op, sizes, dtype)
    if names == ["all"] or len(names) > 1:
        return _ranked(args, machine, op, sizes, dtype, None if names == ["all"] else names)
    return _one(args, machine, op, sizes, dtype, names[0] if names else None)


def _one(
    args: argparse.Namespace, machine: Topology, op: str, sizes: Sequence[int], dtype: str, name: str | None
) -> int:
    from busbw.algorithms.spec import parse_algorithm
    from busbw.sim import default_algorithm, simulate

    n = machine.world_size if args.world is None else args.world
    spec = parse_algorithm(name or default_algorithm(op, n, machine))
    found = simulate(
        spec,
        machine,
        sizes,
        op,
        world_size=args.world,
        root=args.root,
        dtype=dtype,
        exact=args.exact,
        pieces=args.pieces,
    )
    if args.json:
        _print_json(found)
    else:
        _say(_table(found))
        if not args.quiet:
            _say(_about(max(found, key=lambda each: each.call.size_bytes), spec))
    _extras(args, found)
    return 0


def _ranked(
    args: argparse.Namespace,
    machine: Topology,
    op: str,
    sizes: Sequence[int],
    dtype: str,
    names: Sequence[str] | None,
) -> int:
    from busbw.cli.progress import ProgressBar
    from busbw.sim.ranking import rank

    bar = ProgressBar(not args.quiet and not args.json)
    bar.begin("algorithms", list(names or _every_algorithm()))
    told = iter(range(10**6))
    try:
        ranking = rank(
            machine,
            sizes,
            op,
            specs=names,
            world_size=args.world,
            root=args.root,
            dtype=dtype,
            exact=args.exact,
            tell=lambda text: bar.at(next(told), text),
        )
    finally:
        bar.close()
    if args.json:
        _print_json(ranking.predictions)
    else:
        _say(_ranking_lines(ranking))
    _extras(args, ranking.predictions)
    return 0


def _every_algorithm() -> list[str]:
    from busbw.core.schedule import ALGORITHMS

    return list(ALGORITHMS.names())


def _nccl(args: argparse.Namespace, machine: Topology, op: str, sizes: Sequence[int], dtype: str) -> int:
    from busbw.sim.nccl_estimate import estimate

    rows = estimate(machine.with_ranks(args.world or machine.world_size), op, sizes, dtype)
    if args.json:
        json.dump([row.row() for row in rows], sys.stdout, indent=1)
        sys.stdout.write("\n")
        return 0
    from busbw.cli.table import Table

    table = Table()
    for row in rows:
        _say(table.lines(row))
        _say([f"#   NCCL's opinion: {row.labels['algorithm']} {row.labels['protocol']}"])
    _say(table.legend())
    return 0


def _with_costs(machine: Topology, args: argparse.Namespace) -> Topology:
    costs = machine.costs
    if args.launch is not None:
        costs = replace(costs, launch_s=parse_time(args.launch))
    if args.message is not None:
        costs = replace(costs, message_s=parse_time(args.message))
    if args.reduce_rate is not None:
        rate = parse_rate(args.reduce_rate)
        if not rate > 0:
            raise UsageError(f"--reduce-rate {args.reduce_rate}: must be above 0")
        costs = replace(costs, reduce_s_per_byte=1 / rate)
    if args.half_rate is not None:
        costs = replace(costs, half_rate_bytes=float(parse_size(args.half_rate)))
    return machine if costs is machine.costs else machine.changed(costs=costs)


def _extras(args: argparse.Namespace, found: Sequence[Prediction]) -> None:
    if args.trace is not None:
        from busbw.sim.trace import write_trace

        write_trace(max(found, key=lambda each: each.call.size_bytes), args.trace)
        sys.stderr.write(f"# timeline in {args.trace}: open it in ui.perfetto.dev\n")
    if args.output is not None:
        from busbw.cli.plot import draw_chart
        from busbw.plots.ways import ways_chart

        draw_chart(ways_chart([each.measurement for each in found]), args.output, "algorithms")


def _print_json(found: Sequence[Prediction]) -> None:
    json.dump([each.measurement.row() for each in found], sys.stdout, indent=1)
    sys.stdout.write("\n")


def _say(lines: Sequence[str] | Iterator[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _table(found: Sequence[Prediction]) -> Iterator[str]:
    from busbw.cli.table import Table

    first = found[0]
    yield f"# {first.topology.name}: {first.algorithm}, predicted (rung: {' and '.join(dict.fromkeys(p.rung for p in found))})"
    yield from (f"# note: {note}" for note in first.topology.notes)
    table = Table(color=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    for each in found:
        yield from table.lines(each.measurement)
    yield from table.legend()


def _about(last: Prediction, spec: Spec) -> Iterator[str]:
    """Where the time of the largest size goes, the wires, and what would change it."""
    from busbw.sim.what_ifs import what_ifs

    yield "#"
    yield f"# At {format_size(last.call.size_bytes)}: " + ", ".join(
        f"{name} {format_time(seconds)}" for name, seconds in last.times_s.items() if seconds > 0
    )
    binding = last.binding
    if binding is not None:
        alike = f", and {binding.alike - 1} more that are as full" if binding.alike > 1 else ""
        yield f"# Bound by {binding.name} ({format_rate(binding.capacity_Bps)}){alike}"
        yield f"#   flows on it: {_flows(binding.flows, binding.flow_count)}"
    use = last.utilisation(LINKS_SHOWN)
    if use:
        yield "# Busiest wires over the whole call:"
        width = max(len(each.name) for each in use)
        yield from (f"#   {each.name:<{width}}  {each.share:6.1%}  {_bytes(each.bytes)}" for each in use)
    changes = what_ifs(last, spec)
    if changes:
        yield "# What if:"
        yield from (f"#   {each.text}: {each.gain:+.0%} ({format_time(each.time_s)})" for each in changes)


def _flows(flows: Sequence[tuple[int, int]], count: int) -> str:
    if not count:
        return "all pairs across it"
    shown = ", ".join(f"{_rank(a)} -> {_rank(b)}" for a, b in flows[:FLOWS_SHOWN])
    return shown + (f" and {count - FLOWS_SHOWN} more" if count > FLOWS_SHOWN else "")


def _rank(rank: int) -> str:
    return "switch" if rank < 0 else str(rank)


def _bytes(amount: float) -> str:
    return format_size(round(amount))


def _ranking_lines(ranking: Ranking) -> Iterator[str]:
    first = ranking.predictions[0]
    call = first.call
    yield f"# {first.topology.name}: {call.collective} N={call.world_size}, predicted; the fastest first"
    for size in ranking.sizes():
        yield f"# {format_size(size)}"
        best = ranking.at(size)[0].time_s
        for each in ranking.at(size):
            busbw = each.measurement.busbw_GBps
            rate = "" if busbw is None else f"busbw {busbw:8.2f} GB/s"
            yield f"  {each.algorithm:<28} {format_time(each.time_s):>9}  x{each.time_s / best:<7.3g} {rate}  ({each.rung})"
    yield "# Crossovers:"
    if not ranking.crossovers:
        yield f"#   none: {ranking.at(ranking.sizes()[0])[0].algorithm} is the fastest at every size"
    for cross in ranking.crossovers:
        yield f"#   from about {format_size(cross.size_bytes)}: {cross.after} instead of {cross.before}"
    if any(ranking.at(size)[0].algorithm in _AT_ONCE for size in ranking.sizes()):
        yield (
            "# note: messages that a rank sends at once pay their latencies at once here; where a sender is busy with each, "
            f"{' and '.join(_AT_ONCE)} are slower on many ranks"
        )
    yield from (f"# left out: {reason}" for reason in ranking.left_out)
