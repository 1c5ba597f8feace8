"""`busbw report`: one HTML file about results, for a colleague who was not there."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from busbw.cli.explain import add_fact_options, facts_of_files, given_facts
from busbw.cli.selection import add_selection, asked_ops, asked_worlds
from busbw.core.finding import Facts
from busbw.core.measurement import Results
from busbw.errors import FileError, NoRows, UsageError
from busbw.formats._selection import read_selected


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Files, the page, and what is known beside the rows."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="results of any format that is read; files with the same work are runs that are compared, "
        "a1.jsonl,a2.jsonl are launches of one run; - is standard input",
    )
    parser.add_argument("-o", "--output", metavar="PAGE", required=True, help="the page, such as report.html")
    parser.add_argument("--title", default="", help="its title (default: the collectives and N)")
    add_selection(parser)
    parser.add_argument(
        "--across",
        metavar="LABEL",
        action="append",
        default=[],
        help="compare rows even where this label differs, such as sched, mode or NCCL_ALGO; may be repeated",
    )
    add_fact_options(parser)


def run(args: argparse.Namespace) -> int:
    """Read, write the page, print its path. Files that cannot be read are named, the others count."""
    prove_writable(args.output, "-o")
    facts = given_facts(args)
    ops, worlds = asked_ops(args.op), asked_worlds(args.world)
    inputs: list[list[Results]] = []
    names: list[str] = []
    failures: list[FileError] = []
    for text in args.files:
        files = _files(text)
        names += files
        parts = []
        for path in files:
            try:
                parts.append(read_selected(path, ops, worlds))
            except NoRows as error:  # how a run failed is worth a page, beside one that has rows
                if isinstance(error.results, Results):
                    parts.append(error.results)
                failures.append(error)
            except FileError as error:
                failures.append(error)
        if parts:
            inputs.append(parts)
    facts = facts_of_files(args, [path for path in names if Path(path).is_file()], facts)
    if any(part.measurements for parts in inputs for part in parts):
        write_page(inputs, args.output, facts, title=args.title, across=args.across)
        sys.stdout.write(f"{args.output}\n")
    elif not failures:
        asked = " ".join(f"{name} {text}" for name, text in (("--op", args.op), ("-N", args.world)) if text)
        raise UsageError(f"no row is left to report{f' after {asked}' if asked else ''}")
    for failure in failures:
        sys.stderr.write(f"busbw report: error: {failure}\n")
    return 2 if failures else 0


def write_page(
    inputs: Sequence[Results | Sequence[Results]],
    path: str,
    facts: Facts | None = None,
    *,
    title: str = "",
    across: Sequence[str] = (),
) -> None:
    """Make the page and write it; FileError when it cannot be written."""
    from busbw.report import html_report

    text = html_report(inputs, facts, title=title, across=across)
    try:
        # A log may hold what is no text in any encoding; it is replaced rather than refused.
        Path(path).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}") from error


def prove_writable(path: str, option: str) -> None:
    """Before the work: the libraries are there, and nothing but an older page is replaced."""
    from busbw.report.html import require_libraries

    require_libraries()
    try:
        if Path(path).is_file() and Path(path).stat().st_size:
            with Path(path).open("rb") as file:
                if not file.read(64).lstrip().lower().startswith(b"<!doctype html"):
                    raise UsageError(f"{option} {path}: exists and is no HTML page: name another file")
        is_new = not Path(path).exists()
        with Path(path).open("a", encoding="utf-8"):
            pass
        if is_new:
            Path(path).unlink()
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}; name another file with {option}") from error


def _files(text: str) -> list[str]:
    """The launches of one run: a name, or several with commas between them."""
    return [text] if text == "-" or Path(text).exists() else [name for name in text.split(",") if name] or [text]
