"""The command line: one short file per command, named as it is typed, loaded only when it is called.

Each command's file defines add_arguments(parser) and run(args) -> exit status; what it does stands in COMMANDS.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from busbw._version import __version__
from busbw.errors import BusbwError, FileError, UsageError

COMMANDS = {
    "bench": "measure collectives, here or under torchrun, srun, mpiexec",
    "show": "print results, from any format that we read",
    "fit": "launch, alpha, B and regimes, with intervals",
    "explain": "is it good, and why not better? laws that hold or fail, walls, causes, the next measurement",
    "doctor": "what on this host costs collectives time? reads only: ACS, links, NICs, clocks, NUMA, variables",
    "compare": "two runs: what changed, and is it real; exit status for CI",
    "check": "a gate for CI: every row reaches a busbw, or is no slower than a baseline",
    "report": "one HTML file about results: verdict, figures, fit, calculator, rows; several runs are compared",
    "plot": "draw figures as SVG and PNG",
    "draw": "schematics: the primitives, a schedule step by step, a machine and its bottleneck",
    "topo": "read or show a machine: this one, a preset, NCCL's topology XML, nvidia-smi topo -m",
    "schedule": "list the algorithms; verify one, say its rounds and bytes, write it as MSCCL XML",
    "simulate": "predict a collective on a machine: the time, the wire it waits for, what would change it",
    "calibrate": "the speeds and costs of a machine that reproduce its results; rival descriptions beside each other",
    "price": "the bill of a training step for a model and a parallel plan: every call, its bytes, its time",
    "sweep-buckets": "a real DDP step over bucket_cap_mb on this machine, beside the prediction",
    "capture": "the bill of a real job: run it behind --, or read what a capture left",
    "selftest": "check every operation, dtype and reduction that each backend claims",
    "env": "print what a bug report should say of this machine",
}
"""Command -> what it does; in the order in which they are listed."""


class Parser(argparse.ArgumentParser):
    """argparse, with errors on one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where the rules are; exit status 2."""
        sys.stderr.write(f"{self.prog}: {message} (see {self.prog} --help)\n")
        sys.exit(2)


def _module(command: str) -> Any:
    """The file of a command; a hyphen in its name is an underscore there."""
    return importlib.import_module(f"busbw.cli.{command.replace('-', '_')}")


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser; only `command` is loaded and gets its arguments."""
    parser = Parser(prog="busbw", description="The price of collective communication: measure it, see it.")
    parser.add_argument("--version", action="version", version=f"busbw {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name == command:
            _module(name).add_arguments(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status (see busbw.errors for what each means)."""
    words = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in words if not word.startswith("-")), None)
    prog = f"busbw {command}" if command in COMMANDS else "busbw"
    try:
        _prepare_streams()
        status = _run(words, command)
        sys.stdout.flush()
        return status
    except BusbwError as error:
        sys.stderr.write(f"{prog}: {'' if isinstance(error, UsageError) else 'error: '}{error}\n")
        return error.exit_status
    except KeyboardInterrupt:
        sys.stderr.write(f"{prog}: interrupted\n")
        return 130
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        _drop_output()
        return 0
    except OSError as error:
        if error.errno not in _NO_ROOM or error.filename is not None:
            raise
        # Not 1, which is the answer of compare and check that something is slower.
        _drop_output()
        sys.stderr.write(f"{prog}: error: standard output cannot be written: {error.strerror}\n")
        return FileError.exit_status


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def _run(words: list[str], command: str | None) -> int:
    parser = build_parser(command)
    args, unknown = parser.parse_known_args(words)
    if unknown:
        prog = f"busbw {args.command}" if args.command else "busbw"
        sys.stderr.write(f"{prog}: unrecognized arguments: {' '.join(unknown)} (see {prog} --help)\n")
        return 2
    if args.command is None:
        parser.print_help()
        return 0
    args.words = words
    status: int = _module(args.command).run(args)
    return status


def _prepare_streams() -> None:
    """Make the three streams usable, whatever the terminal's encoding, and where one was closed (`>&-`)."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for the whole process
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", "") == "strict" and hasattr(stream, "reconfigure"):
            # A file's name or a log's text that the terminal's encoding lacks is escaped, and no reason to stop.
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """What is still buffered for standard output goes nowhere, rather than raise once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
