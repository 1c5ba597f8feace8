"""zero2: DeepSpeed ZeRO stage 2: gradients are sharded too, so that every micro-step reduces them."""

from __future__ import annotations

from busbw.pricing.parallelism import Parallelism
from busbw.pricing.parallelisms._zero import NOTES, OPTIONS, SOURCES, TRIES, Zero


class Zero2(Zero):
    """Stage 2."""

    every_micro_step = True


PARALLELISM = Parallelism(
    name="zero2",
    axis="data",
    summary="DeepSpeed ZeRO-2 as it runs by default: all-reduced buckets, then parameters gathered",
    scheme=Zero2,
    options=OPTIONS,
    sources=SOURCES,
    notes=NOTES,
    tries=TRIES,
)
