"""zero1: DeepSpeed ZeRO stage 1: optimizer states are sharded; gradients are reduced once, in the last micro-step."""

from __future__ import annotations

from busbw.pricing.parallelism import Parallelism
from busbw.pricing.parallelisms._zero import NOTES, OPTIONS, SOURCES, TRIES, Zero


class Zero1(Zero):
    """Stage 1."""

    every_micro_step = False


PARALLELISM = Parallelism(
    name="zero1",
    axis="data",
    summary="DeepSpeed ZeRO-1 as it runs by default: all-reduced buckets, then parameters gathered",
    scheme=Zero1,
    options=OPTIONS,
    sources=SOURCES,
    notes=NOTES,
    tries=TRIES,
)
