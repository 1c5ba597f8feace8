"""What readers of logs share: numbers that may be anything, and the lines that could not be read."""

from __future__ import annotations

import math

from busbw.core.measurement import Source, Unreadable

MOST_KEPT = 100
LARGEST_SIZE = 2**63 - 1
LARGEST_WORLD = 2**24


def number(token: str) -> float | None:
    """A finite number such as `12`, `0.00`, `1e-06`; None for anything else, `nan` and `inf` included."""
    if len(token) > 40 or not token[:1].isascii() or "_" in token:
        return None
    try:
        value = float(token)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def whole_number(token: str) -> int | None:
    """A whole number such as `8` or `-1` that fits into 64 bits; None for anything else."""
    if len(token) > 20 or not token.isascii() or not token.lstrip("-").isdigit():
        return None
    value = int(token) if token.lstrip("-") == token or token[1:].isdigit() else None
    return value if value is not None and -LARGEST_SIZE <= value <= LARGEST_SIZE else None


class UnreadableLines:
    """Collects lines that look like rows and could not be read: all are counted, the first hundred kept."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.count = 0
        self.kept: list[Unreadable] = []

    def add(self, line: int, text: str, reason: str) -> None:
        """Note one."""
        self.count += 1
        if len(self.kept) < MOST_KEPT:
            self.kept.append(Unreadable(Source(self.file, line), text.strip()[:200], reason))
