"""`busbw show`: print results, from any format that we read."""

from __future__ import annotations

import argparse
import json
import os
import sys

from busbw.cli.table import Table
from busbw.core.collective import find_collective
from busbw.core.measurement import Measurement
from busbw.errors import FileError
from busbw.formats import post_csv, read_results


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Files, and how to print them."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="results; - is standard input")
    parser.add_argument("--op", help="only these collectives")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="rows as a JSON list")
    form.add_argument("--csv", action="store_true", help="the post's six columns")
    parser.add_argument("-v", "--verbose", action="store_true", help="also the run, its settings and its notes")


def run(args: argparse.Namespace) -> int:
    """Read every file, and print what could be read even when another could not."""
    wanted = None if args.op is None else {find_collective(name).name for name in args.op.split(",")}
    table = Table(color=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    as_text = not (args.json or args.csv)
    pooled: list[Measurement] = []
    failures: list[FileError] = []
    for path in args.files:
        try:
            results = read_results(path)
        except FileError as error:
            failures.append(error)
            continue
        rows = [row for row in results.measurements if wanted is None or row.call.collective in wanted]
        pooled += rows
        if not as_text:
            continue
        if len(args.files) > 1 or args.verbose:
            sys.stdout.write(
                f"# {path}: {results.run.tool} {results.run.version} {results.run.started}\n".replace("  ", " ")
            )
        if args.verbose:
            sys.stdout.writelines(f"#   {name}: {value}\n" for name, value in results.run.settings.items())
        for row in rows:
            sys.stdout.writelines(f"{line}\n" for line in table.lines(row))
        if not rows:
            sys.stdout.write(f"# {path}: no rows{' of ' + args.op if wanted else ''}\n")
        sys.stdout.writelines(f"# note: {note}\n" for note in results.run.notes)
    if args.json:
        json.dump([row.row() for row in pooled], sys.stdout, indent=1)
        sys.stdout.write("\n")
    elif args.csv:
        sys.stdout.write(post_csv.write(pooled))
    else:
        sys.stdout.writelines(f"{line}\n" for line in table.legend())
    for failure in failures:
        sys.stderr.write(f"busbw show: error: {failure}\n")
    return 2 if failures else 0
