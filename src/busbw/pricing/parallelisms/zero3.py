"""zero3: DeepSpeed ZeRO stage 3: parameters are sharded, gathered when they are used, in forward and again in backward.

Source: deepspeed/runtime/zero/stage3.py, partition_parameters.py, partitioned_param_coordinator.py and
runtime/comm/coalesced_collectives.py, read, not run here. Each parameter is padded to a multiple of N; parameters of at
most param_persistence_threshold elements stay gathered and are gathered again after each step; the others travel
coalesced, up to prefetch_bucket_size elements a call. Gradients are reduce-scattered, each padded to a multiple of N.
"""

from __future__ import annotations

from collections.abc import Sequence

from busbw.core.plan import Tensor, Unit
from busbw.pricing.parallelism import DataScheme, Job, Option, Parallelism, number
from busbw.pricing.parallelisms._weave import woven
from busbw.pricing.stream import Compute, Events, Wait, call
from busbw.units import format_decimal


class Zero3(DataScheme):
    """Gathers in both directions, reduce-scatters in every micro-step."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        least = job.options["param_persistence_threshold"]
        self.kept = [tensor for tensor in job.model.parameters if tensor.count <= least]
        self.travelling = {tensor.name for tensor in job.model.parameters if tensor.count > least}
        n = job.group.size
        total = sum(tensor.size_bytes for tensor in job.model.trainable) * (n - 1) / n
        if n > 1:
            self.notes.append(
                f"the textbook's ZeRO-3 sends 3 x {format_decimal(total)} a rank; small parameters stay gathered here"
            )

    def _padded(self, tensor: Tensor) -> int:
        return tensor.count + -tensor.count % self.job.group.size

    def _groups(self, tensors: Sequence[Tensor], limit: float) -> list[list[Tensor]]:
        groups: list[list[Tensor]] = []
        size = 0
        for tensor in tensors:
            if not groups or size + tensor.count > limit or groups[-1][0].dtype != tensor.dtype:
                groups.append([])
                size = 0
            groups[-1].append(tensor)
            size += tensor.count
        return groups

    def _gathers(self, units: Sequence[Unit], phase: str) -> dict[str, Events]:
        """The calls by the unit that first needs something of them."""
        ordered = [tensor for unit in units for tensor in unit.tensors if tensor.name in self.travelling]
        unit_of = {tensor.name: unit.name for unit in units for tensor in unit.tensors}
        found: dict[str, Events] = {}
        for group in self._groups(ordered, self.job.options["prefetch_bucket_size"]):
            count, first = sum(self._padded(tensor) for tensor in group), unit_of[group[0].name]
            name = group[0].name if len(group) == 1 else f"{group[0].name} and {len(group) - 1} more"
            issue = call(
                "all_gather", self.job.group, count, group[0].dtype, phase, name, tag=f"fetch {first}", ahead=True
            )
            found.setdefault(first, []).append(issue)
        return found

    def constructor(self) -> Events:
        """The engine broadcasts every parameter from rank 0 before it is cut."""
        return [
            call("broadcast", self.job.group, tensor.count, tensor.dtype, "constructor", tensor.name)
            for tensor in self.job.model.parameters
        ]

    def forward_pass(self, units: Sequence[Unit], micro_step: int, last: bool) -> Events:
        """Parameters arrive ahead of the unit that needs them."""
        return self._with_gathers(super().forward_pass(units, micro_step, last), self._gathers(units, "forward"))

    def backward_pass(self, units: Sequence[Unit], micro_step: int, last: bool) -> Events:
        """They arrive again, and gradients leave in buckets."""
        computed = super().backward_pass(units, micro_step, last)
        computed = self._with_gathers(computed, self._gathers(list(reversed(units)), "backward"))
        buckets = self._groups(self.job.model.arriving, self.job.options["reduce_bucket_size"])
        calls: list[Events] = []
        for index, bucket in enumerate(buckets):
            count = sum(self._padded(tensor) for tensor in bucket)
            name = f"bucket {index}"
            calls.append([call("reduce_scatter", self.job.group, count, bucket[0].dtype, "backward", name, tag="zero")])
        return woven(computed, calls, buckets, units)

    def _with_gathers(self, computed: Events, gathers: dict[str, Events]) -> Events:
        events: Events = []
        for event in computed:
            if isinstance(event, Compute) and event.unit in gathers:
                events += [*gathers.pop(event.unit), Wait(f"fetch {event.unit}")]
            events.append(event)
        return events

    def optimizer(self) -> Events:
        """Overflow and norm as scalars; parameters that stay gathered are gathered anew."""
        group = self.job.group
        events: Events = [
            call("all_reduce", group, 1, "float32", "optimizer", "overflow check", redop="max"),
            call("all_reduce", group, 1, "float32", "optimizer", "norm of the gradients"),
        ]
        for same in self._groups(self.kept, float("inf")):
            count = sum(self._padded(tensor) for tensor in same)
            events.append(call("all_gather", group, count, same[0].dtype, "optimizer", f"{len(same)} small parameters"))
        return events


PARALLELISM = Parallelism(
    name="zero3",
    axis="data",
    summary="DeepSpeed ZeRO-3: parameters gathered in forward and in backward, gradients reduce-scattered",
    scheme=Zero3,
    options=(
        Option("prefetch_bucket_size", 5e7, number, "elements of one coalesced gather"),
        Option("param_persistence_threshold", 1e5, number, "parameters of so many elements or fewer stay gathered"),
        Option("reduce_bucket_size", 5e8, number, "elements of a gradient bucket"),
    ),
    sources=("DeepSpeed runtime/zero/stage3.py", "DeepSpeed runtime/comm/coalesced_collectives.py"),
    notes=("DeepSpeed's calls were read in its source and not run here",),
)
