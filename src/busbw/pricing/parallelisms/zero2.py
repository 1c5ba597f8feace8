"""zero2: DeepSpeed ZeRO stage 2: gradients are sharded too, so that every micro-step reduces them."""

from __future__ import annotations

from busbw.pricing.parallelism import Parallelism
from busbw.pricing.parallelisms._zero import OPTIONS, Zero


class Zero2(Zero):
    """Stage 2."""

    every_micro_step = True


PARALLELISM = Parallelism(
    name="zero2",
    axis="data",
    summary="DeepSpeed ZeRO-2 as it runs by default: all-reduced buckets, then parameters gathered",
    scheme=Zero2,
    options=OPTIONS,
    sources=("DeepSpeed runtime/zero/stage_1_and_2.py",),
    notes=("DeepSpeed's calls were read in its source and not run here",),
    tries=(
        ("textbook", True, "what reduce-scatter would send; DeepSpeed does not do it by default"),
        ("multi_rank_bucket", False, "use_multi_rank_bucket_allreduce off: each part is reduced to its owner"),
    ),
)
