"""ddp: torch's DistributedDataParallel, call by call as torch 2.13 makes them.

Source: torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.cpp and comm.hpp (2.13); checked call by
call in docs/pricing-exactness.md.

- Constructor: the number of parameters is gathered (int64), their dimensions and strides are broadcast (int64), then all
  parameters and buffers, coalesced by dtype into buckets of 250 MiB.
- Iteration 1 has one bucket a dtype (with find_unused_parameters: the limits, in registration order). In iteration 2 the
  buckets are rebuilt in the order in which gradients arrived, announced by two int32 broadcasts. With static_graph that is
  iteration 3; with find_unused_parameters, never.
- A bucket closes once its size reaches the limit: 1 MiB for the first and then 25 MiB; an explicit bucket_cap_mb is both.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from busbw.core.dtype import DTYPES
from busbw.core.plan import Tensor, Unit
from busbw.pricing.parallelism import DataScheme, Job, Option, Parallelism, number, one_of, yes_or_no
from busbw.pricing.parallelisms._weave import woven
from busbw.pricing.stream import Event, Events, Issue, Wait, call, tensors_by_limit
from busbw.units import MIB

FIRST_BUCKET_BYTES = 1 * MIB
BUCKET_BYTES = 25 * MIB
BROADCAST_BYTES = 250 * MIB
HOOKS = {"fp16": "float16", "bf16": "bfloat16"}
TAG = "ddp"


class Ddp(DataScheme):
    """One model replica a rank; gradients are all-reduced by buckets while backward goes on."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        options = job.options
        self.static = bool(options["static_graph"])
        self.find_unused = bool(options["find_unused_parameters"]) and not self.static
        cap = options["bucket_cap_mb"]
        self.limits = [FIRST_BUCKET_BYTES, BUCKET_BYTES] if cap is None else [int(cap * MIB)]
        self.trainable = job.model.trainable
        initial = self.limits if options["find_unused_parameters"] and not self.static else [sys.maxsize]
        self.buckets = [
            [self.trainable[i] for i in members]
            for members in reversed(tensors_by_limit(_sizes(self.trainable), initial))
        ]
        self.backwards = 0
        """Synchronised backwards so far."""
        self.rebuilt = False
        self.sync_buffers_next = True
        if self.static and job.settings.accumulate > 1:
            self.notes.append(
                "torch 2.13 stops when static_graph meets no_sync in its first step: accumulate without no_sync"
            )
        idle = [tensor.name for tensor in self.trainable if not tensor.used]
        if idle and not (options["find_unused_parameters"] or self.static):
            self.notes.append(
                f"{len(idle)} parameters get no gradient ({idle[0]}, ...): DDP stops at the second step unless "
                "find_unused_parameters or static_graph is set"
            )

    def constructor(self) -> Events:
        """Shapes are compared, then rank 0's parameters and buffers go to everyone."""
        dims = sum(2 * len(tensor.shape) for tensor in self.trainable)
        group = self.job.group
        events: list[Event] = [call("all_gather", group, group.size, "int64", "constructor", "number of parameters")]
        events.append(call("broadcast", group, dims, "int64", "constructor", "shapes and strides"))
        sent = self.job.model.tensors if self.job.options["broadcast_buffers"] else self.job.model.parameters
        events += self._coalesced(sent, "constructor", "parameters and buffers")
        return events

    def forward_pass(self, units: Sequence[Unit], micro_step: int, last: bool) -> Events:
        """Buckets are rebuilt and buffers broadcast before the first unit."""
        events: Events = []
        if self._rebuilds():
            self.rebuilt = True
            order = [*self.job.model.arriving, *self._idle()]
            buckets = tensors_by_limit(_sizes(order), self.limits, in_order=True)
            self.buckets = [[order[i] for i in members] for members in buckets]
            group, count = self.job.group, len(order)
            events.append(call("broadcast", group, count + 1, "int32", "forward", "rebuilt buckets: order"))
            events.append(call("broadcast", group, len(self.buckets), "int32", "forward", "rebuilt buckets: sizes"))
        if self.job.options["broadcast_buffers"] and self.sync_buffers_next:
            events += self._coalesced(self.job.model.buffers, "forward", "buffers")
        self.sync_buffers_next = last
        return events + super().forward_pass(units, micro_step, last)

    def backward_pass(self, units: Sequence[Unit], micro_step: int, last: bool) -> Events:
        """Each bucket leaves when the last gradient in it is there, in the order of the buckets."""
        computed = super().backward_pass(units, micro_step, last)
        if not last:
            return computed
        self.backwards += 1
        calls: list[Events] = [[self._bucket(index, bucket)] for index, bucket in enumerate(self.buckets)]
        if self.static and self.backwards == 1:  # all wait for the end of the first backward
            return [*computed, *self._unused_map(), *(each for issues in calls for each in issues), Wait(TAG)]
        if self.find_unused:  # behind the last bucket
            calls[-1] += self._unused_map()
        return woven(computed, calls, self.buckets, units, TAG)

    def _idle(self) -> list[Tensor]:
        """Under static_graph, parameters without a gradient follow those that have one, in the order of registration."""
        return [tensor for tensor in self.trainable if not tensor.used] if self.static else []

    def _rebuilds(self) -> bool:
        if self.rebuilt or self.find_unused or not self.job.model.arrival:
            return False
        return self.backwards >= (2 if self.static else 1)

    def _unused_map(self) -> Events:
        count = len(self.trainable)
        return [call("all_reduce", self.job.group, count, "int32", "backward", "map of used parameters", tag=TAG)]

    def _bucket(self, index: int, bucket: Sequence[Tensor]) -> Issue:
        dtype = HOOKS.get(self.job.options["hook"], bucket[0].dtype)
        count = sum(tensor.count for tensor in bucket)
        return call("all_reduce", self.job.group, count, dtype, "backward", f"bucket {index}", tag=TAG)

    def _coalesced(self, tensors: Sequence[Tensor], phase: str, name: str) -> Events:
        buckets = tensors_by_limit(_sizes(tensors), [BROADCAST_BYTES])
        return [
            call(
                "broadcast",
                self.job.group,
                sum(tensors[i].count for i in members),
                tensors[members[0]].dtype,
                phase,
                name,
            )
            for members in buckets
        ]


