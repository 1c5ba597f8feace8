"""DeepSpeed's ZeRO stages 1 and 2, which communicate alike: what its defaults really do, and the textbook's way.

Source: deepspeed/runtime/zero/stage_1_and_2.py and engine.py, read, not run here. Gradients go into buckets of at most
reduce_bucket_size elements, in the order in which they arrive, in the model's own dtype. With its defaults
(reduce_scatter and use_multi_rank_bucket_allreduce) each bucket is all-REDUCED, not reduce-scattered; with the second off
it is one reduce to each rank that owns a part. After the step the parameters are gathered, padded to 2 N elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from busbw.core.plan import Tensor, Unit
from busbw.pricing.parallelism import DataScheme, Job, Option, number, yes_or_no
from busbw.pricing.parallelisms._weave import woven
from busbw.pricing.stream import Events, call
from busbw.units import format_decimal

OPTIONS = (
    Option("reduce_bucket_size", 5e8, number, "elements of a gradient bucket"),
    Option("allgather_bucket_size", 5e8, number, "elements of one all-gather after the step"),
    Option(
        "multi_rank_bucket",
        True,
        yes_or_no,
        "use_multi_rank_bucket_allreduce: all-reduce a bucket; false: reduce to its owners",
    ),
    Option("textbook", False, yes_or_no, "the paper's way: reduce-scatter gradients, all-gather parameters"),
)
SOURCES = ("DeepSpeed runtime/zero/stage_1_and_2.py",)
NOTES = ("DeepSpeed's calls were read in its source and not run here",)
TRIES = (
    ("textbook", True, "what reduce-scatter would send; DeepSpeed does not do it by default"),
    ("multi_rank_bucket", False, "use_multi_rank_bucket_allreduce off: each part is reduced to its owner"),
)


class Zero(DataScheme):
    """Optimizer states are sharded; `every_micro_step` reduces gradients in each (stage 2), else in the last one."""

    every_micro_step = False

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.buckets = self._buckets()
        n = job.group.size
        self.padded = {dtype: count + -count % (2 * n) for dtype, count in self._counts().items()}
        if not job.options["textbook"] and n > 1:
            self._compare()

    def _counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for tensor in self.job.model.trainable:
            counts[tensor.dtype] = counts.get(tensor.dtype, 0) + tensor.count
        return counts

    def _buckets(self) -> list[list[Tensor]]:
        limit, buckets = self.job.options["reduce_bucket_size"], list[list[Tensor]]()
        size = 0
        for tensor in self.job.model.arriving:
            fits = buckets and size + tensor.count <= limit and buckets[-1][0].dtype == tensor.dtype
            if not fits:
                buckets.append([])
                size = 0
            buckets[-1].append(tensor)
            size += tensor.count
        return buckets

    def _compare(self) -> None:
        n = self.job.group.size
        total = sum(tensor.size_bytes for tensor in self.job.model.trainable)
        unit = format_decimal((n - 1) / n * total)
        self.notes.append(
            f"DeepSpeed's defaults all-reduce gradients and gather parameters: 3 x {unit} sent a rank; the textbook's "
            f"reduce-scatter and all-gather would send 2 x {unit} (textbook=true prices it)"
        )

    def constructor(self) -> Events:
        """The engine broadcasts every parameter from rank 0, one by one."""
        return [
            call("broadcast", self.job.group, tensor.count, tensor.dtype, "constructor", tensor.name)
            for tensor in self.job.model.parameters
        ]

    def backward_pass(self, units: Sequence[Unit], micro_step: int, last: bool) -> Events:
        """Buckets leave as they fill."""
        computed = super().backward_pass(units, micro_step, last)
        if not (last or self.every_micro_step):
            return computed
        return woven(computed, [self._reduce(i, bucket) for i, bucket in enumerate(self.buckets)], self.buckets, units)

    def _reduce(self, index: int, bucket: Sequence[Tensor]) -> Events:
        group, n = self.job.group, self.job.group.size
        count, dtype, name = sum(tensor.count for tensor in bucket), bucket[0].dtype, f"bucket {index}"
        if self.job.options["textbook"]:
            return [call("reduce_scatter", group, count + -count % n, dtype, "backward", name, tag="zero")]
        if self.job.options["multi_rank_bucket"]:
            return [call("all_reduce", group, count, dtype, "backward", name, tag="zero")]
        shares = [count * (rank + 1) // n - count * rank // n for rank in range(n)]
        return [
            call("reduce", group, share, dtype, "backward", f"{name}, part of rank {rank}", tag="zero", root=rank)
            for rank, share in enumerate(shares)
            if share
        ]

    def optimizer(self) -> Events:
        """Overflow and norm as scalars, then the parameters that every rank updated its part of."""
        group = self.job.group
        events: Events = []
        if not self.job.options["textbook"]:
            events.append(call("all_reduce", group, 1, "float32", "optimizer", "overflow check", redop="max"))
            events.append(call("all_reduce", group, 1, "float32", "optimizer", "norm of the gradients"))
        for dtype, count in self.padded.items():
            pieces = max(1, int(count // self.job.options["allgather_bucket_size"]))
            n = group.size
            sizes = [count // n // pieces * n] * (pieces - 1)
            sizes.append(count - sum(sizes))
            events += [call("all_gather", group, size, dtype, "optimizer", "updated parameters") for size in sizes]
        return events
