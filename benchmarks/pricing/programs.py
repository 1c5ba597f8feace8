"""Training programs, one a plan, as people write them: four steps under a capture. Run in ranks that are set up already."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 5


def MARK() -> None:  # noqa: N802 - set by the runner
    """Tells the capture that a step begins."""


def loss_of(output: Any) -> torch.Tensor:
    """A scalar that depends on all of a model's output."""
    if isinstance(output, torch.Tensor):
        return output.float().sum()
    return output.logits.float().sum()


def call(module: nn.Module, inputs: Any) -> Any:
    """The module on its inputs."""
    return module(**inputs) if isinstance(inputs, Mapping) else module(inputs)


def train(
    module: nn.Module,
    inputs: Any,
    optimizer: torch.optim.Optimizer,
    accumulate: int = 1,
    sync: Callable[[bool], Any] = lambda last: nullcontext(),
    clip: bool = False,
) -> None:
    """STEPS steps of `accumulate` micro-steps."""
    for _ in range(STEPS):
        for micro_step in range(accumulate):
            with sync(micro_step == accumulate - 1):
                loss_of(call(module, inputs)).backward()
        if clip:
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def _compressed(dtype: torch.dtype, bucket: Any) -> Any:
    """What default_hooks.fp16_compress_hook and bf16_compress_hook do with a bucket."""
    small = bucket.buffer().to(dtype).div_(dist.get_world_size())
    dist.all_reduce(small)
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer().copy_(small))
    return done


def _all_reduce(state: object, bucket: Any) -> Any:
    """What the reducer itself does with a bucket."""
    dist.all_reduce(bucket.buffer())
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


_compressed.__annotations__ = _all_reduce.__annotations__ = {
    "bucket": dist.GradBucket,
    "return": torch.futures.Future[torch.Tensor],
}


def ddp(
    module: nn.Module, inputs: Any, accumulate: int = 1, hook: str = "none", sharded: str = "", **options: Any
) -> None:
    """DistributedDataParallel, with no_sync, a compression hook, or ZeroRedundancyOptimizer."""
    wrapped = DistributedDataParallel(module, **options)
    if hook == "none" and dist.get_backend() == "fake":  # the reducer cannot read what the fake group returns
        wrapped.register_comm_hook(None, _all_reduce)
    if hook != "none":  # torch's own bf16 hook refuses CPUs
        wrapped.register_comm_hook(torch.float16 if hook == "fp16" else torch.bfloat16, _compressed)
    parameters = [each for each in module.parameters() if each.requires_grad]
    optimizer: torch.optim.Optimizer
    if sharded:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        optimizer = ZeroRedundancyOptimizer(
            parameters, torch.optim.SGD, parameters_as_bucket_view=sharded == "view", lr=1e-3
        )
    else:
        optimizer = torch.optim.SGD(parameters, lr=1e-3)
    train(wrapped, inputs, optimizer, accumulate, lambda last: nullcontext() if last else wrapped.no_sync())


def blocks_of(module: nn.Module) -> list[nn.Module]:
    """The repeated blocks, by the rule that pricing has for names."""
    from busbw.pricing.readers import find_blocks

    paths = find_blocks(name for name, _ in module.named_parameters())
    return [module.get_submodule(path) for path in paths]


