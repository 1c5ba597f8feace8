"""fsdp2: torch's fully_shard on each block and on the root, call by call as torch 2.13 makes them.

Source: torch/distributed/fsdp/_fully_shard/ (2.13): _fsdp_param_group.py for the order, _fsdp_collectives.py for the
sizes. Each parameter is cut along its first dimension and padded: N * ceil(d0 / N) rows. Nothing is communicated when
the module is wrapped. The next gather is issued before the current reduce-scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw.core.dtype import DTYPES
from busbw.core.plan import Tensor, Unit
from busbw.errors import UsageError
from busbw.pricing.parallelism import DataScheme, Job, Option, Parallelism, dtype_or_none, one_of, yes_or_no
from busbw.pricing.parallelisms._units import ShardUnit, shard_units
from busbw.pricing.stream import Events, Group, Wait, call


def _reshard(text: str) -> bool | int | None:
    if text.isdigit() and text not in ("0", "1"):
        return int(text)
    return None if text.lower() == "none" else yes_or_no(text)


OPTIONS = (
    Option(
        "reshard_after_forward",
        None,
        _reshard,
        "true: the root too is gathered again in backward; false: nothing is; a number k: over k ranks; none: all but the root",
    ),
    Option("param_dtype", None, dtype_or_none, "what parameters are gathered in (MixedPrecisionPolicy)"),
    Option("reduce_dtype", None, dtype_or_none, "what gradients are reduced in; by default the gradient's dtype"),
    Option("wrap", "blocks", one_of("blocks", "none"), "what fully_shard is called on beside the root"),
)


class Fsdp2(DataScheme):
    """Parameters are gathered unit by unit, gradients scattered unit by unit."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.shards, self.replicas = self.groups()
        self.root, self.wrapped = shard_units(job.model, job.model.units, job.options["wrap"])
        scalar = next((tensor for tensor in job.model.parameters if not tensor.shape), None)
        if scalar is not None:
            raise UsageError(f"{scalar.name} is a scalar: fully_shard takes parameters of one dimension or more")
        reshard = job.options["reshard_after_forward"]
        if isinstance(reshard, int) and not isinstance(reshard, bool) and self.shards.size % reshard:
            raise UsageError(
                f"reshard_after_forward={reshard} must divide the {self.shards.size} ranks that share a model"
            )
        self.root_reshards = reshard is not None and reshard is not False
        self.reshards = reshard is not False
        self.backward_group = self._backward_group(reshard)

    def groups(self) -> tuple[Group, Group | None]:
        """The ranks that share one copy, and those that hold the same shard of others."""
        return self.job.group, None

    def _backward_group(self, reshard: bool | int | None) -> Group:
        if reshard is None or isinstance(reshard, bool) or reshard == self.shards.size:
            return self.shards
        start = self.shards.place // reshard * reshard
        ranks = self.shards.ranks[start : start + reshard]
        return Group(f"{self.shards.axis}/{self.shards.size // reshard}", ranks, self.shards.place - start)

    # --- sizes ---

    def padded(self, tensor: Tensor) -> int:
        """Elements of a parameter whose first dimension is padded to a multiple of N."""
        n, rows = self.shards.size, tensor.shape[0]
        return -(-rows // n) * n * (tensor.count // rows if rows else 0)

    def gather(self, unit: ShardUnit, phase: str, group: Group | None = None, ahead: bool = False) -> Events:
        """The all-gather of a unit; one rank alone gathers nothing."""
        if not unit.tensors or self.shards.size == 1:
            return []
        param_dtype = self.job.options["param_dtype"]
        dtypes = {param_dtype or tensor.dtype for tensor in unit.tensors}
        count = sum(self.padded(tensor) for tensor in unit.tensors)
        dtype = dtypes.pop() if len(dtypes) == 1 else "uint8"
        if dtypes:  # mixed dtypes travel as bytes
            count = sum(self.padded(tensor) * DTYPES[tensor.dtype].itemsize for tensor in unit.tensors)
        where = group or self.shards
        return [call("all_gather", where, count, dtype, phase, unit.name, tag=f"gather {unit.name}", ahead=ahead)]

    def reduce(self, unit: ShardUnit) -> Events:
        """The reduce-scatter of a unit's gradients, and the all-reduce over replicas."""
        tensors = unit.with_gradient
        if not tensors:
            return []
        gradient = {self.job.options["param_dtype"] or tensor.dtype for tensor in tensors}
        if len(gradient) > 1:
            raise UsageError(
                f"{unit.name} has gradients of {', '.join(sorted(gradient))}: fully_shard reduces one dtype a unit"
            )
        dtype = self.job.options["reduce_dtype"] or gradient.pop()
        count = sum(self.padded(tensor) for tensor in tensors)
        events: Events = [event for scheme in self.job.inner for event in scheme.partial_gradients(tensors, "backward")]
        if self.shards.size > 1:
            events.append(
                call("reduce_scatter", self.shards, count, dtype, "backward", unit.name, tag="reduce", redop="avg")
            )
        if self.replicas is not None:
            own = count // self.shards.size
            across = call("all_reduce", self.replicas, own, dtype, "backward", unit.name, tag="reduce", redop="avg")
            events.append(replace(across, follows="reduce"))
        return events

    # --- order ---

    def forward_pass(self, units: Sequence[Unit], micro_step: int, last: bool) -> Events:
        """Each unit is gathered as it is reached; the host is one unit ahead."""
        events: Events = [*self.gather(self.root, "forward"), Wait("gather root")]
        for unit in units:
            wrapped = self.wrapped.get(unit.name)
            if wrapped is not None:
                events += [*self.gather(wrapped, "forward", ahead=True), Wait(f"gather {unit.name}")]
            events += self.job.inside_forward(unit)
        return events

    def backward_pass(self, units: Sequence[Unit], micro_step: int, last: bool) -> Events:
        """The unit before is gathered while one is computed; its gradients leave after that."""
        events: Events = []
        if self.root_reshards:
            events += [*self.gather(self.root, "backward", self.backward_group), Wait("gather root")]
        order = [unit.name for unit in reversed(units) if unit.name in self.wrapped]
        upcoming = iter(order)
        late: Events = []
        if self.reshards:
            events += self._prefetch(next(upcoming, None))
        for unit in reversed(units):
            wrapped = self.wrapped.get(unit.name)
            if wrapped is None:
                events += self.job.inside_backward(unit)
                continue
            events.append(Wait(f"gather {unit.name}"))
            if self.reshards:
                events += self._prefetch(next(upcoming, None))
            events += self.job.inside_backward(unit)
            if last and unit.name == order[-1] and not self._input_has_gradient(units):
                late = self.reduce(wrapped)  # no gradient of its input tells when it is done: the end of backward does
            elif last:
                events += self.reduce(wrapped)
        return [*events, *(self.reduce(self.root) if last else ()), *late, Wait("reduce")]

    def _input_has_gradient(self, units: Sequence[Unit]) -> bool:
        """Something that is trained runs before the first block (or another stage does), so its input has a gradient."""
        if "pp" in self.job.mesh and self.job.mesh["pp"].size > 1 and not any(unit.kind == "stem" for unit in units):
            return True
        return any(tensor.trainable and tensor.used for unit in units if unit.kind == "stem" for tensor in unit.tensors)

    def _prefetch(self, name: str | None) -> Events:
        return [] if name is None else self.gather(self.wrapped[name], "backward", self.backward_group)

    def after_backward(self) -> Events:
        """clip_grad_norm_ stacks the norm of every gradient and reduces them over the shards."""
        count = len(self.job.model.arrival)
        if not self.job.settings.clip:
            return []
        return [call("all_reduce", self.shards, count, "float32", "other", "norms of the gradients")]


PARALLELISM = Parallelism(
    name="fsdp2",
    axis="data",
    summary="torch fully_shard: parameters gathered by block, gradients reduce-scattered by block",
    scheme=Fsdp2,
    options=OPTIONS,
    sources=("torch/distributed/fsdp/_fully_shard",),
    tries=(
        ("reshard_after_forward", False, "parameters stay gathered for backward: more memory"),
        ("param_dtype", "bfloat16", "parameters and gradients travel in bfloat16"),
    ),
)
