"""Rows of nccl-tests and its relatives: what their headers name, and what the numbers of one line are.

The columns of the layouts so far; a half is one placement, out-of-place first:

    NCCL 1, nccl-tests 1   bytes N type [op] [root], then halves of: time(ms) algbw busbw res|delta|error
    2.0 to 2.11            size count type [redop] [root], then: time(us) algbw busbw error
    2.13 and later         size count type redop root, then: time(us) algbw busbw #wrong
    -I                     each half ends with i_min i_max i_p99 i_cv%
    -C                     time is called cputime
    -S                     date and time end the line, under one header
    rccl-tests -O          one half only; -A ends the line with algo proto nchannels; hipevt follows time

A column that does not apply can be blank (redop of all_gather and alltoall), so a line has fewer words than its header.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from busbw.core.dtype import DTYPES, find_dtype
from busbw.errors import UsageError
from busbw.formats._lines import number, whole_number

_CHECKS = ("#wrong", "wrong", "error", "res", "delta")
HALF_NAMES = ("time", "cputime", "hipevt", "algbw", "busbw", *_CHECKS, "i_min", "i_max", "i_p99", "i_cv%")
_FIRST = ("size", "bytes")
_TAIL_NAMES = ("algo", "proto", "nchannels", "timestamp")

LEAST_TIME_S, MOST_TIME_S = 1e-12, 1e9
"""Outside of these a number is no time of a call."""
TYPE_NAMES = tuple(alias for dtype in DTYPES.values() for alias in (dtype.name, *dtype.aliases))
"""Every name of an element type."""
START = re.compile(r"\s*#?\s*(\d{1,19})\s+(\d{1,19})\s+([A-Za-z]\w{1,15})\b")
"""How a row begins: two whole numbers and an element type."""
_WORD = re.compile(r"[A-Za-z]{2,12}$")
_DATE = re.compile(r"\d{4}-\d\d-\d\d$")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d$")
_GAP_OF_BLANK_HALF = 26


@dataclass(frozen=True, slots=True)
class Layout:
    """What a header says about the lines under it."""

    has_redop: bool | None
    has_root: bool | None
    half: tuple[str, ...]
    """The columns of one placement."""
    placements: tuple[bool | None, ...]
    """in_place of each half."""
    tail: tuple[str, ...] = ()
    time_unit_s: float = 1e-6
    check: str | None = "#wrong"
    """"#wrong" (a count), "error" (a largest difference), or None when only the numbers can tell."""
    is_nccl1: bool = False
    """The size is called "bytes": NCCL 1 and nccl-tests 1."""

    def with_unit(self, time_unit_s: float) -> Layout:
        """The same with times in another unit."""
        return self if time_unit_s == self.time_unit_s else replace(self, time_unit_s=time_unit_s)


ASSUMED = Layout(None, None, ("time", "algbw", "busbw", "#wrong"), (False, True), check=None)
"""Where the header is missing."""


@dataclass(slots=True)
class Half:
    """One placement of one row, as printed."""

    line: int
    size: int
    count: int
    dtype: str | None
    redop: str | None
    """None: no such column, or none that can be told; "": blank."""
    root: int | None
    in_place: bool | None
    time_s: float
    time_slack_s: float
    """Half of the last printed digit."""
    algbw: float | None
    busbw: float | None
    algbw_slack: float
    """Half of the last printed digit, in GB/s."""
    busbw_slack: float
    check: float | None
    """The last column: wrong elements or the largest difference; None for N/A."""
    is_count: bool
    """The check is a count, not a difference."""
    extras: dict[str, str]
    """Other columns of this half and what ends the line; shared, not to be changed."""


Front = tuple[int, int, int, str | None, str | None, int | None, bool | None]
"""A half's line, size, count, dtype, redop, root and in_place."""