def _sizes(tensors: Sequence[Tensor]) -> list[tuple[str, int]]:
    return [(tensor.dtype, tensor.count * DTYPES[tensor.dtype].itemsize) for tensor in tensors]


def _hook(text: str) -> str:
    word = {"float16": "fp16", "half": "fp16", "bfloat16": "bf16"}.get(text.lower(), text)
    return one_of("none", *HOOKS)(word)


PARALLELISM = Parallelism(
    name="ddp",
    axis="data",
    summary="torch DistributedDataParallel: gradients all-reduced by buckets while backward goes on",
    scheme=Ddp,
    options=(
        Option(
            "bucket_cap_mb", None, number, "limit of a bucket in MiB; by default 1 for the first and 25 for the rest"
        ),
        Option(
            "find_unused_parameters", False, yes_or_no, "no rebuild; a map of used parameters is reduced every step"
        ),
        Option("static_graph", False, yes_or_no, "buckets are rebuilt in the third step; no map afterwards"),
        Option("gradient_as_bucket_view", False, yes_or_no, "saves memory; communicates the same"),
        Option("broadcast_buffers", True, yes_or_no, "buffers of rank 0 go to everyone in forward"),
        Option("hook", "none", _hook, "fp16 or bf16: gradients are compressed for the wire"),
    ),
    sources=("torch/nn/parallel/distributed.py", "torch/csrc/distributed/c10d/reducer.cpp"),
    tries=(
        ("hook", "bf16", "gradients travel in bfloat16"),
        ("broadcast_buffers", False, "buffers are not sent before every forward; each rank keeps its own"),
        ("find_unused_parameters", False, "no map of used parameters, and buckets in the order of gradients"),
    ),
)
