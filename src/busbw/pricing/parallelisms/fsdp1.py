"""fsdp1: torch's FullyShardedDataParallel: one flat parameter a wrapped block, and one for the rest.

Source: torch/distributed/fsdp/_flat_param.py and _runtime_utils.py (2.13). A flat parameter is padded to a multiple of N;
with use_orig_params each parameter in it starts at a multiple of 16 bytes. Nothing is communicated when it is wrapped.
"""

from __future__ import annotations

from collections.abc import Sequence

from busbw.core.dtype import DTYPES
from busbw.core.plan import Unit
from busbw.errors import UsageError
from busbw.pricing.parallelism import DataScheme, Job, Option, Parallelism, dtype_or_none, one_of, yes_or_no
from busbw.pricing.parallelisms._units import ShardUnit, one_dtype, shard_units
from busbw.pricing.stream import Events, Wait, call

ALIGNMENT_BYTES = 16
BATCH_NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm")


class Fsdp1(DataScheme):
    """FULL_SHARD gathers a unit in forward and again in backward, SHARD_GRAD_OP once, NO_SHARD never."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.root, self.wrapped = shard_units(job.model, job.model.units, job.options["wrap"])
        self.sharded = job.options["strategy"] != "no_shard" and job.group.size > 1
        self.reshards = job.options["strategy"] == "full_shard"
        self.norms = self._batch_norms()
        own = {tensor.name for norm in self.norms for tensor in norm.tensors}
        self.root = _without(self.root, own)
        self.wrapped = {name: _without(unit, own) for name, unit in self.wrapped.items()}
        self.kept: set[str] = set()
        """Units that are still gathered."""

    def _batch_norms(self) -> list[ShardUnit]:
        """Under mixed precision FSDP wraps every batch norm by itself, without it; in the order in which they run."""
        options, facts = self.job.options, self.job.model.facts
        if not (options["param_dtype"] or options["reduce_dtype"]):
            return []
        classes = facts.get("classes", {})
        if not classes and any(
            ".bn" in tensor.name or "batch_norm" in tensor.name for tensor in self.job.model.parameters
        ):
            self.notes.append(
                "batch norms are units of their own under mixed precision; only a module tells where they are"
            )
        ran = {path: index for index, path in enumerate(facts.get("ran", ()))}
        paths = sorted((path for path in classes if classes[path] in BATCH_NORMS), key=lambda path: ran.get(path, 0))
        found = [ShardUnit(path, tuple(t for t in self.job.model.parameters if t.inside(path))) for path in paths]
        return [unit for unit in found if unit.tensors]

    def _inside(self, unit: Unit) -> list[ShardUnit]:
        names = {tensor.name for tensor in unit.tensors}
        return [norm for norm in self.norms if norm.tensors[0].name in names]

    def _dtype(self, unit: ShardUnit) -> str:
        """What a unit's parameters are gathered in."""
        own = unit.tensors[0].dtype
        return own if unit in self.norms else self.job.options["param_dtype"] or own

    def padded(self, unit: ShardUnit) -> int:
        """Elements of the flat parameter of a unit."""
        one_dtype(unit, "FullyShardedDataParallel")  # or it says what is wrong
        if not self.job.options["use_orig_params"] and len({tensor.trainable for tensor in unit.tensors}) > 1:
            raise UsageError(f"{unit.name} has frozen parameters among others: FSDP needs use_orig_params for that")
        used = self._dtype(unit)  # addresses are aligned in what is computed with
        align = ALIGNMENT_BYTES // DTYPES[used].itemsize if self.job.options["use_orig_params"] else 1
        total = 0
        for tensor in unit.tensors:
            total += -total % align
            total += tensor.count
        n = self.job.group.size if self.sharded else 1
        return total + -total % n

    def gather(self, unit: ShardUnit, phase: str, ahead: bool = False) -> Events:
        """The all-gather of a unit's flat parameter, unless it is there still."""
        if not unit.tensors or not self.sharded or unit.name in self.kept:
            return []
        self.kept.add(unit.name)
        dtype = self._dtype(unit)
        tag = f"gather {unit.name}"
        return [call("all_gather", self.job.group, self.padded(unit), dtype, phase, unit.name, tag=tag, ahead=ahead)]

    def reduce(self, unit: ShardUnit, last: bool) -> Events:
        """The unit is freed, and its gradients reduced."""
        if last or self.reshards:
            self.kept.discard(unit.name)
        if not last or not unit.with_gradient:
            return []
        options = self.job.options
        dtype = self._dtype(unit)
        if unit not in self.norms:
            dtype = options["reduce_dtype"] or dtype
        collective = "reduce_scatter" if self.sharded else "all_reduce"
        return [call(collective, self.job.group, self.padded(unit), dtype, "backward", unit.name, tag="reduce")]

    def forward_pass(self, units: Sequence[Unit], micro_step: int, last: bool) -> Events:
        """Each unit is gathered as it is reached; all but the root are freed again under FULL_SHARD."""
        events: Events = [*self.gather(self.root, "forward"), Wait("gather root")]
        for unit in units:
            wrapped = self.wrapped.get(unit.name)
            if wrapped is not None:
                events += [*self.gather(wrapped, "forward", ahead=True), Wait(f"gather {unit.name}")]
            for norm in self._inside(unit):
                events += [*self.gather(norm, "forward", ahead=True), Wait(f"gather {norm.name}")]
                if self.reshards:
                    self.kept.discard(norm.name)
            events += self.job.inside_forward(unit)
            if wrapped is not None and self.reshards:
                self.kept.discard(unit.name)
        return events

    def backward_pass(self, units: Sequence[Unit], micro_step: int, last: bool) -> Events:
        """The unit before is gathered while one is computed (BACKWARD_PRE); its gradients leave after that."""
        events: Events = []
        order: list[ShardUnit] = []
        for unit in reversed(units):
            order += [self.wrapped[unit.name]] if unit.name in self.wrapped else []
            order += reversed(self._inside(unit))
        upcoming = iter(order)
        events += self._prefetch(next(upcoming, None))
        for unit in reversed(units):
            wrapped = self.wrapped.get(unit.name)
            if wrapped is not None:
                events += [*self.gather(wrapped, "backward"), Wait(f"gather {unit.name}")]
                events += self._prefetch(next(upcoming, None))
            for norm in reversed(self._inside(unit)):
                events += [*self.gather(norm, "backward"), Wait(f"gather {norm.name}")]
                events += self._prefetch(next(upcoming, None))
                events += self.reduce(norm, last)
            events += self.job.inside_backward(unit)
            if wrapped is not None:
                events += self.reduce(wrapped, last)
        return [*events, *self.reduce(self.root, last), Wait("reduce")]

    def _prefetch(self, unit: ShardUnit | None) -> Events:
        return [] if unit is None else self.gather(unit, "backward")

    def after_backward(self) -> Events:
        """clip_grad_norm_ reduces the norm of the shards."""
        if not self.job.settings.clip or not self.sharded:
            return []
        return [call("all_reduce", self.job.group, 1, "float32", "other", "norm of the gradients")]


