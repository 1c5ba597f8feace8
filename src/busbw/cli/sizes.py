"""Message sizes on the command line, in nccl-tests' words: -b -e -f -i, or a list."""

from __future__ import annotations

import argparse

from busbw.errors import UsageError
from busbw.units import format_size, parse_size

MOST_SIZES = 10_000


def range_options(args: argparse.Namespace) -> list[str]:
    """The options of a range that were given."""
    return [name for name in ("min_bytes", "max_bytes", "factor", "step") if getattr(args, name) is not None]


def asked_sizes(args: argparse.Namespace) -> tuple[int, ...] | None:
    """The sizes of --sizes, or of -b -e -f -i; None where neither was given. UsageError for those that break a rule."""
    ranged = range_options(args)
    if args.sizes is not None:
        if ranged:
            raise UsageError(
                f"--sizes gives the sizes, so --{ranged[0].replace('_', '-')} cannot: use one or the other"
            )
        sizes = tuple(parse_size(part.strip()) for part in args.sizes.split(",") if part.strip())
        if not sizes or min(sizes) < 1:
            raise UsageError(f"--sizes {args.sizes!r}: needs one size or more, each at least 1 B")
        return sizes
    return _range(args) if ranged else None


def _range(args: argparse.Namespace) -> tuple[int, ...]:
    least, most = parse_size(args.min_bytes or "8"), parse_size(args.max_bytes or "1G")
    if least < 1 or least > most:
        raise UsageError(
            f"-b {format_size(least)} -e {format_size(most)}: the first must be at least 1 B and not above the second"
        )
    if args.step is not None and args.factor is not None:
        raise UsageError("--step and --factor both say how sizes grow: use one of them")
    step = parse_size(args.step) if args.step is not None else 0
    factor = 2 if args.factor is None else args.factor
    if (args.step is not None and step < 1) or (args.step is None and factor < 2):
        raise UsageError(f"sizes must grow: --factor {factor} must be at least 2, or --step at least 1 B")
    sizes, size = [], least
    while size <= most:
        sizes.append(size)
        if len(sizes) > MOST_SIZES:
            raise UsageError(f"--step {args.step}: makes more than 10 000 sizes")
        size = size + step if step else size * factor
    return tuple(sizes)