def read_header(text: str, single_placement: bool | None) -> Layout | None:
    """The layout under a header line, or None when it is not one.

    `single_placement` says which placement a table with one half has, where the line above tells.
    """
    words = [word for word in text.replace("|", " ").split() if word != "#"]
    if words and words[0].startswith("#") and words[0][1:] in _FIRST:
        words[0] = words[0][1:]
    lowered = [word.lower() for word in words]
    if "algbw" not in lowered or "busbw" not in lowered or not lowered or lowered[0] not in _FIRST:
        return None
    starts = [place for place, word in enumerate(lowered) if word in ("time", "cputime")]
    if not starts or "type" not in lowered[: starts[0]]:
        return None
    end = starts[1] if len(starts) > 1 else len(lowered)
    half = tuple(word for word in lowered[starts[0] : end] if word in HALF_NAMES)
    if "algbw" not in half or "busbw" not in half:
        return None
    front = lowered[: starts[0]]
    check = next((word for word in half if word in _CHECKS), None)
    is_nccl1 = lowered[0] == "bytes"
    if single_placement is None and is_nccl1:
        single_placement = False  # its one-half tables have no line of placements
    placements: tuple[bool | None, ...] = (False, True) if len(starts) > 1 else (single_placement,)
    return Layout(
        has_redop="redop" in front or "op" in front,
        has_root="root" in front,
        half=half,
        placements=placements,
        tail=tuple(word for word in lowered if word in _TAIL_NAMES),
        time_unit_s=1e-3 if is_nccl1 else 1e-6,
        check="#wrong" if check in ("#wrong", "wrong") else "error" if check else None,
        is_nccl1=is_nccl1,
    )


def read_row(text: str, line: int, layout: Layout) -> list[Half] | str:
    """The halves of one line, or why it cannot be read. The text must begin as START says."""
    start = START.match(text)
    if start is None:
        return "it does not begin with size, count and type"
    size, count = whole_number(start[1]), whole_number(start[2])
    if size is None or count is None:
        return "a size of 2^63 bytes and more"
    dtype = dtype_name(start[3])
    words = text[start.end() :].replace("*", " ").split()
    redop: str | None = "" if layout.has_redop else None
    if words and _WORD.match(words[0]) and words[0] not in ("nan", "inf"):
        redop = words.pop(0)
    elif dtype is None:
        return f"{start[3]} is no element type"
    extras, words = _tail(words, layout)
    root: int | None = None
    if layout.has_root or (layout.has_root is None and _has_root(words, len(layout.half))):
        root = whole_number(words[0]) if words else None
        if root is None or not -1 <= root < 2**31:
            return "the root is not a whole number" if words else "it ends before the first time"
        words = words[1:]
    placements = layout.placements
    if len(placements) == 2 and len(words) == len(layout.half) and _first_half_is_blank(text, start.end()):
        placements = (True,)
    halves: list[Half] = []
    for index, in_place in enumerate(placements):
        part = words[index * len(layout.half) : (index + 1) * len(layout.half)]
        if not part and halves:
            break
        half = _half(part, layout, (line, size, count, dtype, redop, root, in_place), extras)
        if isinstance(half, str):
            if halves and len(part) < len(layout.half):
                break
            return half
        halves.append(half)
    return halves


def is_known_type(text: str) -> bool:
    """Whether the word is an element type."""
    return dtype_name(text) is not None


def dtype_name(text: str) -> str | None:
    """Core's name of an element type; None when it is not known."""
    try:
        return find_dtype(text).name
    except UsageError:
        return None


def itemsize(dtype: str | None) -> int | None:
    """Bytes of an element; None when the type is not known."""
    return None if dtype is None else DTYPES[dtype].itemsize


def _tail(words: list[str], layout: Layout) -> tuple[dict[str, str], list[str]]:
    """What ends the line beside the halves: a timestamp, and algorithm, protocol and channels."""
    extras: dict[str, str] = {}
    if len(words) >= 2 and _DATE.match(words[-2]) and _CLOCK.match(words[-1]):
        extras["timestamp"] = f"{words[-2]}T{words[-1]}"
        words = words[:-2]
    names = [name for name in layout.tail if name != "timestamp"]
    if names and len(words) > len(names) and any(_WORD.match(word) or word.isalnum() for word in words[-len(names) :]):
        values = words[-len(names) :]
        if not all(number(value) is not None for value in values):
            extras.update(zip(names, values, strict=True))
            words = words[: -len(names)]
    return extras, words


