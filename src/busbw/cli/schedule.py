"""`busbw schedule`: list the algorithms; verify one and say what it does; write it as MSCCL XML."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from busbw.algorithms.spec import parse_algorithm
from busbw.core.collective import Place, find_collective
from busbw.core.schedule import ALGORITHMS, Algorithm, Round, Schedule
from busbw.core.verify import rank_name, verify, work
from busbw.errors import FileError, UsageError

_MOST_SEEN = 1 << 26
"""Above it verifying would take minutes: slots moved x 64-bit words of a set of ranks."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument(
        "algorithm",
        nargs="?",
        help="ring, 'ring(order=0-2-1-3)', FILE.py:NAME or FILE.xml; without it, list the algorithms",
    )
    parser.add_argument("--op", help="the collective (default: all_reduce, or the only one that it does)")
    parser.add_argument("--world", "-N", metavar="N", type=int, help="ranks (default: 8, or those of the file)")
    parser.add_argument("-r", "--root", type=int, default=0, help="root rank (default: %(default)s)")
    parser.add_argument("--rounds", action="store_true", help="print every transfer of every round")
    parser.add_argument("--msccl", metavar="FILE", help="write it as a program in MSCCL's XML")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE")


def run(args: argparse.Namespace) -> int:
    """List, or build, verify and print."""
    if args.algorithm is None:
        _list()
        return 0
    spec = parse_algorithm(args.algorithm)
    op, world = _what(args, spec.algorithm)
    schedule = spec.build(op, world, args.root)
    small = work(schedule) <= _MOST_SEEN
    if small:
        verify(schedule)
    sys.stdout.write("\n".join(_about(spec.text, schedule, small)) + "\n")
    if args.rounds:
        for line in _rounds(schedule):
            sys.stdout.write(line + "\n")
    if args.msccl is not None:
        _write(schedule, spec.text, args.msccl, args.overwrite)
    return 0


def _list() -> None:
    for algorithm in ALGORITHMS:
        sys.stdout.write(f"{algorithm.name}: {algorithm.summary}\n")
        sys.stdout.write(f"    does {', '.join(sorted(algorithm.builders))}  ({algorithm.source})\n")
        for name, meaning in algorithm.options.items():
            sys.stdout.write(f"    {name}: {meaning}\n")


def _what(args: argparse.Namespace, algorithm: Algorithm) -> tuple[str, int]:
    """The collective and N: what the user says, or what the file is for."""
    only = next(iter(algorithm.builders)) if len(algorithm.builders) == 1 else "all_reduce"
    name = find_collective(args.op or only).name
    if args.world is not None:
        return name, args.world
    return name, next((n for n in (8, *range(2, 65)) if not algorithm.supports(name, n)), 8)


def _about(text: str, schedule: Schedule, verified: bool) -> list[str]:
    """What the schedule does, in lines."""
    parts = schedule.parts or ((1.0, schedule),)
    n = schedule.world_size
    lines = [
        f"{text}: {schedule.collective} on {n} ranks, {_count(schedule.round_count, 'round')}"
        + (f", {len(parts)} channels" if schedule.parts else f", {_count(schedule.chunks, 'chunk')}")
    ]
    for channel, (share, part) in enumerate(parts):
        if schedule.parts:
            lines.append(f"  channel {channel}: {share:.4g} of S, {_count(part.chunks, 'chunk')}")
        for phase in part.phases[:40]:
            slots = sorted(set(phase.length.tolist())) or [0]
            size = f"{slots[0]}" if len(slots) == 1 else f"{slots[0]} to {slots[-1]}"
            lines.append(
                f"    {phase.label or 'round':22s} {phase.times:6d} x {_count(len(phase.source), 'transfer')} of {size} "
                f"of {_count(part.chunks, 'chunk')}"
            )
        if len(part.phases) > 40:
            lines.append(f"    ... and {len(part.phases) - 40} more phases")
    sent = schedule.sent_share()
    kind = find_collective(schedule.collective)
    best = max(kind.sent_elements(Place(n * 1000, n, rank, schedule.root)) for rank in range(n)) / (n * 1000)
    lines.append(
        f"  a rank sends {sent.min():.6g} to {sent.max():.6g} S, {sent.sum():.6g} S all together; the optimal form's "
        f"busiest rank {best:.6g} S"
    )
    if verified:
        lines.append("  verified: every rank ends with exactly what the collective promises")
    else:
        lines.append("  not verified: too large to follow every slot; verify it at a smaller N")
    return lines


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _rounds(schedule: Schedule) -> list[str]:
    lines = []
    for channel, (_, part) in enumerate(schedule.parts or ((1.0, schedule),)):
        for index, round_ in enumerate(part.rounds()):
            where = f"channel {channel} " if schedule.parts else ""
            lines.append(f"{where}round {index + 1}")
            lines += [f"  {_transfer(round_, k)}" for k in range(len(round_.source))]
    return lines


def _transfer(round_: Round, k: int) -> str:
    first, to, length = round_.source_slot[k], round_.target_slot[k], round_.length[k]
    slots = f"slot {first}" if length == 1 else f"slots {first}-{first + length - 1}"
    place = "" if to == first else f" to slot {to}" if length == 1 else f" to slots {to}-{to + length - 1}"
    how = "added" if round_.reduces[k] else "copied"
    return f"{rank_name(round_.source[k])} -> {rank_name(round_.target[k])}: {slots}{place}, {how}"


def _write(schedule: Schedule, name: str, path: str, overwrite: bool) -> None:
    from busbw.algorithms.msccl_xml import write

    if os.path.exists(path) and not overwrite:
        raise UsageError(f"--msccl {path} exists: add --overwrite, or name another file")
    text = write(schedule, name)
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}") from error
    sys.stdout.write(f"  {path}: MSCCL XML, {text.count('<step ')} steps in {text.count('<tb ')} thread blocks\n")
