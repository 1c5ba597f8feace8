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


_compressed.__annotations__ = _all_reduce.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}


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


PROGRAMS: dict[str, Callable[..., None]] = {"ddp": ddp, "fsdp2": fsdp2, "fsdp1": fsdp1}
