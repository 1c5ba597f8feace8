"""`busbw compare A B`: what changed between two runs, and is it real? Exit status 1 when B is slower."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from busbw.cli.table import number
from busbw.comparing import Comparison, compare
from busbw.comparing.comparison import CANNOT_TELL, CurveComparison, RowComparison, change_text
from busbw.comparing.launches import ASSUMED, MODERATED, PERMUTATION
from busbw.core.measurement import Results
from busbw.errors import UsageError, printable
from busbw.formats import read_results
from busbw.units import GB, format_size

_METHODS = {
    PERMUTATION: "launches permuted; a false alarm anywhere has a probability of 3 %",
    MODERATED: "few launches: moderated t-tests and an assumed spread",
    ASSUMED: "too few launches for a test: an assumed spread",
}
_COLUMNS = f"# {'size':>12} {'time A':>10} {'time B':>10} {'busbw A':>8} {'busbw B':>8} {'B/A':>7} {'95 % interval':>15} {'reach':>8}  verdict"
_UNITS = f"# {'':>12} {'(us)':>10} {'(us)':>10} {'(GB/s)':>8} {'(GB/s)':>8} {'(time)':>7}"
_MOST_LISTED = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Two sides, what counts as a change, and how to print it."""
    parser.add_argument("a", metavar="A", help="results before: a file, or several that are pooled: a1.jsonl,a2.jsonl")
    parser.add_argument("b", metavar="B", help="results after; - is standard input")
    add_options(parser)
    parser.add_argument("--json", action="store_true", help="the comparison as JSON (keys: docs/comparing.md)")


def add_options(parser: argparse.ArgumentParser) -> None:
    """What `busbw check --baseline` has too."""
    parser.add_argument(
        "--min-change", metavar="SHARE", default="1%", help="changes below this do not count (default: %(default)s)"
    )
    parser.add_argument(
        "--resolution",
        metavar="SHARE",
        default="5%",
        help="a row is the same when it is surely within this (default: %(default)s)",
    )
    parser.add_argument(
        "--across",
        metavar="LABEL",
        action="append",
        default=[],
        help="compare rows even where this label differs, such as sched, mode or NCCL_ALGO; may be repeated",
    )
    parser.add_argument(
        "--spread", metavar="SHARE", help="what launches here differ by, where too few were taken to see it"
    )
    parser.add_argument("--fail-on-unknown", action="store_true", help="fail also when a row's change cannot be told")


def run(args: argparse.Namespace) -> int:
    """Compare, print, and say by the exit status whether something is slower."""
    a, b = read_side(args.a), read_side(args.b)
    comparison = compare(
        a,
        b,
        min_change=share("--min-change", args.min_change),
        resolution=share("--resolution", args.resolution),
        across=args.across,
        spread=None if args.spread is None else share("--spread", args.spread),
    )
    if args.json:
        json.dump(comparison.to_json(), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines(comparison, args.a, args.b))
    status = comparison.exit_status(args.fail_on_unknown)
    if comparison.verdict == CANNOT_TELL and status == 0:
        sys.stderr.write(
            "busbw compare: warning: it cannot be told whether anything changed; exit status 0 says nothing "
            "(--fail-on-unknown makes it 1)\n"
        )
    return status


def read_side(text: str) -> list[Results]:
    """The files of one side: one name, or several with commas between them."""
    names = [text] if text == "-" or Path(text).exists() else [name for name in text.split(",") if name]
    places = [os.path.realpath(name) for name in names]
    twice = next((name for name, place in zip(names, places, strict=True) if places.count(place) > 1), None)
    if twice is not None:
        raise UsageError(f"{text}: {twice} is named twice on one side, which would count it as launches that agree")
    return [read_results(name) for name in names or [text]]


def share(option: str, text: str) -> float:
    """A share written as `5%` or `0.05`."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 10:
        raise UsageError(f"{option} {text!r}: must be a share such as 5% or 0.05")
    return value


def lines(comparison: Comparison, name_a: str, name_b: str) -> Iterator[str]:
    """The comparison as a table for each curve, and the verdict as its last line."""
    name_a, name_b = printable(name_a), printable(name_b)
    yield f"# A: {name_a} ({_launches(comparison.launches_a)})  B: {name_b} ({_launches(comparison.launches_b)})"
    yield f"# {_METHODS[comparison.method]}"
    yield "# B/A: ratio of times, above 1 is slower; reach: a smaller change would not have been called real"
    together = {curve.name: curve for curve in comparison.curves}
    head = ""
    for row in sorted(comparison.rows, key=lambda row: _first(comparison, row)):
        name = row.work.curve_text()
        if name != head:
            if head in together:
                yield _together(together.pop(head))
            yield from ("#", f"# {name}", _COLUMNS, _UNITS)
            head = name
        yield _row(row)
    if head in together:
        yield _together(together.pop(head))
    for curve in together.values():
        yield from ("#", _together(curve))
    yield from _listed(
        "only in", [f"{item.side}: {item.work.text()} ({_launches(item.launches)})" for item in comparison.unmatched]
    )
    yield from _listed("not compared:", [f"{item.work.text()}: {item.reason}" for item in comparison.refused])
    yield from (f"# note: {note}" for note in comparison.notes)
    yield comparison.sentence()


def _first(comparison: Comparison, row: RowComparison) -> tuple[int, int]:
    """Curves in the order of their first rows, sizes rising."""
    names = list(dict.fromkeys(other.work.curve_text() for other in comparison.rows))
    return names.index(row.work.curve_text()), row.call.size_bytes


def _row(row: RowComparison) -> str:
    rates = [row.call.busbw_Bps(time_s) for time_s in (row.time_a_s, row.time_b_s)]
    busbw = [f"{'n/a' if rate is None else number(rate / GB):>8}" for rate in rates]
    few = "" if row.launches_a == row.launches_b else f"  ({row.launches_a} against {row.launches_b} launches)"
    notes = f"  ({'; '.join(row.notes)})" if row.notes else ""
    return (
        f"  {format_size(row.call.size_bytes):>12} {number(row.time_a_s * 1e6):>10} {number(row.time_b_s * 1e6):>10} "
        f"{' '.join(busbw)} {_ratio(row)}{few}{notes}"
    )


def _together(curve: CurveComparison) -> str:
    name = "all rows" if curve.name == "all rows" else "together"
    label = f"{name} ({curve.rows} rows)"
    return f"  {label:>52} {_ratio(curve)}"


def _ratio(part: RowComparison | CurveComparison) -> str:
    ratio = part.ratio
    interval = f"{ratio.low:.3f}-{ratio.high:.3f}"
    return f"{ratio.ratio:>7.3f} {interval:>15} {change_text(ratio.reach):>8}  {ratio.verdict}"


def _listed(what: str, items: list[str]) -> Iterator[str]:
    yield from (f"# {what} {item}" for item in items[:_MOST_LISTED])
    if len(items) > _MOST_LISTED:
        yield f"# {what} {len(items) - _MOST_LISTED} more (--json lists them)"


def _launches(count: int) -> str:
    return f"{count} launch{'' if count == 1 else 'es'}"