def _without(unit: ShardUnit, names: set[str]) -> ShardUnit:
    return ShardUnit(unit.name, tuple(tensor for tensor in unit.tensors if tensor.name not in names))


PARALLELISM = Parallelism(
    name="fsdp1",
    axis="data",
    summary="torch FullyShardedDataParallel: flat parameters, gathered and reduce-scattered by block",
    scheme=Fsdp1,
    options=(
        Option("strategy", "full_shard", one_of("full_shard", "shard_grad_op", "no_shard"), "its sharding strategy"),
        Option("use_orig_params", False, yes_or_no, "each parameter starts at a multiple of 16 bytes"),
        Option("param_dtype", None, dtype_or_none, "what parameters are gathered in (MixedPrecision)"),
        Option("reduce_dtype", None, dtype_or_none, "what gradients are reduced in; by default param_dtype"),
        Option("wrap", "blocks", one_of("blocks", "none"), "what is wrapped beside the root"),
    ),
    sources=("torch/distributed/fsdp/_flat_param.py", "torch/distributed/fsdp/_runtime_utils.py"),
    tries=(
        ("strategy", "shard_grad_op", "parameters stay gathered for backward: more memory"),
        ("param_dtype", "bfloat16", "parameters and gradients travel in bfloat16"),
    ),
)
