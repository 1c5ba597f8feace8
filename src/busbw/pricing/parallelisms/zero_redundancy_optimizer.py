"""zero_redundancy_optimizer: torch's ZeroRedundancyOptimizer on top of DistributedDataParallel.

Source: torch/distributed/optim/zero_redundancy_optimizer.py (2.13). Parameters go to ranks greedily, the largest first to
the rank that holds least. After the local step every rank broadcasts what it owns: one call a parameter, or one a rank
with parameters_as_bucket_view. All of it is exposed.
"""

from __future__ import annotations

from busbw.core.plan import Tensor
from busbw.pricing.parallelism import Job, Option, Parallelism, yes_or_no
from busbw.pricing.parallelisms import ddp
from busbw.pricing.stream import Events, call


class ZeroRedundancy(ddp.Ddp):
    """DDP's gradients, and broadcasts in the optimizer."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.owned: list[list[Tensor]] = [[] for _ in range(job.group.size)]
        sizes = [0] * job.group.size
        for tensor in sorted(self.trainable, key=lambda each: each.count, reverse=True):
            owner = sizes.index(min(sizes))
            self.owned[owner].append(tensor)
            sizes[owner] += tensor.count

    def optimizer(self) -> Events:
        """Rank by rank, what each owns."""
        group, events = self.job.group, []
        for rank, tensors in enumerate(self.owned):
            if self.job.options["parameters_as_bucket_view"]:
                count = sum(tensor.count for tensor in tensors)
                dtype = tensors[-1].dtype if count else "float32"
                events.append(
                    call("broadcast", group, count or 1, dtype, "optimizer", f"rank {rank}'s parameters", root=rank)
                )
            else:
                events += [
                    call("broadcast", group, each.count, each.dtype, "optimizer", each.name, root=rank)
                    for each in tensors
                ]
        return list(events)


PARALLELISM = Parallelism(
    name="zero_redundancy_optimizer",
    axis="data",
    summary="torch ZeroRedundancyOptimizer: DDP's all-reduces, then each rank broadcasts the parameters that it updates",
    scheme=ZeroRedundancy,
    options=(
        *ddp.PARALLELISM.options,
        Option("parameters_as_bucket_view", False, yes_or_no, "one broadcast a rank, not one a parameter"),
    ),
    sources=("torch/distributed/optim/zero_redundancy_optimizer.py",),
    tries=(
        *ddp.PARALLELISM.tries,
        ("parameters_as_bucket_view", True, "one broadcast a rank, not one a parameter"),
    ),
)
