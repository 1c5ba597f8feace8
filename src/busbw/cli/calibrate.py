"""`busbw calibrate`: the few speeds and costs of a machine that reproduce its measured rows."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from busbw.errors import UsageError
from busbw.units import format_size

if TYPE_CHECKING:
    from busbw.sim.calibrating import Calibration, RivalFit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The machine's shape, the results, where to write it."""
    parser.add_argument("topology", metavar="TOPOLOGY", help="the machine's shape: a preset, a file, or this")
    parser.add_argument("results", metavar="RESULTS", nargs="+", help="results of any format that we read")
    parser.add_argument("-o", "--output", metavar="FILE", help="the calibrated machine as TOML, for --topology")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE")
    parser.add_argument(
        "--rivals", metavar="NAMES", help="only these descriptions (default: all that the machine allows)"
    )
    parser.add_argument("--choose", metavar="NAME", help="write this description instead of the best")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="every plateau, and the parameters of every description"
    )


def run(args: argparse.Namespace) -> int:
    """Read, fit, print, write."""
    from pathlib import Path

    from busbw.cli.progress import ProgressBar
    from busbw.formats import read_results
    from busbw.sim.calibrating import calibrate
    from busbw.topologies import read_topology
    from busbw.topologies.writing import write_topology

    if args.output is not None and Path(args.output).exists() and not args.overwrite:
        raise UsageError(f"-o {args.output} exists: add --overwrite, or name another file")
    machine = read_topology(args.topology)
    results = [read_results(path) for path in args.results]
    bar = ProgressBar(not args.json)
    names = None if args.rivals is None else [name.strip() for name in args.rivals.split(",") if name.strip()]
    labels = [*(names or ["description"] * 8), "left out by turns"]
    bar.begin("calibrate", labels)
    told = iter(range(len(labels)))
    try:
        found = calibrate(machine, results, rivals=names, tell=lambda name: bar.at(next(told, len(labels) - 1), name))
    finally:
        bar.close()
    chosen = _chosen(found, args.choose)
    if args.output is not None:
        write_topology(chosen.machine, args.output)
    if args.json:
        json.dump(found.to_json(), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in report(found, args.verbose))
        if args.output is not None:
            sys.stdout.write(
                f"# {args.output}: the machine as {chosen.rival.name}; busbw simulate --topology {args.output}\n"
            )
    return 0


def _chosen(found: Calibration, name: str | None) -> RivalFit:
    if name is None:
        return found.best
    for each in found.rivals:
        if each.rival.name == name:
            return each
    raise UsageError(f"--choose {name}: choose from {', '.join(each.rival.name for each in found.rivals)}")


def report(found: Calibration, verbose: bool = False) -> Iterator[str]:
    """What a calibration says, in lines."""
    best = found.best
    yield f"# {found.rows} rows; {len(best.plateau_errors)} plateaus of rows from {format_size(found.plateau_bytes)} up"
    yield f"# best: {best.rival.name}: {best.rival.text}"
    yield from (f"#   {parameter.name}: {parameter.text}" for parameter in best.parameters)
    if found.reducing is not None:
        yield f"#   beside these, adding a byte costs: {_reducing(found)}"
    yield f"#   its plateaus: median error {best.median_error:.1%}, largest {best.largest_error:.1%}"
    for kind, words in (("op", "each op left out by turns"), ("N", "each N left out by turns")):
        error = found.left_out_error(kind)
        if error is not None:
            parts = ", ".join(f"{each.what} {each.median_error:.1%}" for each in found.left_out if each.kind == kind)
            yield f"#   {words}: median error {error:.1%} ({parts})"
    if verbose:
        yield from _plateaus(best)
    yield "# descriptions side by side:"
    width = max(len(each.rival.name) for each in found.rivals)
    yield f"#   {'':<{width}}  {'verdict':<8} {'params':>6} {'median':>7} {'largest':>8}"
    for each in found.rivals:
        yield (
            f"    {each.rival.name:<{width}}  {each.verdict:<8} {len(each.parameters):>6} {each.median_error:>7.1%} "
            f"{each.largest_error:>8.1%}  {each.reason}"
        )
        if verbose:
            yield f"      {each.rival.text}"
            yield from (f"        {parameter.name}: {parameter.text}" for parameter in each.parameters)
    yield from (f"# note: {note}" for note in found.notes)


def _reducing(found: Calibration) -> str:
    reducing = found.reducing
    assert reducing is not None
    if reducing.identified == "at most":
        return f"nothing that these rows tell ({reducing.high:.3g} {reducing.unit} at most)"
    return reducing.text


def _plateaus(best: RivalFit) -> Iterator[str]:
    yield "#   plateau, predicted against measured rate:"
    for (op, n), error in best.plateau_errors.items():
        yield f"      {op:<16} N={n:<4} {error:+6.1%}"
