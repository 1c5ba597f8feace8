"""`busbw check FILE`: a gate for CI. Every row of a range has to reach a busbw, or to be no slower than a baseline."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from busbw.cli.compare import add_options, read_side, share
from busbw.comparing import Gate, check
from busbw.comparing.rules import EXAMPLE
from busbw.errors import FileError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The results, what they have to pass, and how to report it."""
    parser.add_argument("file", metavar="FILE", help="results, or several that are pooled: a.jsonl,b.jsonl")
    parser.add_argument(
        "--min-busbw",
        metavar="RULE",
        action="append",
        default=[],
        help=f'RATE@COLLECTIVE[,N=RANKS][,dtype=TYPE]:SIZES, such as "{EXAMPLE}"; may be repeated',
    )
    parser.add_argument("--baseline", metavar="OLD", help="results that these must not be slower than")
    add_options(parser)
    parser.add_argument("--junit", metavar="FILE", help="write JUnit XML, one case a row")
    parser.add_argument("--json", action="store_true", help="the outcomes as JSON (keys: docs/comparing.md)")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the rows that pass too")


def run(args: argparse.Namespace) -> int:
    """Check every row; 0 when all pass, else 1."""
    gate = check(
        read_side(args.file),
        args.min_busbw,
        baseline=None if args.baseline is None else read_side(args.baseline),
        min_change=share("--min-change", args.min_change),
        resolution=share("--resolution", args.resolution),
        across=args.across,
        spread=None if args.spread is None else share("--spread", args.spread),
        fail_on_unknown=args.fail_on_unknown,
    )
    if args.junit is not None:
        try:
            Path(args.junit).write_text(gate.junit(args.file), encoding="utf-8")
        except OSError as error:
            raise FileError(f"{args.junit}: cannot be written: {error.strerror}") from error
    if args.json:
        json.dump({"file": args.file, **gate.to_json()}, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines(gate, args.verbose))
    return gate.exit_status


def lines(gate: Gate, verbose: bool = False) -> Iterator[str]:
    """What failed (and what passed), rule by rule, and how many."""
    head = ""
    for outcome in gate.outcomes:
        if outcome.passed and not verbose:
            continue
        if outcome.rule != head:
            head = outcome.rule
            yield f"# {head}"
        yield f"  {'pass' if outcome.passed else 'FAIL'}  {outcome.row}: {outcome.message}"
    if gate.comparison is not None:
        yield from (f"# note: {note}" for note in gate.comparison.notes)
        yield f"# against the baseline: {gate.comparison.sentence()}"
    failed = sum(not outcome.passed for outcome in gate.outcomes)
    yield f"{'FAIL' if failed else 'pass'}: {failed} of {len(gate.outcomes)} checks failed"
