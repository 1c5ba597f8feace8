"""multi_ring: several rings at once, each with its part of the tensor: NCCL's channels.

Rings in different orders use different links, and both directions of each. By default channel 0 goes up by 1, channel 1
down by 1, the next ones up and down by the next step that N has no divisor in common with; where N has no more, it
begins again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from busbw.algorithms import ring
from busbw.algorithms._patterns import order_of, whole_number
from busbw.core.schedule import Algorithm, Schedule
from busbw.errors import UsageError

Orders = Sequence[Sequence[int]] | None


def strides(world_size: int, channels: int) -> list[int]:
    """The step of each channel's ring, modulo N."""
    found: list[int] = []
    for step in range(1, world_size // 2 + 1):
        if len(found) >= channels:
            break
        if math.gcd(step, world_size) == 1:
            found += [step, world_size - step] if world_size > 2 else [step]
    return [found[channel % len(found)] for channel in range(channels)]


def _schedule(collective: str, world_size: int, channels: int | None, orders: Orders) -> Schedule:
    options: dict[str, Any] = {}
    if orders is not None:
        if channels is not None:
            raise UsageError("channels and orders both say how many rings there are: use one of them")
        if not orders or not all(isinstance(order, Sequence) for order in orders):
            orders = (orders,)  # type: ignore[assignment] # one ring: orders=0-2-1-3
        rings = [tuple(order_of(world_size, order).tolist()) for order in orders or ()]
        options["orders"] = tuple(rings)
    else:
        count = 2 if channels is None else whole_number("channels", channels, 1, 1024)
        steps = strides(world_size, count)
        rings = [tuple((step * position) % world_size for position in range(world_size)) for step in steps]
        options["channels"] = count
    builder: Callable[..., Schedule] = ring.ALGORITHM.builders[collective]
    parts = tuple((1 / len(rings), builder(world_size, order=order)) for order in rings)
    return Schedule("multi_ring", collective, world_size, world_size, (), parts=parts, options=options)


def all_reduce(world_size: int, *, root: int = 0, channels: int | None = None, orders: Orders = None) -> Schedule:
    """A ring all-reduce in each channel."""
    return _schedule("all_reduce", world_size, channels, orders)


def reduce_scatter(world_size: int, *, root: int = 0, channels: int | None = None, orders: Orders = None) -> Schedule:
    """A ring reduce-scatter in each channel."""
    return _schedule("reduce_scatter", world_size, channels, orders)


def all_gather(world_size: int, *, root: int = 0, channels: int | None = None, orders: Orders = None) -> Schedule:
    """A ring all-gather in each channel."""
    return _schedule("all_gather", world_size, channels, orders)


ALGORITHM = Algorithm(
    name="multi_ring",
    summary="Several rings at once in different orders, each with its part of the tensor.",
    source="NCCL's channels",
    builders={"all_reduce": all_reduce, "reduce_scatter": reduce_scatter, "all_gather": all_gather},
    options={
        "channels": "rings (default: 2, one each way)",
        "orders": "the order of each ring instead: 0-1-2-3/0-2-1-3",
    },
)
