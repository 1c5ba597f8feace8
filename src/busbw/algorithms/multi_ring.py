"""multi_ring: several rings at once, each with its part of the tensor: NCCL's channels.

Rings in different orders use different links, and both directions of each. By default channel 0 goes up by 1, channel 1
down by 1, the next ones up and down by the next step that N has no divisor in common with; where N has no more, it
begins again.

With `ranks_per_host` the rings go through each host in turn, and channel c enters a host at its rank c: so each channel
crosses hosts by another rank and its NIC, as NCCL's do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from busbw.algorithms import ring
from busbw.algorithms._patterns import order_of, whole_number
from busbw.core.schedule import Algorithm, Builder, Schedule
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


def over_hosts(world_size: int, channels: int, ranks_per_host: int) -> list[tuple[int, ...]]:
    """The order of each channel: host by host, from rank c of each on, around inside the host."""
    if world_size % ranks_per_host:
        raise UsageError(f"ranks_per_host={ranks_per_host}: must divide the {world_size} ranks")
    return [
        tuple(
            host * ranks_per_host + (channel + place) % ranks_per_host
            for host in range(world_size // ranks_per_host)
            for place in range(ranks_per_host)
        )
        for channel in range(channels)
    ]


def _schedule(
    collective: str,
    world_size: int,
    channels: int | None,
    orders: Orders,
    ranks_per_host: int | None,
    root: int = 0,
    chunks: int | None = None,
) -> Schedule:
    options: dict[str, Any] = {}
    if orders is not None:
        if channels is not None:
            raise UsageError("channels and orders both say how many rings there are: use one of them")
        if ranks_per_host is not None:
            raise UsageError("ranks_per_host and orders both say how the rings go: use one of them")
        if not orders or not all(isinstance(order, Sequence) for order in orders):
            orders = (orders,)  # type: ignore[assignment] # one ring: orders=0-2-1-3
        rings = [tuple(order_of(world_size, order).tolist()) for order in orders or ()]
        options["orders"] = tuple(rings)
    elif ranks_per_host is not None:
        local = whole_number("ranks_per_host", ranks_per_host)
        count = local if channels is None else whole_number("channels", channels, 1, 1024)
        rings = over_hosts(world_size, count, local)
        options |= {"channels": count, "ranks_per_host": local}
    else:
        count = 2 if channels is None else whole_number("channels", channels, 1, 1024)
        steps = strides(world_size, count)
        rings = [tuple((step * position) % world_size for position in range(world_size)) for step in steps]
        options["channels"] = count
    builder: Callable[..., Schedule] = ring.ALGORITHM.builders[collective]
    more: dict[str, Any] = {}
    if collective in ("broadcast", "reduce"):
        more = {"root": root, "chunks": chunks}
        options |= {} if chunks is None else {"chunks": chunks}
    parts = tuple((1 / len(rings), builder(world_size, order=order, **more)) for order in rings)
    return Schedule(
        "multi_ring", collective, world_size, parts[0][1].chunks, (), root=root, parts=parts, options=options
    )


def _around(collective: str) -> Builder:
    """The ring's own schedule of the collective, in each channel."""

    def build(
        world_size: int,
        *,
        root: int = 0,
        channels: int | None = None,
        orders: Orders = None,
        ranks_per_host: int | None = None,
    ) -> Schedule:
        return _schedule(collective, world_size, channels, orders, ranks_per_host)

    return build


def _along(collective: str) -> Builder:
    """A pipeline of `chunks` pieces along each ring, from the root or to it."""

    def build(
        world_size: int,
        *,
        root: int = 0,
        channels: int | None = None,
        orders: Orders = None,
        ranks_per_host: int | None = None,
        chunks: int | None = None,
    ) -> Schedule:
        return _schedule(collective, world_size, channels, orders, ranks_per_host, root, chunks)

    return build


ALGORITHM = Algorithm(
    name="multi_ring",
    summary="Several rings at once in different orders, each with its part of the tensor.",
    source="NCCL's channels",
    builders={
        **{name: _around(name) for name in ("all_reduce", "reduce_scatter", "all_gather")},
        **{name: _along(name) for name in ("broadcast", "reduce")},
    },
    options={
        "channels": "rings (default: 2, one each way)",
        "orders": "the order of each ring instead: 0-1-2-3/0-2-1-3",
        "chunks": "broadcast and reduce: pieces that follow each other down each ring (default: 4(N-2))",
        "ranks_per_host": "rings host by host, each crossing by another rank (then channels: as many as ranks of a host)",
    },
)