def fsdp2(
    module: nn.Module,
    inputs: Any,
    accumulate: int = 1,
    replicas: int = 0,
    wrap: str = "blocks",
    param_dtype: str = "",
    reduce_dtype: str = "",
    clip: bool = False,
    **options: Any,
) -> None:
    """fully_shard on each block and on the root; HSDP with `replicas`."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    world = dist.get_world_size()
    if replicas:
        mesh = init_device_mesh("cpu", (replicas, world // replicas), mesh_dim_names=("replicate", "shard"))
    else:
        mesh = init_device_mesh("cpu", (world,))
    if param_dtype or reduce_dtype:
        options["mp_policy"] = MixedPrecisionPolicy(
            param_dtype=getattr(torch, param_dtype) if param_dtype else None,
            reduce_dtype=getattr(torch, reduce_dtype) if reduce_dtype else None,
        )
    for block in blocks_of(module) if wrap == "blocks" else []:
        fully_shard(block, mesh=mesh, **options)
    fully_shard(module, mesh=mesh, **options)

    def sync(last: bool) -> Any:
        module.set_requires_gradient_sync(last)
        return nullcontext()

    optimizer = torch.optim.SGD([each for each in module.parameters() if each.requires_grad], lr=1e-3)
    train(module, inputs, optimizer, accumulate, sync if accumulate > 1 else (lambda last: nullcontext()), clip)


def fsdp1(
    module: nn.Module,
    inputs: Any,
    accumulate: int = 1,
    strategy: str = "FULL_SHARD",
    wrap: str = "blocks",
    param_dtype: str = "",
    reduce_dtype: str = "",
    clip: bool = False,
    **options: Any,
) -> None:
    """FullyShardedDataParallel, with a policy that wraps the blocks."""
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import CustomPolicy

    chosen = set(blocks_of(module)) if wrap == "blocks" else set()
    if param_dtype or reduce_dtype:
        options["mixed_precision"] = MixedPrecision(
            param_dtype=getattr(torch, param_dtype) if param_dtype else None,
            reduce_dtype=getattr(torch, reduce_dtype) if reduce_dtype else None,
        )
    wrapped = FullyShardedDataParallel(
        module,
        sharding_strategy=ShardingStrategy[strategy],
        auto_wrap_policy=CustomPolicy(lambda each: each in chosen),
        device_id=torch.device("cpu"),
        **options,
    )
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=1e-3)
    for _ in range(STEPS):
        for micro_step in range(accumulate):
            with nullcontext() if micro_step == accumulate - 1 else wrapped.no_sync():
                loss_of(call(wrapped, inputs)).backward()
        if clip:
            wrapped.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()


def tensor_parallel(
    module: nn.Module, mesh: Any, *, prepare: bool = False, sp: bool = False, loss: bool = False
) -> None:
    """The usual plan for zoo's Llama: with sequence parallelism it is torchtitan's."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    along, copy = Shard(1), Replicate()
    if sp:
        head = ColwiseParallel(
            input_layouts=along, output_layouts=Shard(-1) if loss else copy, use_local_output=not loss
        )
        edges: dict[str, Any] = {
            "tokens": RowwiseParallel(input_layouts=copy, output_layouts=along),
            "norm": SequenceParallel(),
            "output": head,
        }
        parallelize_module(module, mesh, edges)
    for block in module.layers:
        inside: dict[str, Any] = {
            name: ColwiseParallel()
            for name in ("attention.wq", "attention.wk", "attention.wv", "feed_forward.w1", "feed_forward.w3")
        }
        back = RowwiseParallel(output_layouts=along) if sp else RowwiseParallel()
        inside |= {"attention.wo": back, "feed_forward.w2": back}
        if prepare or sp:
            ready = PrepareModuleInput(input_layouts=(along if sp else copy,), desired_input_layouts=(copy,))
            inside |= {"attention": ready, "feed_forward": ready}
        if sp:
            inside |= {"attention_norm": SequenceParallel(), "ffn_norm": SequenceParallel()}
        parallelize_module(block, mesh, inside)


def tp(module: nn.Module, inputs: Any, data: str = "", loss: bool = False, degree: int = 0, **options: Any) -> None:
    """DTensor's tensor parallelism, alone or inside ddp or fsdp2."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import loss_parallel

    world = dist.get_world_size()
    degree = degree or world
    mesh = init_device_mesh("cpu", (world // degree, degree), mesh_dim_names=("dp", "tp"))
    tensor_parallel(module, mesh["tp"], loss=loss, **options)
    if data == "fsdp2":
        for block in module.layers:
            fully_shard(block, mesh=mesh["dp"])
        fully_shard(module, mesh=mesh["dp"])
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3, foreach=False)
    labels = torch.zeros_like(inputs)
    for _ in range(STEPS):
        output = call(module, inputs)
        with loss_parallel() if loss else nullcontext():
            if loss:
                nn.functional.cross_entropy(output.flatten(0, 1), labels.flatten()).backward()
            else:
                loss_of(output).backward()
        optimizer.step()
        optimizer.zero_grad()


class Part(nn.Module):
    """Some layers of zoo's Llama, with the embedding in front or the head behind."""

    def __init__(self, whole: nn.Module, first: int, last: int, layers: int) -> None:
        super().__init__()
        self.tokens = whole.tokens if first == 0 else None
        self.layers = nn.ModuleList(whole.layers[first:last])
        self.norm = whole.norm if last == layers else None
        self.output = whole.output if last == layers else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.tokens is not None:
            x = self.tokens(x)
        for layer in self.layers:
            x = layer(x)
        return x if self.norm is None or self.output is None else self.output(self.norm(x))


