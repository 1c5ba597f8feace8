"""Which operation a table of nccl-tests is, and over how many ranks: the table itself seldom says so.

Every op leaves a signature in its columns: whether there is a reduction, a root, a check in place, how many bytes one
counted element stands for, and how the two rates follow from size and time. What several ops share stays ambiguous.

With s the printed size, c the count, e the element's bytes, t the time, n the ranks:

    kind of op                                       s/(c e)   algbw t/s   busbw t/s
    all_reduce                                       1         1           2(n-1)/n
    all_gather, reduce_scatter                       n         1           (n-1)/n
        until June 2020 (nccl-tests 2.0)             n         (n-1)/n     (n-1)/n
        in NCCL 1, where s is one rank's part        1         n-1 or 1    n-1
    all_to_all, gather, scatter                      n         1           (n-1)/n
    all_to_all_v                                     any       1           (n-1)/n
    hypercube (an all-gather)                        n         (n-1)/n     (n-1)/n
    broadcast, reduce, send_recv                     1         1           1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from busbw.formats._lines import LARGEST_WORLD
from busbw.formats._nccl_rows import Half, itemsize

TESTS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "alltoallv": "all_to_all_v",
    "all_to_all_v": "all_to_all_v",
    "broadcast": "broadcast",
    "bcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "sendrecv": "send_recv",
    "send_recv": "send_recv",
    "hypercube": "all_gather",
}
"""The names of the programs (all_reduce_perf ...) -> core's names. A hypercube test is an all-gather."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What an op leaves in the columns; `era` tells apart the ways in which it was printed."""

    op: str
    reduces: bool
    rooted: bool
    sharded: bool
    algbw_factor: Callable[[int], float]
    busbw_factor: Callable[[int], float]
    checked_in_place: bool = True
    era: str = ""
    any_count: bool = False


def _one(n: int) -> float:
    return 1.0


def _ring(n: int) -> float:
    return (n - 1) / n


def _double(n: int) -> float:
    return 2 * (n - 1) / n


def _others(n: int) -> float:
    return float(n - 1)


PER_RANK = "nccl1"
"""The era in which all_gather and reduce_scatter printed the size of one rank's part."""

SIGNATURES = (
    Signature("all_reduce", True, False, False, _one, _double),
    Signature("all_gather", False, False, True, _one, _ring),
    Signature("reduce_scatter", True, False, True, _one, _ring),
    Signature("all_to_all", False, False, True, _one, _ring, checked_in_place=False),
    Signature("broadcast", False, True, False, _one, _one),
    Signature("reduce", True, True, False, _one, _one),
    Signature("send_recv", True, False, False, _one, _one, checked_in_place=False),
    Signature("gather", False, True, True, _one, _ring),
    Signature("scatter", False, True, True, _one, _ring),
    Signature("all_to_all_v", False, False, True, _one, _ring, checked_in_place=False, any_count=True),
    Signature("all_gather", False, False, True, _ring, _ring, era="2.0"),
    Signature("reduce_scatter", True, False, True, _ring, _ring, era="2.0"),
    Signature("all_gather", False, False, True, _ring, _ring, era="hypercube"),
    Signature("all_gather", False, False, False, _others, _others, era=PER_RANK),
    Signature("reduce_scatter", True, False, False, _one, _others, era=PER_RANK),
)


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval of real numbers."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether the value is inside, but for the last bits of a float."""
        return self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)

    def meets(self, other: Interval) -> Interval | None:
        """The common part."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high) if low <= high else None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the rows of one table say, all together. Intervals: those precise enough to tell, the narrowest first."""

    redops: frozenset[str]
    roots: frozenset[int]
    old_columns: tuple[bool, bool] | None
    """Before 2.13 each op had a header of its own, so which columns there are tells: (redop, root). None: later."""
    per_count: int | None
    """s/(c e), where all rows agree on one whole number."""
    counts_differ: bool
    """They do not."""
    checked_in_place: bool | None
    """None: there is no in-place half, or nothing was checked at all, or (before 2.13) it was printed for every op."""
    algbw: tuple[Interval, ...]
    """algbw t/s."""
    busbw: tuple[Interval, ...]
    """busbw t/s."""
    ratio: tuple[Interval, ...]
    """busbw/algbw: a second way to the same factor, the better one where the time has few digits."""
    busbw_is_zero: bool
    """Every busbw is 0.00 although algbw is not: one rank."""
    is_nccl1: bool
    """Sizes may be those of one rank's part."""


