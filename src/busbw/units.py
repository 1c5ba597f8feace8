"""The only place for 1e9, 2**30 and "us": parse and print sizes, times and rates.

Sizes follow nccl-tests: a bare suffix K, M, G, T is 1024-based (`-e 1G` is 2**30 bytes), as are KiB, MiB, GiB, TiB.
The decimal units kB, MB, GB, TB are 1000-based. Rates: GB/s = 1e9 bytes a second, Gb/s = 1e9 bits a second.
"""

from __future__ import annotations

import re
from fractions import Fraction

from busbw.errors import UsageError

KIB = 2**10
MIB = 2**20
GIB = 2**30
GB = 1e9
MICROSECOND = 1e-6

_SIZE_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgtp", start=1):
    _SIZE_UNITS[_letter] = _SIZE_UNITS[_letter + "ib"] = 1024**_power
    _SIZE_UNITS[_letter + "b"] = 1000**_power

_TIME_UNITS = {"": 1.0, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_NUMBER = re.compile(r"\s*((?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][+-]?[0-9]{1,2})?)\s*(.*?)\s*")


def _split(text: str, what: str, example: str) -> tuple[str, str]:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a {what}: write a number and a unit, such as {example}")
    return match[1], match[2]


def parse_size(text: str) -> int:
    """Bytes of a size such as `8`, `64KiB`, `1G` (= 1 GiB, as in nccl-tests) or `1GB` (= 1e9).

    Raises UsageError when it is not a size, or not a whole number of bytes.
    """
    number, unit = _split(text, "size", "8, 64KiB, 1G (= 1 GiB) or 1GB (= 1e9 bytes)")
    factor = _SIZE_UNITS.get(unit.lower())
    if factor is None:
        raise UsageError(f"unknown unit {unit!r} in size {text!r}: use B, KiB, MiB, GiB (or K, M, G), kB, MB, GB")
    size = Fraction(number) * factor
    if size.denominator != 1 or size >= 2**63:
        raise UsageError(f"size {text!r} must be a whole number of bytes below 2^63")
    return int(size)


def parse_time(text: str) -> float:
    """Seconds of a time such as `20ms`, `5us`, `10s` or `2min`; a bare number is seconds."""
    number, unit = _split(text, "time", "20ms, 5us, 10s or 2min")
    if unit not in _TIME_UNITS:
        raise UsageError(f"unknown unit {unit!r} in time {text!r}: use ns, us, ms, s, min or h")
    return float(number) * _TIME_UNITS[unit]


def parse_rate(text: str) -> float:
    """Bytes a second of a rate such as `50GB/s`, `400Gb/s` (bits), `50GiB/s` or `400Gbps`."""
    number, unit = _split(text, "rate", "50GB/s, 400Gb/s (bits) or 50GiB/s")
    match = re.fullmatch(r"([kKMGT]?)(i?)([bB])(?:/s|ps)", unit)
    if match is None:
        raise UsageError(f"unknown unit {unit!r} in rate {text!r}: use GB/s (bytes), Gb/s (bits) or GiB/s")
    base = 1024 if match[2] else 1000
    factor: int = base ** " kmgt".index(match[1].lower() or " ")
    return float(number) * factor / (8 if match[3] == "b" else 1)


def format_size(size_bytes: int) -> str:
    """A size in the largest binary unit, exact where it is whole: `4 KiB`, `1.5 MiB`, `1000 B`."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size_bytes >= 1024**power:
            value = size_bytes / 1024**power
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.4g} {unit}"
    return f"{size_bytes} B"


def format_decimal(size_bytes: float) -> str:
    """Bytes in the 1000-based unit that suits them, to four digits: `871.1 MB`, `1.5 GB`. What a wire carries is counted so."""
    for factor, unit in ((1e12, "TB"), (GB, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(size_bytes) >= factor:
            return f"{size_bytes / factor:.4g} {unit}"
    return f"{size_bytes:.0f} B"


def format_time(time_s: float) -> str:
    """A time to three digits in the unit that suits it: `11.4 us`, `105 ms`, `1.50 s`."""
    size = abs(time_s)
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if size >= 0.9995 * factor:
            return f"{_three_digits(time_s / factor)} {unit}"
    return "0 s" if time_s == 0 else f"{_three_digits(time_s / 1e-9)} ns"


def format_rate(rate_Bps: float) -> str:  # noqa: N803 - the unit's own capitals
    """A rate in GB/s (1e9 bytes a second) to three digits."""
    return f"{_three_digits(rate_Bps / GB)} GB/s"


def _three_digits(value: float) -> str:
    size = abs(value)
    if size >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"