def pp(
    module: nn.Module, inputs: Any, schedule: str = "GPipe", micro_batches: int = 4, chunks: int = 1, data: str = ""
) -> None:
    """torch.distributed.pipelining on zoo's Llama, the layers cut evenly."""
    from torch.distributed import pipelining
    from torch.distributed.pipelining import PipelineStage

    world, rank = dist.get_world_size(), dist.get_rank()
    layers = len(module.layers)
    stages = world * chunks
    cuts = [layers * i // stages for i in range(stages + 1)]
    hidden = torch.zeros(*inputs.shape, module.norm.weight.numel())
    logits = torch.zeros(*inputs.shape, module.output.weight.shape[0])
    mine = []
    for s in range(rank, stages, world):
        # Shapes are given, because those that the stages tell each other travel as pickles of a size nobody promises.
        shapes = {"input_args": inputs if s == 0 else hidden.clone().requires_grad_(),
                  "output_args": (logits if s == stages - 1 else hidden.clone()).requires_grad_()}  # fmt: skip
        mine.append(PipelineStage(Part(module, cuts[s], cuts[s + 1], layers), s, stages, torch.device("cpu"), **shapes))
    kind = getattr(pipelining, f"Schedule{schedule}")

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return output.float().sum() + target.float().sum()

    runner = kind(mine if chunks > 1 else mine[0], micro_batches, loss_fn=loss)
    optimizers = [torch.optim.SGD(stage.submod.parameters(), lr=1e-3) for stage in mine]
    batch = inputs.repeat(micro_batches, 1)
    for _ in range(STEPS):
        MARK()
        runner.step(*([batch] if rank == 0 else []), **({"target": batch} if rank == world - 1 else {}))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


class RingAttention(torch.autograd.Function):
    """torch's own ring attention (experimental context_parallel) around its kernel for CPUs, which it does not list."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, group: Any) -> torch.Tensor:
        from torch.distributed.tensor.experimental._context_parallel import _attention

        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        out, lse = _attention._templated_ring_attention(group, 2, kernel, q, k, v, is_causal=True)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.group = group
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        from torch.distributed.tensor.experimental._context_parallel import _attention

        q, k, v, out, lse = ctx.saved_tensors

        def kernel(**given: Any) -> Any:
            given.setdefault("dropout_p", 0.0)
            names = ("grad_out", "query", "key", "value", "out", "logsumexp", "dropout_p", "is_causal")
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(*(given[name] for name in names))

        grads = _attention._templated_ring_attention_backward(
            ctx.group, 2, kernel, grad.contiguous(), "grad_out", q, k, v, out, lse, True
        )
        return (*grads[:3], None)


def cp(module: nn.Module, inputs: Any, data: str = "") -> None:
    """Context parallelism on zoo's Llama: each rank has its part of the sequence."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.experimental._context_parallel import _attention

    group, world, rank = dist.group.WORLD, dist.get_world_size(), dist.get_rank()
    _attention._cp_options.enable_load_balance = False
    plain = nn.functional.scaled_dot_product_attention
    if data == "fsdp2":
        for block in module.layers:
            fully_shard(block, mesh=init_device_mesh("cpu", (world,)))
        fully_shard(module, mesh=init_device_mesh("cpu", (world,)))
    nn.functional.scaled_dot_product_attention = lambda q, k, v, **_: RingAttention.apply(q, k, v, group)
    try:
        optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
        train(module, inputs.chunk(world, dim=1)[rank].contiguous(), optimizer)
    finally:
        nn.functional.scaled_dot_product_attention = plain


PROGRAMS: dict[str, Callable[..., None]] = {"ddp": ddp, "fsdp2": fsdp2, "fsdp1": fsdp1, "tp": tp, "pp": pp, "cp": cp}