MOST_INTERVALS = 200


def gather_evidence(
    halves: Sequence[Half],
    has_redop: bool | None,
    has_root: bool | None,
    is_nccl1: bool = False,
    was_validated: bool = False,
) -> Evidence:
    """Look over the rows of one table.

    `has_redop` and `has_root` are from its header, None without one. `was_validated`: its settings say that data is
    checked, so a row without a check is one that cannot be.
    """
    redops = frozenset(half.redop for half in halves if half.redop is not None)
    roots = frozenset(half.root for half in halves if half.root is not None)
    columns = (bool(redops) if has_redop is None else has_redop, bool(roots) if has_root is None else has_root)
    is_old = columns != (True, True) or any(not half.is_count for half in halves)
    moving = [half for half in halves if half.size and half.algbw is not None and half.busbw is not None]
    fast = [half for half in moving if half.algbw is not None and half.algbw > 10 * half.algbw_slack]
    per_counts = {_per_count(half) for half in halves} - {None}
    only = next(iter(per_counts)) if len(per_counts) == 1 else None
    return Evidence(
        redops=redops,
        roots=roots,
        old_columns=columns if is_old else None,
        per_count=None if only is None else _whole(only),
        counts_differ=len(per_counts) > 1,
        checked_in_place=_checked_in_place([half for half in halves if half.is_count], was_validated),
        algbw=_narrowest(_factor(half.algbw, half.algbw_slack, half) for half in moving),
        busbw=_narrowest(_factor(half.busbw, half.busbw_slack, half) for half in moving),
        ratio=_narrowest(_ratio(half) for half in moving),
        busbw_is_zero=bool(fast) and all(half.busbw == 0 for half in fast),
        is_nccl1=is_nccl1,
    )


def _per_count(half: Half) -> float | None:
    size_of = itemsize(half.dtype)
    if not half.size or not size_of:
        return None
    return half.size / (half.count * size_of) if half.count else math.inf


def _whole(value: float) -> int | None:
    return round(value) if math.isfinite(value) and abs(value - round(value)) < 1e-9 * value else None


def _checked_in_place(halves: Sequence[Half], was_validated: bool) -> bool | None:
    in_place = [half for half in halves if half.in_place is True]
    if any(half.check is not None for half in in_place):
        return True
    return False if in_place and (was_validated or any(half.check is not None for half in halves)) else None


def _factor(rate: float | None, slack: float, half: Half) -> Interval | None:
    """Rate x t / s as an interval, from the rounding of both; None where that is wider than a fifth."""
    if rate is None or rate <= 4 * slack or half.time_s <= 4 * half.time_slack_s:
        return None
    gigabytes = half.size / 1e9
    low = (rate - slack) * (half.time_s - half.time_slack_s) / gigabytes
    high = (rate + slack) * (half.time_s + half.time_slack_s) / gigabytes
    return Interval(low, high) if low > 0 and high - low < 0.2 * low else None


def _ratio(half: Half) -> Interval | None:
    algbw, busbw = half.algbw, half.busbw
    if algbw is None or busbw is None or algbw <= 4 * half.algbw_slack or busbw <= 4 * half.busbw_slack:
        return None
    low = (busbw - half.busbw_slack) / (algbw + half.algbw_slack)
    high = (busbw + half.busbw_slack) / (algbw - half.algbw_slack)
    return Interval(low, high) if high - low < 0.2 * low else None


def _narrowest(intervals: Iterable[Interval | None]) -> tuple[Interval, ...]:
    known = [interval for interval in intervals if interval is not None]
    return tuple(sorted(known, key=lambda one: (one.high - one.low) / one.low)[:MOST_INTERVALS])


ENOUGH = 0.8
"""A share of rows that must agree; single rows may be damaged."""


def _agree(intervals: Sequence[Interval], value: float) -> bool:
    return not intervals or sum(interval.holds(value) for interval in intervals) >= ENOUGH * len(intervals)


_OLD_COLUMNS = {
    "all_reduce": (True, False),
    "reduce_scatter": (True, False),
    "all_to_all": (True, False),
    "all_to_all_v": (True, False),
    "reduce": (True, True),
    "broadcast": (False, True),
    "gather": (False, True),
    "scatter": (False, True),
    "all_gather": (False, False),
    "send_recv": (False, False),
}
"""Which columns each op had before 2.13: (redop, root)."""


