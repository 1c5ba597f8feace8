"""How findings write numbers and lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from busbw.units import GB, format_size, format_time


def share(value: float) -> str:
    """0.033 -> `3.3 %`; 0.45 -> `45 %`."""
    return f"{100 * value:.1f} %" if abs(value) < 0.0995 else f"{100 * value:.0f} %"


def signed(value: float) -> str:
    """0.17 -> `+17 %`."""
    return f"{100 * value:+.1f} %" if abs(value) < 0.0995 else f"{100 * value:+.0f} %"


def rate(value: float) -> str:
    """B/s -> `21.5` (GB/s, the unit is written once behind a list)."""
    scaled = value / GB
    return f"{scaled:.0f}" if scaled >= 99.95 else f"{scaled:.1f}" if scaled >= 9.95 else f"{scaled:.2f}"


def rates(values: Iterable[float]) -> str:
    """`21.5, 19.7, 17.8 GB/s`."""
    return f"{', '.join(rate(value) for value in values)} GB/s"


def span(values: Sequence[float]) -> str:
    """`43.7 GB/s`, or `42.9 to 44.5 GB/s`."""
    low, high = rate(min(values)), rate(max(values))
    return f"{low} GB/s" if low == high else f"{low} to {high} GB/s"


def times(values: Iterable[float]) -> str:
    """`11.4 us, 14.2 us`."""
    return ", ".join(format_time(value) for value in values)


def sizes(values: Sequence[int]) -> str:
    """`1 MiB`, or `4 KiB to 1 MiB`."""
    low, high = format_size(min(values)), format_size(max(values))
    return low if low == high else f"{low} to {high}"


def worlds(values: Iterable[int]) -> str:
    """`N = 2, 4, 8`."""
    return f"N = {', '.join(str(value) for value in values)}"


def either(words: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def both(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