def _has_root(words: list[str], half: int) -> bool:
    """Without a header: one word more than whole halves need is the root."""
    return bool(words) and whole_number(words[0]) is not None and (len(words) % half == 1 or words[0] == "-1")


def _first_half_is_blank(text: str, start: int) -> bool:
    """Only the second half is there, at its place: a wide gap stands before it."""
    gaps = re.findall(r" +", text[start:])
    return bool(gaps) and max(map(len, gaps)) >= _GAP_OF_BLANK_HALF


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the columns of a half stand; -1: it has no such column."""

    time: int
    algbw: int
    busbw: int
    check: int
    more: tuple[tuple[int, str], ...]


@lru_cache(maxsize=64)
def _places(half: tuple[str, ...]) -> _Places:
    def at(*names: str) -> int:
        return next((half.index(name) for name in names if name in half), -1)

    more = tuple((place, name) for place, name in enumerate(half) if name.startswith("i_") or name in _ASIDE)
    return _Places(at("time", "cputime"), at("algbw"), at("busbw"), at(*_CHECKS), more)


_ASIDE = ("hipevt", "cputime")
_NO_NUMBER = ("nan", "inf", "n/a")
_NO_EXTRAS: dict[str, str] = {}
_COUNT = re.compile(r"\d+|N/A")


def _half(words: Sequence[str], layout: Layout, front: Front, extras: dict[str, str]) -> Half | str:
    """The half that begins with these columns and goes on with these words, or why it cannot be read."""
    at = _places(layout.half)
    if len(words) <= at.time:
        return "it ends before the first time"
    if len(words) <= max(at.algbw, at.busbw):
        return "it is cut in the middle"
    time_word, algbw_word, busbw_word = words[at.time], words[at.algbw], words[at.busbw]
    time, algbw, busbw = number(time_word), number(algbw_word), number(busbw_word)
    if time is None or time < 0:
        return f"the time {time_word[:20]!r} is not a number"
    if time * layout.time_unit_s < LEAST_TIME_S:
        return "its time is printed as 0, so no rate follows from it"
    if time * layout.time_unit_s > MOST_TIME_S:
        return "its time is more than 30 years"
    for word, rate in ((algbw_word, algbw), (busbw_word, busbw)):
        if (rate is None and word.lower().lstrip("-+") not in _NO_NUMBER) or (rate is not None and rate < 0):
            return f"the rate {word[:20]!r} is not a number"
    check_word = words[at.check] if 0 <= at.check < len(words) else "N/A"
    check = number(check_word)
    if check is None and check_word != "N/A":
        bare = check_word.lower().lstrip("-+")
        if bare not in _NO_NUMBER:
            return f"the last column {check_word[:20]!r} is neither a number nor N/A"
        check = None if bare == "n/a" else 1e308
    is_count = layout.check == "#wrong" or (layout.check is None and _COUNT.fullmatch(check_word) is not None)
    more = {name: words[place] for place, name in at.more if place < len(words)} if at.more else _NO_EXTRAS
    unit = layout.time_unit_s
    return Half(
        *front,
        time * unit,
        _half_digit(time_word) * unit,
        algbw,
        busbw,
        _half_digit(algbw_word),
        _half_digit(busbw_word),
        check,
        is_count,
        {**extras, **more} if extras else more,
    )


_HALF_DIGITS = tuple(0.5 * 10.0**-decimals for decimals in range(41))


def _half_digit(word: str) -> float:
    """Half of the last printed digit: 0.005 for 12.34, 500 for 1.2e+04."""
    if "e" not in word and "E" not in word:
        point = word.find(".")
        return _HALF_DIGITS[len(word) - point - 1 if point >= 0 and len(word) < 41 else 0]
    mantissa, _, exponent = word.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    power = int(exponent) if exponent.lstrip("+-").isdigit() and len(exponent) < 5 else 0
    return float(0.5 * 10.0 ** max(-300, min(300, power - decimals)))
