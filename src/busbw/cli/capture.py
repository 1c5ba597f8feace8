"""`busbw capture`: the bill of a real job: run it behind --, or read what a capture left."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbw.errors import BusbwError, UsageError

if TYPE_CHECKING:
    from busbw.core.bill import Bills
    from busbw.traces.judging import Profile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A command to run, or files to read; what to keep; how to print it."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="captures to read, or folders of them; or -- and the job's whole command",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR|FILE",
        help="where the ranks' files go: a folder, or one .jsonl (default: capture-DATE)",
    )
    parser.add_argument(
        "--steps", metavar="A:B", help="only these training steps, such as 10:20 (10 to 19, counted from 0)"
    )
    parser.add_argument(
        "--times",
        choices=("sampled", "all", "none"),
        default="sampled",
        help="which calls are timed: the first steps and each 32nd (default), all, none",
    )
    parser.add_argument("--rank", type=int, help="whose bill (default: the rank that sends most)")
    parser.add_argument(
        "--step", default="steady", help="which step to print: constructor, first, second, steady, a number, or all"
    )
    parser.add_argument(
        "--profile",
        metavar="FILE",
        help="what this machine can do: results, a cost model, a machine, or alpha=5us,bandwidth=20GB/s",
    )
    parser.add_argument(
        "--json", action="store_true", help="the bill as JSON (the job's own output then goes to stderr)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="every line, with its call site")


def run(args: argparse.Namespace) -> int:
    """Run the job, if there is one, then print the bill. The exit status is the job's own where it is not 0."""
    from busbw.traces import parse_steps

    command = args.words[args.words.index("--") + 1 :] if "--" in args.words else []
    files = args.files[: len(args.files) - len(command)]
    steps = None if args.steps is None else parse_steps(args.steps)
    if bool(command) == bool(files):
        example = "busbw capture -- torchrun --nproc-per-node 8 train.py, or busbw capture FOLDER"
        raise UsageError(f"{'both files and a command' if command else 'nothing'} to capture: write {example}")
    profile, words = _profile(args.profile)
    if not command:
        if args.output:
            raise UsageError("-o is for a job behind --; files are only read")
        return _show(args, files, steps, profile, words)
    status, written = _run_job(args, command)
    if written is None:
        return status
    try:
        _show(args, [written], steps, profile, words)
    except BusbwError as error:
        sys.stderr.write(f"busbw capture: error: {error}\n")
        return status or error.exit_status
    if not args.json:
        sys.stdout.write(f"# saved: busbw capture {written} prints this again\n")
    return status


def _run_job(args: argparse.Namespace, command: Sequence[str]) -> tuple[int, str | None]:
    """The job's exit status, and where its capture is; None when there is none."""
    from busbw.traces import launch

    output = Path(args.output or time.strftime("capture-%Y%m%d-%H%M%S"))
    file = output if output.suffix == ".jsonl" else None
    if file is not None and file.exists():
        raise UsageError(f"{file} exists: choose another file with -o, or remove it")
    folder = output if file is None else output.with_name(output.name + ".ranks")
    flag = launch.blind_flag(command)
    if flag is not None:
        raise UsageError(
            f"{flag} makes Python ignore PYTHONPATH, by which the capture gets in: leave it out, or use busbw.capture()"
        )
    launch.prepare(folder)
    try:
        status = launch.run(command, launch.environment(folder, args.steps, args.times, os.environ), args.json)
    except UsageError:
        if not any(folder.iterdir()):
            folder.rmdir()
        raise
    if not any(folder.glob("rank-*.jsonl")):
        seen = (folder / launch.SEEN).exists()
        sys.stderr.write(f"busbw capture: error: {_nothing(seen)}\n")
        for path in (folder / launch.SEEN, folder):
            if path.is_file():
                path.unlink()
            elif path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        return status, None
    if file is not None:
        launch.merge(folder, file)
    return status, str(output)


def _nothing(seen: bool) -> str:
    if seen:
        return "the job made no collective call (torch was imported, and no process group was used)"
    return (
        "no Python of the job that imports torch looked into PYTHONPATH: was one started with -I, -E or -S, with a cleared "
        "environment, or in a container? Then put busbw.capture() into the program"
    )


def _profile(text: str | None) -> tuple[Profile | None, str]:
    if text is None:
        return None, ""
    from busbw.pricing.profile import read_profile

    profile, words, _ = read_profile(text)
    return profile, words


def _show(
    args: argparse.Namespace, files: Sequence[str], steps: range | None, profile: Profile | None, words: str
) -> int:
    from busbw.cli.capture_text import text
    from busbw.traces import job_bills

    jobs = job_bills(files, steps)
    rank = args.rank if args.rank is not None else _most(jobs)
    if rank not in jobs:
        raise UsageError(f"--rank {rank}: captured are {', '.join(map(str, jobs))}")
    bills = jobs[rank]
    if args.step not in ("all", "steady") and args.step not in bills.steps:
        raise UsageError(f"--step {args.step!r}: choose from {', '.join(bills.steps)}, all")
    if args.json:
        json.dump(_json(jobs, bills, profile), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in text(jobs, bills, args.step, profile, words, args.verbose))
    return 0


def _most(jobs: dict[int, Bills]) -> int:
    """The rank that sends most in its usual step; the lowest of equals."""
    return max(jobs, key=lambda rank: (jobs[rank].steady.totals().sent_bytes_per_rank, -rank))


def _json(jobs: dict[int, Bills], bills: Bills, profile: Profile | None) -> dict[str, Any]:
    """The bill (docs/json.md), and what is said about it."""
    from busbw.traces.judging import advise, judge

    return {
        **bills.to_json(),
        "judged": [each.to_json() for each in judge(bills.steady.lines, profile)],
        "advice": [advice.to_json() for advice in advise(bills.steady, profile)],
        "ranks": {rank: other.steady.totals().to_json() for rank, other in jobs.items()},
    }
