"""`busbw plot`: draw figures of results as SVG and PNG."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from busbw.cli.selection import add_selection, asked_ops, asked_worlds
from busbw.core.finding import Facts
from busbw.errors import FileError, UsageError
from busbw.formats._selection import read_told
from busbw.plots.figure import FIGURES, FigureOptions
from busbw.units import parse_rate, parse_size

if TYPE_CHECKING:
    from busbw.core.measurement import Measurement, Results
    from busbw.plots.chart import Chart

FORMATS = ("svg", "png")
THEMES = ("light", "dark")
LEAST_WIDTH, MOST_WIDTH = 320, 4000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Files in, a folder out, and what to draw."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="results of any format that is read; - is standard input"
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR", required=True, help="folder for the pictures, made where missing"
    )
    parser.add_argument(
        "--figure", metavar="NAME", action="append", help=f"one or more of {', '.join(FIGURES.names())} (default: all)"
    )
    add_selection(parser)
    parser.add_argument("--wire-limit", metavar="RATE", help="what a wire carries one way, to compare with: 50GB/s")
    parser.add_argument("--machine", help="a known machine, such as dgx-h100: its wire's rate is drawn")
    parser.add_argument(
        "--model", default=FigureOptions().model, help="whose gradients bucketed_sync prices (default: %(default)s)"
    )
    parser.add_argument(
        "--bucket", metavar="SIZE", help="the bucket that bucketed_sync points at (default: 25MiB, as DDP)"
    )
    parser.add_argument("--theme", choices=(*THEMES, "both"), default="light", help="colours (default: %(default)s)")
    parser.add_argument("--format", default=",".join(FORMATS), help="svg, png (default: both)")
    parser.add_argument(
        "--width", type=int, metavar="PIXELS", help="of the sheet; 380 suits a paper column (default: 760)"
    )


def run(args: argparse.Namespace) -> int:
    """Read, build, write; the path of each picture is a line on standard output."""
    formats = _formats(args.format)
    options = _options(args)
    names = list(dict.fromkeys(_words(",".join(args.figure)))) if args.figure else list(FIGURES.names())
    figures = [FIGURES.get(name) for name in names]
    if args.width is not None and not LEAST_WIDTH <= args.width <= MOST_WIDTH:
        raise UsageError(f"--width {args.width}: must be a number of pixels from {LEAST_WIDTH} to {MOST_WIDTH}")
    # Everything is read, so that a refusal can say what there is; what is told is for files that do not tell it.
    results = [read_told(file, options.collectives, options.world_sizes) for file in args.files]
    rows = [row for part in results for row in part.measurements]
    if options.wire_limit_Bps is None:
        options = _with_wire(options, results, args.machine)
    folder = _folder(args.output)
    charts: list[tuple[str, Chart]] = []
    refused: list[UsageError] = []
    for figure in figures:
        try:
            charts.append((figure.name, figure.build(rows, options)))
        except UsageError as error:
            if args.figure:
                raise
            refused.append(error)  # not asked for by name: what can be drawn is drawn
    if not charts:
        raise UsageError(f"nothing to draw. {_what_there_is(rows, options)}")
    for reason in refused:
        sys.stderr.write(f"busbw plot: left out {reason}\n")
    themes = THEMES if args.theme == "both" else (args.theme,)
    for name, chart in charts:
        for theme in themes:
            _draw(chart, folder / (name if theme == "light" else f"{name}.{theme}"), theme, formats, args.width)
    return 0


def draw_chart(chart: Chart, output: str, name: str) -> None:
    """Draw a chart as SVG and PNG, light and dark, into a folder; each path is a line on standard error."""
    folder = _folder(output)
    for theme in THEMES:
        stem = folder / (name if theme == "light" else f"{name}.{theme}")
        _draw(chart, stem, theme, FORMATS, None, sys.stderr)


def _draw(
    chart: Chart, stem: Path, theme: str, formats: Sequence[str], width: int | None, told: TextIO | None = None
) -> None:
    from busbw.plots.layout import DEFAULT_WIDTH
    from busbw.plots.render_altair import svg_to_png, to_svg

    svg = to_svg(chart, theme, width or DEFAULT_WIDTH)
    for extension in formats:
        path = stem.with_name(f"{stem.name}.{extension}")
        data = svg.encode() if extension == "svg" else svg_to_png(svg)
        try:
            path.write_bytes(data)
        except OSError as error:
            raise FileError(f"{path}: cannot be written: {error.strerror}") from error
        (told or sys.stdout).write(f"{path}\n")


def _options(args: argparse.Namespace) -> FigureOptions:
    return FigureOptions(
        collectives=asked_ops(args.op),
        world_sizes=asked_worlds(args.world),
        wire_limit_Bps=None if args.wire_limit is None else _rate(args.wire_limit),
        model=args.model,
        bucket_bytes=FigureOptions().bucket_bytes if args.bucket is None else _bucket(args.bucket),
    )


def _with_wire(options: FigureOptions, results: Sequence[Results], machine: str | None) -> FigureOptions:
    """The rate of the machine that was named, or of the one that the files' own GPU and hosts tell."""
    from busbw.findings import complete_facts
    from busbw.findings.machines import find_machine, wire_rate

    facts = complete_facts(results, Facts())
    if machine is not None:
        facts = facts.having("machine", find_machine(machine).name, "--machine")
        if facts.number("hosts") is None:
            facts = facts.having("hosts", 1.0, "assumed")
    worlds = [row.call.world_size for part in results for row in part.measurements]
    found = wire_rate(facts, max(worlds, default=1))
    if found is None:
        return options
    return replace(options, wire_limit_Bps=found.value, wire_source=f"{found.name} ({found.source})")


def _bucket(text: str) -> int:
    size = parse_size(text)
    if size < 1:
        raise UsageError(f"--bucket {text!r}: must be above zero, such as 25MiB")
    return size


def _rate(text: str) -> float:
    rate = parse_rate(text)
    if not rate > 0:
        raise UsageError(f"--wire-limit {text!r}: must be above zero, such as 50GB/s")
    return rate


def _formats(text: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(_words(text.lower())))
    unknown = [word for word in words if word not in FORMATS]
    if unknown or not words:
        raise UsageError(f"--format {text!r}: choose from {', '.join(FORMATS)}")
    return words


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _folder(text: str) -> Path:
    folder = Path(text)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"-o {text}: this folder cannot be made: {error.strerror}") from error
    return folder


def _what_there_is(rows: Sequence[Measurement], options: FigureOptions) -> str:
    names = sorted({row.call.collective for row in rows})
    sizes = sorted({row.call.world_size for row in rows})
    asked = " after --op and --world" if options.collectives or options.world_sizes else ""
    held = f"The files hold {', '.join(names)} at N = {', '.join(map(str, sizes))}" if rows else "The files hold no row"
    return f"{held}; no row{asked} has N >= 2, S > 0 and data that moves between ranks"
