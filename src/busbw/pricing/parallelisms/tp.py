"""tp: tensor parallelism inside each block, with sequence parallelism (`sp`) where asked; DTensor's or Megatron's.

With A = micro-batch x sequence x hidden x element size:

- dtensor (torch 2.13, torchtitan's plan; checked call by call in docs/pricing-exactness.md): 2 all-reduces of A a block in
  forward; in backward 2 with PrepareModuleInput, else one for each projection that reads the input (q, k, v, w1, w3: five).
  With sp: 2 all-gathers and 2 reduce-scatters in forward, the same in backward; the embedding reduce-scatters, the head
  gathers its input (and its output, unless loss_parallel takes it cut); each norm's gradient is all-reduced on its own.
- megatron (core/tensor_parallel, read in source): the same in forward; with sp backward gathers twice more, because the
  inputs of both column-parallel layers are gathered again for the weights' gradients; the norms' gradients leave in one call.
  The embedding is cut by vocabulary and ends in a reduction, the loss takes three all-reduces of one number a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from busbw.core.plan import Model, Tensor, Unit
from busbw.errors import UsageError
from busbw.pricing.parallelism import Around, Job, Option, Parallelism, Scheme, one_of, yes_or_no
from busbw.pricing.shape import (
    columns,
    cut,
    hidden_of,
    is_matrix,
    is_norm,
    is_router,
    is_row,
    is_transposed,
    require_blocks,
)
from busbw.pricing.stream import Events, Group, call


class Tensors(Scheme):
    """Column-parallel layers read, row-parallel layers end attention and feed-forward."""

    axis = "tp"

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        require_blocks(job.model, "tensor parallelism")
        self.megatron = job.options["style"] == "megatron"
        self.sp = bool(job.options["sp"])
        self.activation = job.tokens * hidden_of(job.whole)
        n = job.group.size
        if self.sp and job.sequence % n:
            raise UsageError(f"sequence parallelism: tp={n} does not divide the {job.sequence} tokens of a sample")

    def _call(self, collective: str, phase: str, name: str, times: int = 1) -> Events:
        if self.job.group.size == 1:
            return []
        one = call(collective, self.job.group, self.activation, self.job.settings.dtype, phase, name)
        return [one] * times

    def constructor(self) -> Events:
        """DTensor scatters what rank 0 holds of every parameter that is cut, in the order of the plan."""
        if self.megatron or self.job.group.size == 1:
            return []
        events: Events = []
        for tensor in self._in_plan_order():
            cut_here = tensor.count != self.job.model.by_name[tensor.name].count
            if cut_here:
                events.append(call("scatter", self.job.group, tensor.count, tensor.dtype, "constructor", tensor.name))
            elif is_row(tensor) and tensor.name.endswith("bias"):
                events.append(call("broadcast", self.job.group, tensor.count, tensor.dtype, "constructor", tensor.name))
        return events

    def _in_plan_order(self) -> list[Tensor]:
        """The edges, then each block: what reads, then what ends attention and feed-forward."""
        whole = self.job.whole.by_name
        here = [whole[tensor.name] for tensor in self.job.model.parameters]
        edges = [tensor for tensor in here if not any(tensor.inside(block) for block in self.job.model.blocks)]
        ordered = list(edges)
        for block in self.job.model.blocks:
            own = [tensor for tensor in here if tensor.inside(block)]
            ordered += [tensor for tensor in own if not is_row(tensor)] + [tensor for tensor in own if is_row(tensor)]
        return ordered

    def forward(self, unit: Unit, phase: str = "forward") -> Around:
        """Two reductions a block; with sp a gather before each part and a reduce-scatter behind it."""
        name = unit.name
        if unit.kind == "stem":
            kind = "reduce_scatter" if self.sp else "all_reduce"
            cut_embedding = self.sp or self.megatron
            return [], [], self._call(kind, phase, f"{name}: embedding") if cut_embedding else []
        if unit.kind == "head":
            return self._head(phase)
        if not self.sp:
            return (
                [],
                self._call("all_reduce", phase, f"{name}: attention"),
                self._call("all_reduce", phase, f"{name}: ffn"),
            )
        before = self._call("all_gather", phase, f"{name}: attention")
        between = self._call("reduce_scatter", phase, f"{name}: attention") + self._call(
            "all_gather", phase, f"{name}: ffn"
        )
        return before, between, self._call("reduce_scatter", phase, f"{name}: ffn")

    def backward(self, unit: Unit) -> Around:
        """The same in the opposite direction; see the module's docstring for what the two libraries add."""
        name, phase = unit.name, "backward"
        if unit.kind == "stem":
            return (self._call("all_gather", phase, f"{name}: embedding") if self.sp else []), [], []
        if unit.kind == "head":
            return self._head_backward()
        if not self.sp:
            split = not (self.megatron or self.job.options["prepare"])
            of_ffn = columns(unit, attention=False) if split else 1
            of_attention = columns(unit, attention=True) if split else 1
            between = self._call("all_reduce", phase, f"{name}: ffn input", of_ffn)
            return [], between, self._call("all_reduce", phase, f"{name}: attention input", of_attention)
        gather = ("all_gather", phase)
        again = 1 if self.megatron else 0
        before = self._call(*gather, f"{name}: ffn")
        between = (
            self._call(*gather, f"{name}: ffn input, for its weights", again)
            + self._call("reduce_scatter", phase, f"{name}: ffn input")
            + self._call(*gather, f"{name}: attention")
        )
        after = self._call(*gather, f"{name}: attention input, for its weights", again)
        return before, between, after + self._call("reduce_scatter", phase, f"{name}: attention input")

    def _head(self, phase: str) -> Around:
        events = self._call("all_gather", phase, "head") if self.sp else []
        after: Events = []
        vocab = self._vocab()
        group, tokens = self.job.group, self.job.tokens
        if vocab and group.size > 1 and (self.megatron or self.job.options["loss_parallel"]):
            after = [
                call("all_reduce", group, tokens, "float32", "forward" if self.megatron else "other", what, redop=redop)
                for what, redop in (("loss: largest logit", "max"), ("loss: sum", "sum"), ("loss: target", "sum"))
            ]
        elif self.sp and vocab and group.size > 1:
            after = [call("all_gather", group, tokens * vocab, self.job.settings.dtype, phase, "head: logits")]
        return events, [], after

    def _head_backward(self) -> Around:
        if self.sp:
            again = self._call("all_gather", "backward", "head input, for its weights", 1 if self.megatron else 0)
            return [], [], again + self._call("reduce_scatter", "backward", "head input")
        return [], [], self._call("all_reduce", "backward", "head input") if self.megatron else []

    def _vocab(self) -> int:
        if self.job.whole.geometry is not None:
            return self.job.whole.geometry.vocab
        head = [t for unit in self.job.whole.units if unit.kind == "head" for t in unit.tensors if len(t.shape) == 2]
        return head[-1].shape[0] if head else 0

    def _norms(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return [tensor for tensor in tensors if self.sp and tensor.trainable and is_norm(tensor)]

    def partial_gradients(self, tensors: Sequence[Tensor], phase: str) -> Events:
        """Each norm saw its part of the sequence: DTensor sums its gradient when the data scheme takes it."""
        if self.megatron or self.job.group.size == 1:
            return []
        return [call("all_reduce", self.job.group, t.count, t.dtype, phase, t.name) for t in self._norms(tensors)]

    def after_backward(self) -> Events:
        """Megatron sums the gradients of all norms in one call."""
        norms = self._norms(self.job.model.parameters)
        if not self.megatron or not norms or self.job.group.size == 1:
            return []
        count = sum(tensor.count for tensor in norms)
        return [call("all_reduce", self.job.group, count, norms[0].dtype, "backward", "gradients of the norms")]

    def optimizer(self) -> Events:
        """Without a data scheme that asks for them, DTensor sums the norms' gradients where the optimizer reads them."""
        if self.job.data in ("fsdp2", "hsdp"):
            return []
        return self.partial_gradients(self.job.model.parameters, "optimizer")

    @property
    def parts_of_sequence(self) -> int:
        """Residuals are cut along the sequence with sp."""
        return self.job.group.size if self.sp else 1

    def share_of_flops(self, unit: Unit) -> float:
        """A block's work is cut evenly; the head's where it is cut."""
        whole = unit.kind != "block" and not (self.sp or self.megatron)
        return 1.0 if whole else 1.0 / self.job.group.size


def localize(model: Model, group: Group, options: Mapping[str, Any]) -> Model:
    """Matrices of blocks are cut; with sp or Megatron the embedding and the head by vocabulary."""
    n = group.size
    if n == 1:
        return model
    edges = options["sp"] or options["style"] == "megatron"
    if model.geometry is not None and model.geometry.kv_heads % n and model.geometry.heads % n:
        raise UsageError(f"{model.name} has {model.geometry.heads} heads: tp={n} does not divide them")
    local = []
    for tensor in model.tensors:
        in_block = any(tensor.inside(block) for block in model.blocks)
        shape = tensor.shape
        if tensor.buffer or is_norm(tensor) or is_router(tensor):
            pass
        elif in_block and is_matrix(tensor):
            rows = len(shape) - 2  # a stack of experts keeps its first dimension
            last = is_row(tensor) != is_transposed(tensor)
            shape = cut(tensor, rows + 1 if last else rows, n, "columns" if last else "rows")
        elif in_block and len(shape) == 1 and not is_row(tensor):
            shape = cut(tensor, 0, n, "elements")
        elif edges and len(shape) == 2 and "position" not in tensor.name and "wpe" not in tensor.name:
            shape = (-(-shape[0] // n), *shape[1:])  # the vocabulary is padded
        local.append(replace(tensor, shape=shape))
    return replace(model, tensors=tuple(local))


PARALLELISM = Parallelism(
    name="tp",
    axis="tp",
    summary="tensor parallelism inside each block, as DTensor (default) or Megatron does it; sp adds sequence parallelism",
    scheme=Tensors,
    options=(
        Option("sp", False, yes_or_no, "sequence parallelism: norms and residuals are cut along the sequence"),
        Option("style", "dtensor", one_of("dtensor", "megatron"), "whose calls"),
        Option(
            "prepare",
            True,
            yes_or_no,
            "DTensor: PrepareModuleInput makes one gradient all-reduce of q, k, v (and w1, w3)",
        ),
        Option("loss_parallel", False, yes_or_no, "DTensor: the loss takes logits that are cut by vocabulary"),
    ),
    localize=localize,
    sources=("torch/distributed/tensor/parallel", "Megatron-LM core/tensor_parallel"),
    tries=(
        ("prepare", True, "PrepareModuleInput: one all-reduce of the input's gradient, not one a projection"),
        ("loss_parallel", True, "logits stay cut by vocabulary"),
    ),
)
