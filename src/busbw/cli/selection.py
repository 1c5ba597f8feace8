"""`--op` and `-N`: which rows of the files, and what is taken for rows that do not tell their own."""

from __future__ import annotations

import argparse

from busbw.core.collective import find_collective
from busbw.errors import UsageError


def add_selection(parser: argparse.ArgumentParser) -> None:
    """The two options, with the same words in every command."""
    parser.add_argument(
        "--op",
        metavar="OPS",
        help="only these collectives, such as all_reduce,all_gather; a single one also for a file that does not tell its own",
    )
    parser.add_argument(
        "-N",
        "--world",
        "--world-size",
        metavar="N",
        help="only these numbers of ranks, such as 2,4,8; a single one also for a file that does not tell its own",
    )


def asked_ops(text: str | None) -> tuple[str, ...]:
    """The collectives of `--op`; empty where it is not given."""
    if text is None:
        return ()
    names = tuple(dict.fromkeys(find_collective(word).name for word in text.split(",") if word.strip()))
    if not names:
        raise UsageError(f"--op {text!r}: name one or more collectives, such as all_reduce,all_gather")
    return names


def asked_worlds(text: str | None) -> tuple[int, ...]:
    """The numbers of ranks of `-N`; empty where it is not given."""
    if text is None:
        return ()
    try:
        worlds = tuple(dict.fromkeys(int(word) for word in text.split(",")))
    except ValueError:
        worlds = (0,)
    if min(worlds) < 1:
        raise UsageError(f"-N {text!r}: must be one or more numbers of ranks, such as 2,4,8")
    return worlds