def _fits_columns(one: Signature, seen: Evidence) -> bool:
    if seen.old_columns is not None and seen.old_columns != _OLD_COLUMNS[one.op]:
        return False
    if (one.era == PER_RANK and not seen.is_nccl1) or (one.era == "2.0" and seen.old_columns is None):
        return False
    reductions = seen.redops - {"", "none"}
    if seen.redops and one.op != "send_recv" and one.reduces is not bool(reductions):
        return False
    if seen.roots and one.rooted is not any(root >= 0 for root in seen.roots):
        return False
    return seen.checked_in_place is None or seen.checked_in_place is one.checked_in_place


def _fits_numbers(one: Signature, n: int, seen: Evidence) -> bool:
    if one.any_count:
        if seen.per_count == n and n > 1:
            return False
    elif seen.counts_differ or (seen.per_count is not None and seen.per_count != (n if one.sharded else 1)):
        return False
    busbw, algbw = one.busbw_factor(n), one.algbw_factor(n)
    if busbw == 0 or seen.busbw_is_zero:
        return busbw == 0 and not seen.ratio and (seen.busbw_is_zero or not seen.busbw)
    return _agree(seen.algbw, algbw) and _agree(seen.busbw, busbw) and _agree(seen.ratio, busbw / algbw)


def fitting(seen: Evidence, n: int, among: Iterable[Signature] = SIGNATURES) -> tuple[Signature, ...]:
    """The signatures that fit the columns and the numbers at N = n."""
    return tuple(one for one in among if _fits_columns(one, seen) and _fits_numbers(one, n, seen))


def fitting_columns(seen: Evidence, among: Iterable[Signature] = SIGNATURES) -> tuple[Signature, ...]:
    """The signatures that fit the columns, whatever the numbers are."""
    return tuple(one for one in among if _fits_columns(one, seen))


def fitting_somewhere(seen: Evidence, among: Iterable[Signature]) -> tuple[Signature, ...]:
    """Those that fit the numbers at some N, for where N is not known."""

    def fits(one: Signature) -> bool:
        if one.busbw_factor is _one:
            return _fits_numbers(one, 2, seen)
        return bool(possible_world_sizes(seen, (one,)))

    return tuple(one for one in among if fits(one))


def ops_of(signatures: Iterable[Signature]) -> tuple[str, ...]:
    """Their ops, each once, the commonest first."""
    return tuple(dict.fromkeys(one.op for one in signatures))


def possible_world_sizes(seen: Evidence, among: Sequence[Signature]) -> tuple[int, ...]:
    """Every N at which one of the signatures fits, at most a few hundred of them; the likeliest first.

    Likelier are powers of two, then multiples of 8, 4 and 2: how many GPUs people have. Empty when nothing tells.
    """
    found: set[int] = set()
    for one in among:
        if one.sharded and not one.any_count and seen.per_count is not None:
            candidates: Iterable[int] = (seen.per_count,)
        elif one.busbw_factor is _one:
            continue
        elif seen.busbw_is_zero:
            candidates = (1,)
        else:
            candidates = _solutions(one, seen)
        found.update(n for n in candidates if 1 <= n <= LARGEST_WORLD and _fits_numbers(one, n, seen))
    return tuple(sorted(found, key=lambda n: (-_roundness(n), n)))


def _roundness(n: int) -> int:
    if n & (n - 1) == 0:
        return 4
    return next((score for score, factor in ((3, 8), (2, 4), (1, 2)) if n % factor == 0), 0)


def _solutions(one: Signature, seen: Evidence) -> Iterable[int]:
    """The N that the narrowest intervals of busbw allow."""
    intervals = [*seen.busbw[:20], *(seen.ratio[:20] if one.algbw_factor is _one else ())]
    if not intervals:
        return ()
    common = min(intervals, key=lambda each: (each.high - each.low) / each.low)
    for interval in intervals:
        common = common.meets(interval) or common
    low, high = common.low, common.high
    if one.busbw_factor is _others:
        return range(max(1, math.floor(low)), min(math.ceil(high) + 2, LARGEST_WORLD))
    if one.busbw_factor is _double:
        low, high = low / 2, high / 2
    if high < 0.45 or low >= 1:
        return ()
    least = max(2, math.floor(1 / (1 - low))) if low > 0.5 else 2
    most = min(math.ceil(1 / (1 - high)) if high < 1 else LARGEST_WORLD, LARGEST_WORLD)
    if most - least > 512:
        return [n for n in (2**power for power in range(1, 25)) if least <= n <= most]
    return range(least, most + 1)
