"""`busbw show`: print results, from any format that we read."""

from __future__ import annotations

import argparse
import json
import os
import sys

from busbw.cli.selection import add_selection, asked_ops, asked_worlds
from busbw.cli.table import Table
from busbw.core.measurement import Measurement, Results
from busbw.errors import FileError, printable
from busbw.formats import post_csv
from busbw.formats._selection import read_selected


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Files, and how to print them."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="results; - is standard input")
    add_selection(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="rows as a JSON list")
    form.add_argument("--csv", action="store_true", help="the post's six columns")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="show lines that look like rows and could not be read; exit status 2 if any",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="also the run, its settings, and lines that could not be read"
    )


def run(args: argparse.Namespace) -> int:
    """Read every file, and print what could be read even when another could not."""
    ops, worlds = asked_ops(args.op), asked_worlds(args.world)
    table = Table(color=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    as_text = not (args.json or args.csv)
    pooled: list[Measurement] = []
    failures: list[FileError] = []
    unreadable = 0
    for path in args.files:
        try:
            results = read_selected(path, ops, worlds)
        except FileError as error:
            failures.append(error)
            continue
        rows = results.measurements
        pooled += rows
        unreadable += results.run.unreadable_count
        if not as_text:
            continue
        if len(args.files) > 1 or args.verbose:
            sys.stdout.write(
                f"# {printable(path)}: {results.run.tool} {results.run.version} {results.run.started}\n".replace(
                    "  ", " "
                )
            )
        if args.verbose:
            sys.stdout.writelines(
                f"#   {name}: {printable(str(value))}\n" for name, value in results.run.settings.items()
            )
        sys.stdout.writelines(f"# {line}\n" for line in _unreadable(results, args.verbose or args.strict))
        for row in rows:
            sys.stdout.writelines(f"{line}\n" for line in table.lines(row))
        if not rows:
            asked = f"{' of ' + args.op if ops else ''}{' at N = ' + args.world if worlds else ''}"
            sys.stdout.write(f"# {printable(path)}: no rows{asked}\n")
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
    if args.strict and unreadable:
        if not as_text:
            sys.stderr.write(
                f"busbw show: {unreadable} lines look like rows and could not be read (see them without --json)\n"
            )
        return 2
    return 2 if failures else 0


def _unreadable(results: Results, listed: bool) -> list[str]:
    """How many lines look like rows and could not be read; and which, where they are asked for."""
    run = results.run
    if not run.unreadable_count:
        return []
    count = f"{run.unreadable_count} line{'s' if run.unreadable_count > 1 else ''}"
    if not listed:
        return [f"{count} that look like rows could not be read (-v shows them)"]
    lines = [printable(f"{line.source.file}:{line.source.line}: {line.reason}: {line.text}") for line in run.unreadable]
    rest = run.unreadable_count - len(lines)
    return [f"{count} that look like rows could not be read:", *lines, *([f"and {rest} more"] if rest else [])]
