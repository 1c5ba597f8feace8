"""Buckets leave while backward goes on: their calls are put behind the computation that fills them."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.core.plan import Tensor, Unit
from busbw.pricing.stream import Compute, Event, Events, Wait


def woven(
    computed: Events,
    calls: Sequence[Events],
    buckets: Sequence[Sequence[Tensor]],
    units: Sequence[Unit],
    tag: str = "zero",
) -> Events:
    """Each bucket's calls behind the computation that finishes its last gradient, in the order of the buckets."""
    unit_of = {tensor.name: unit.name for unit in units for tensor in unit.tensors}
    place = {event.unit: index for index, event in enumerate(computed) if isinstance(event, Compute)}
    behind: dict[int, list[Event]] = {}
    latest = -1
    for issues, bucket in zip(calls, buckets, strict=True):
        latest = max([latest, *(place.get(unit_of.get(tensor.name, ""), -1) for tensor in bucket if tensor.used)])
        behind.setdefault(latest, []).extend(issues)
    events: Events = list(behind.pop(-1, []))
    for index, event in enumerate(computed):
        events += [event, *behind.get(index, ())]
    return [*events, Wait(tag)]
