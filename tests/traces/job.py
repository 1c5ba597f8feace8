"""A job of several ranks that calls everything: run as `job.py FOLDER WORLD SCENARIO...`, each scenario in its folder.

Ranks are forked after torch is imported, because its import is most of what such a test costs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import busbw
from busbw.traces.live.capture import Capture


def collectives(rank: int, n: int) -> None:
    """Each operator once, with sizes that tell them apart. Call sites are the lines of this function."""
    t = torch.ones(100)  # 400 B
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    dist.broadcast(torch.ones(3, dtype=torch.int64), 1)
    dist.reduce(t, 2, op=dist.ReduceOp.SUM)
    dist.all_gather([torch.empty(5) for _ in range(n)], torch.ones(5))
    dist.all_gather_into_tensor(torch.empty(7 * n), torch.ones(7))
    dist.reduce_scatter(torch.empty(9), [torch.ones(9) for _ in range(n)])
    dist.reduce_scatter_tensor(torch.empty(11), torch.ones(11 * n))
    dist.all_to_all_single(torch.empty(2 * n), torch.ones(2 * n))
    sent, received = [rank + 1] * n, [k + 1 for k in range(n)]
    dist.all_to_all_single(torch.empty(sum(received)), torch.ones(sum(sent)), received, sent)
    dist.gather(t, [torch.empty(100) for _ in range(n)] if rank == 1 else None, 1)
    dist.scatter(t, [torch.ones(100) for _ in range(n)] if rank == 3 else None, 3)
    dist.all_reduce(torch.ones(8, dtype=torch.bfloat16))
    dist.all_reduce_coalesced([torch.ones(10), torch.ones(20)])
    dist.all_reduce(torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (4,)))
    work = dist.all_reduce(t, async_op=True)
    work.wait()
    pair = dist.new_group([0, 2])
    if rank in (0, 2):
        dist.all_reduce(torch.ones(50), group=pair)
    if rank == 0:
        dist.send(torch.ones(6), 1)
        dist.irecv(torch.empty(6), 1).wait()
    elif rank == 1:
        dist.recv(torch.empty(6), 0)
        dist.isend(torch.ones(6), 0).wait()
    around = [
        dist.P2POp(dist.isend, torch.ones(30), (rank + 1) % n),
        dist.P2POp(dist.irecv, torch.empty(30), (rank - 1) % n),
    ]
    for work in dist.batch_isend_irecv(around):
        work.wait()
    dist.barrier()
    dist.monitored_barrier()
    import torch.distributed._functional_collectives as functional

    functional.all_reduce(torch.ones(12), "sum", dist.group.WORLD).sum()
    functional.all_gather_tensor(torch.ones(2), 0, dist.group.WORLD).sum()
    compiled = torch.ops._c10d_functional.all_reduce.default(torch.ones(14), "max", dist.group.WORLD.group_name)
    torch.ops._c10d_functional.wait_tensor.default(compiled)
    dist.all_gather_object([None] * n, "x")


class Net(nn.Module):
    """Two linear layers of 64 x 64, a batch norm between them."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm, self.two = nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(self.norm(self.one(x)))


def _steps(model: nn.Module, steps: int, optimizer: torch.optim.Optimizer | None = None) -> None:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 64)).sum().backward()
        optimizer.step()


def ddp(rank: int, n: int) -> None:
    """Batch norm's buffers in forward, one bucket and then two in backward."""
    _steps(nn.parallel.DistributedDataParallel(Net(), bucket_cap_mb=0.02), 6)


def ddp_hook(rank: int, n: int) -> None:
    """A Python hook compresses to fp16."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64))
    model.register_comm_hook(None, fp16_compress_hook)
    _steps(model, 3)


def fsdp2(rank: int, n: int) -> None:
    """Two layers of their own, and the root."""
    from torch.distributed.fsdp import fully_shard

    net = Net()
    for layer in (net.one, net.two):
        fully_shard(layer)
    _steps(fully_shard(net), 3)


def fsdp1(rank: int, n: int) -> None:
    """The same, wrapped by the older class."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    _steps(FullyShardedDataParallel(Net(), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}), device_id="cpu"), 3)


def hsdp_tp(rank: int, n: int) -> None:
    """A mesh of two axes: tensor parallel over one, replicated over the other."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (2, n // 2), mesh_dim_names=("dp", "tp"))
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    parallelize_module(net, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    _steps(net, 3)


def hsdp(rank: int, n: int) -> None:
    """Sharded over one axis of a mesh, replicated over the other; parameters travel as bf16, gradients as fp32."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh("cpu", (2, n // 2), mesh_dim_names=("replicate", "shard"))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    _steps(fully_shard(nn.Linear(64, 64), mesh=mesh, mp_policy=policy), 3)


def interleaved(rank: int, n: int) -> None:
    """Two stages on each rank, four micro-batches of one."""
    from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B

    stages = [PipelineStage(nn.Linear(8, 8), rank + turn * n, 2 * n, torch.device("cpu")) for turn in range(2)]
    schedule = ScheduleInterleaved1F1B(stages, n, loss_fn=lambda output, target: (output - target).sum())
    optimizer = torch.optim.SGD([tensor for stage in stages for tensor in stage.submod.parameters()], lr=0.1)
    x = torch.ones(n, 8)
    for _ in range(3):
        schedule.step(*([x] if rank == 0 else []), **({"target": x} if rank == n - 1 else {}))
        optimizer.step()


def pipeline(rank: int, n: int) -> None:
    """GPipe over all ranks, three micro-batches."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    stage = PipelineStage(nn.Linear(64, 64), rank, n, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 3, loss_fn=lambda output, target: (output - target).sum())
    optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.1)
    x = torch.ones(6, 64)
    for _ in range(3):
        schedule.step(*([x] if rank == 0 else []), **({"target": x} if rank == n - 1 else {}))
        optimizer.step()


def zero(rank: int, n: int) -> None:
    """ZeroRedundancyOptimizer: an optimizer inside an optimizer, with a broadcast a parameter."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64))
    _steps(model, 3, ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1))


def two_optimizers(rank: int, n: int) -> None:
    """A GAN's order: each of two networks has a forward pass, a backward pass and an optimizer in every step."""
    nets = [nn.parallel.DistributedDataParallel(nn.Linear(64, width)) for width in (8, 16)]
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
    for _ in range(4):
        for net, optimizer in zip(nets, optimizers, strict=True):
            net(torch.ones(4, 64)).sum().backward()
            optimizer.step()


def many(rank: int, n: int) -> None:
    """Many DDP steps with several buckets: what a kernel that holds the interpreter's lock hangs in."""
    layers = [nn.Linear(64, 64) for _ in range(12)]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.02)
    _steps(model, int(os.environ.get("JOB_STEPS", "40")))


SCENARIOS: dict[str, Callable[[int, int], None]] = {
    each.__name__: each
    for each in (
        collectives,
        ddp,
        ddp_hook,
        fsdp2,
        fsdp1,
        hsdp_tp,
        hsdp,
        pipeline,
        interleaved,
        zero,
        two_optimizers,
        many,
    )
}


def _rank(rank: int, world: int, folder: str, names: list[str]) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
    for name in names:
        steps = os.environ.get("JOB_CAPTURE_STEPS")
        with busbw.capture(Path(folder) / name, steps, os.environ.get("JOB_TIMES", "all")) as bill:
            SCENARIOS[name](rank, world)
        assert isinstance(bill, Capture)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    where, size, *wanted = sys.argv[1:]
    mp.start_processes(_rank, (int(size), where, wanted), int(size), start_method="fork")
