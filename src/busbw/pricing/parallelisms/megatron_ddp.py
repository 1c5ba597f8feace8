"""megatron_ddp: Megatron-Core's DistributedDataParallel, with or without the distributed optimizer.

Source: megatron/core/distributed/param_and_grad_buffer.py and param_layout.py, read, not run here. Gradients live in one
contiguous buffer in reverse registration order, float32 by default. A bucket closes once it holds
max(4e7, 1e6 x dp) elements; each parameter starts at a multiple of 64 elements, each bucket ends at one of lcm(dp, 128). With
the distributed optimizer a bucket is reduce-scattered, and its parameters are gathered in their own dtype after the step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from busbw.core.plan import Tensor, Unit
from busbw.pricing.parallelism import DataScheme, Job, Option, Parallelism, dtype_or_none, number, yes_or_no
from busbw.pricing.parallelisms._weave import woven
from busbw.pricing.stream import Events, call

_START = 64
_END = 128


class MegatronDdp(DataScheme):
    """Buckets of a padded buffer."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        n = job.group.size
        self.sharded = bool(job.options["distributed_optimizer"])
        limit = job.options["bucket_size"] or max(40_000_000, 1_000_000 * n)
        if not job.options["overlap"]:
            limit = math.inf
        self.buckets: list[list[Tensor]] = [[]]
        self.counts: list[int] = []
        start = end = 0
        for tensor in reversed(job.model.trainable):
            if self.sharded:
                end += -end % _START
            end += tensor.count
            self.buckets[-1].append(tensor)
            if end - start >= limit:
                end = self._close(start, end)
                start = end
                self.buckets.append([])
        if self.buckets[-1]:
            self._close(start, end)
        else:
            self.buckets.pop()

    def _close(self, start: int, end: int) -> int:
        if self.sharded:
            end += -end % math.lcm(self.job.group.size, _END)
        self.counts.append(end - start)
        return end

    def backward_pass(self, units: Sequence[Unit], micro_step: int, last: bool) -> Events:
        """Buckets leave in the last micro-step, as they fill."""
        computed = super().backward_pass(units, micro_step, last)
        if not last:
            return computed
        what = "reduce_scatter" if self.sharded else "all_reduce"
        dtype = self.job.options["grad_dtype"] or self.job.model.trainable[0].dtype
        calls: list[Events] = [
            [call(what, self.job.group, count, dtype, "backward", f"bucket {i}", tag="zero")]
            for i, count in enumerate(self.counts)
        ]
        return woven(computed, calls, self.buckets, units)

    def after_backward(self) -> Events:
        """The norm of all gradients, for clipping."""
        if not self.job.settings.clip:
            return []
        return [call("all_reduce", self.job.group, 1, "float32", "optimizer", "norm of the gradients")]

    def optimizer(self) -> Events:
        """The distributed optimizer gathers each bucket's parameters."""
        if not self.sharded:
            return []
        return [
            call("all_gather", self.job.group, count, bucket[0].dtype, "optimizer", f"parameters of bucket {i}")
            for i, (count, bucket) in enumerate(zip(self.counts, self.buckets, strict=True))
        ]


PARALLELISM = Parallelism(
    name="megatron_ddp",
    axis="data",
    summary="Megatron-Core's DDP: one padded gradient buffer; reduce-scatter and all-gather with its distributed optimizer",
    scheme=MegatronDdp,
    options=(
        Option("distributed_optimizer", True, yes_or_no, "shard optimizer states: reduce-scatter, then all-gather"),
        Option("bucket_size", None, number, "elements of a bucket; by default the larger of 4e7 and 1e6 x dp"),
        Option("overlap", True, yes_or_no, "overlap_grad_reduce; false: one bucket"),
        Option("grad_dtype", "float32", dtype_or_none, "what gradients are reduced in; none: the parameters' dtype"),
    ),
    sources=("Megatron-LM core/distributed/param_and_grad_buffer.py", "Megatron-LM core/distributed/param_layout.py"),
    notes=("Megatron's calls were read in its source and not run here",),
    tries=(("grad_dtype", "bfloat16", "gradients are reduced in bfloat16"),),
)
