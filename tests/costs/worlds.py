"""Rows from known worlds: T of a form, with a relative scatter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from busbw.core.call import Call
from busbw.core.collective import COLLECTIVES
from busbw.core.cost_form import Overlap
from busbw.core.measurement import Measurement

SIZES = tuple(2**power for power in range(3, 34))


def rows_of(
    form: Overlap,
    *,
    sizes: Sequence[int] = SIZES,
    scatter: float = 0.0,
    seed: int = 0,
    collective: str = "all_reduce",
    world_size: int = 8,
    labels: dict[str, str] | None = None,
) -> list[Measurement]:
    noise = np.random.default_rng(seed).standard_normal(len(sizes))
    return [
        Measurement(
            Call(collective, size, world_size), form.seconds(size) * float(np.exp(scatter * z)), labels=labels or {}
        )
        for size, z in zip(sizes, noise, strict=True)
    ]


def ring(launch_s: float, alpha_s: float, bandwidth_Bps: float, world_size: int) -> Overlap:  # noqa: N803
    """T = t0 + 2(N-1) alpha + 2(N-1)/N S/B of a ring all-reduce."""
    factor = COLLECTIVES.get("all_reduce").bus_factor(world_size)
    return Overlap(launch_s + 2 * (world_size - 1) * alpha_s, factor / bandwidth_Bps)
