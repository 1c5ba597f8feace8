"""The gradient synchronisation of one step, three ways: tensor by tensor, in buckets, in one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from busbw.core.call import Call
from busbw.core.cost_model import Estimate
from busbw.core.dtype import DTYPES
from busbw.core.plan import Model
from busbw.pricing.profile import Profile
from busbw.units import KIB

SMALL_SHARE = 1e-3
"""Tensors are small together while they hold no more than this share of the bytes."""


@dataclass(frozen=True, slots=True)
class Sync:
    """One way to synchronise, over `calls` all-reduces of `size_bytes` together."""

    how: str
    dtype: str
    calls: int
    size_bytes: int
    seconds: float
    low: float
    high: float
    latency_s: float
    bandwidth_s: float

    def to_json(self) -> dict[str, object]:
        """A plain dictionary of the fields."""
        return {name: getattr(self, name) for name in self.__slots__}


def all_reduces(how: str, counts: Sequence[int], dtype: str, world_size: int, profile: Profile) -> Sync:
    """All-reduces of so many elements, one after the other."""
    sizes = [count * DTYPES[dtype].itemsize for count in counts]
    found = [profile.estimate(Call("all_reduce", size, world_size, dtype, "sum")) for size in sizes]
    return Sync(how, dtype, len(sizes), sum(sizes), *_sums(found))


def _sums(found: Iterable[Estimate]) -> tuple[float, float, float, float, float]:
    """Sums; the bounds too, because what a profile gets wrong it gets wrong for all calls alike."""
    rows = list(found)
    return (
        sum(each.seconds for each in rows),
        sum(each.low for each in rows),
        sum(each.high for each in rows),
        sum(each.latency_s for each in rows),
        sum(each.bandwidth_s for each in rows),
    )


def small_tensors(model: Model) -> tuple[int, ...]:
    """Element counts of the smallest tensors that together hold at most 0.1 % of the gradients."""
    counts = sorted(tensor.count for tensor in model.trainable)
    budget, kept = SMALL_SHARE * sum(counts), list[int]()
    for count in counts:
        if sum(kept) + count > budget:
            break
        kept.append(count)
    return tuple(kept)


def ways(model: Model, buckets: Sequence[int], world_size: int, profile: Profile, dtypes: Sequence[str]) -> list[Sync]:
    """Tensor by tensor, the small ones among them, in these buckets (elements), and in one call, for each wire dtype."""
    counts = [tensor.count for tensor in model.trainable]
    found = []
    for dtype in dtypes:
        found.append(all_reduces("tensor by tensor", counts, dtype, world_size, profile))
        small = small_tensors(model)
        if len(small) > 1:
            found.append(all_reduces("of these, the small ones", small, dtype, world_size, profile))
        if len(buckets) > 1:
            found.append(all_reduces("in buckets", buckets, dtype, world_size, profile))
        found.append(all_reduces("in one call", [sum(counts)], dtype, world_size, profile))
    return found


def floor(world_size: int, profile: Profile) -> tuple[float, float]:
    """Seconds of one all-reduce of 4 KiB and of 64 KiB: where a call is latency alone, on most machines."""
    small, large = (profile.estimate(Call("all_reduce", size, world_size)) for size in (4 * KIB, 64 * KIB))
    return small.seconds, large.seconds
