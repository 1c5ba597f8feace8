"""muon: a distributed Muon optimizer on top of DDP: each rank orthogonalises its share of the matrices.

Rank i mod N owns matrix i of the blocks. `sync=all_reduce` is the post's way: after DDP every rank fills a flat bfloat16
buffer with its own updates (zeros elsewhere), and ONE all-reduce of all of it ends the step: 2(N-1)/N x 2P bytes, exposed.
`sync=all_gather` gathers the same updates, for half of that. `sync=reduce_scatter` reduces each matrix's gradient to its
owner instead of DDP's all-reduce (padded to N equal shares), then gathers the updates: what ZeRO does, for Muon.
Embeddings, head and vectors stay with DDP and an optimizer of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw.core.plan import Tensor, Unit
from busbw.pricing.parallelism import Job, Option, Parallelism, dtype_or_none, one_of
from busbw.pricing.parallelisms import ddp
from busbw.pricing.parallelisms._weave import woven
from busbw.pricing.stream import Events, Issue, call


class Muon(ddp.Ddp):
    """DDP, and one flat exchange of updates."""

    def __init__(self, job: Job) -> None:
        self.matrices = [
            tensor
            for tensor in job.model.trainable
            if len(tensor.shape) >= 2
            and (not job.model.blocks or any(tensor.inside(block) for block in job.model.blocks))
        ]
        if job.options["sync"] == "reduce_scatter":  # DDP leaves the matrices alone
            names = {tensor.name for tensor in self.matrices}
            tensors = tuple(replace(t, trainable=t.trainable and t.name not in names) for t in job.model.tensors)
            arrival = tuple(name for name in job.model.arrival if name not in names)
            job = replace(job, model=replace(job.model, tensors=tensors, arrival=arrival))
        super().__init__(job)
        n = job.group.size
        loads = [sum(tensor.count for tensor in self.matrices[rank::n]) for rank in range(n)]
        self.share = max(loads, default=0)
        total = sum(tensor.count for tensor in self.matrices)
        if total:
            self.notes.append(
                f"the busiest rank orthogonalises {self.share * n / total:.2f} times its even share of the matrices"
            )

    def backward_pass(self, units: Sequence[Unit], micro_step: int, last: bool) -> Events:
        """With sync=reduce_scatter the matrices' gradients go to their owners, N at a time."""
        events = super().backward_pass(units, micro_step, last)
        if self.job.options["sync"] != "reduce_scatter" or not last:
            return events
        n = self.job.group.size
        ordered = list(reversed(self.matrices))
        buckets = [ordered[i : i + n] for i in range(0, len(ordered), n)]
        return woven(events, [[self._to_owners(i, bucket)] for i, bucket in enumerate(buckets)], buckets, units, "muon")

    def _to_owners(self, index: int, bucket: Sequence[Tensor]) -> Issue:
        count = max(tensor.count for tensor in bucket) * self.job.group.size
        return call(
            "reduce_scatter", self.job.group, count, bucket[0].dtype, "backward", f"matrices {index}", tag="muon"
        )

    def optimizer(self) -> Events:
        """Every rank's updates, on every rank."""
        n, dtype = self.job.group.size, self.job.options["update_dtype"] or "bfloat16"
        total = sum(tensor.count for tensor in self.matrices)
        if not total:
            return []
        if self.job.options["sync"] == "all_reduce":
            return [call("all_reduce", self.job.group, total, dtype, "optimizer", "updates of all matrices, flat")]
        return [
            call("all_gather", self.job.group, self.share * n, dtype, "optimizer", "updates of all matrices, by owner")
        ]


PARALLELISM = Parallelism(
    name="muon",
    axis="data",
    summary="DDP and a distributed Muon: each rank's updates of its matrices in one flat all-reduce (or all-gather)",
    scheme=Muon,
    options=(
        *ddp.PARALLELISM.options,
        Option(
            "sync",
            "all_reduce",
            one_of("all_reduce", "all_gather", "reduce_scatter"),
            "how gradients and updates travel",
        ),
        Option("update_dtype", "bfloat16", dtype_or_none, "what updates travel in"),
    ),
    tries=(
        *ddp.PARALLELISM.tries,
        ("sync", "all_gather", "updates are gathered, not summed with zeros"),
        ("sync", "reduce_scatter", "matrices' gradients go to their owners alone"),
    ),
)
