"""zero1: DeepSpeed ZeRO stage 1: optimizer states are sharded; gradients are reduced once, in the last micro-step."""

from __future__ import annotations

from busbw.pricing.parallelism import Parallelism
from busbw.pricing.parallelisms._zero import OPTIONS, Zero


class Zero1(Zero):
    """Stage 1."""

    every_micro_step = False


PARALLELISM = Parallelism(
    name="zero1",
    axis="data",
    summary="DeepSpeed ZeRO-1 as it runs by default: all-reduced buckets, then parameters gathered",
    scheme=Zero1,
    options=OPTIONS,
    sources=("DeepSpeed runtime/zero/stage_1_and_2.py",),
    notes=("DeepSpeed's calls were read in its source and not run here",),
    tries=(
        ("textbook", True, "what reduce-scatter would send; DeepSpeed does not do it by default"),
        ("multi_rank_bucket", False, "use_multi_rank_bucket_allreduce off: each part is reduced to its owner"),
    ),
)
