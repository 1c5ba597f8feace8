"""One rank of `busbw sweep-buckets`: real DDP steps of a small GPT under several bucket limits, timed.

Run by busbw.pricing.sweep as `python -m busbw.pricing.modules.ddp_step SETTINGS`, in ranks that RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT describe; rank 0 writes the times to the file that the settings name. The limits are visited in
rounds, each time in another order that all ranks share, so that a machine whose speed drifts slows all of them alike.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

WARM_UP = 3
"""Steps that are not timed: the first has one bucket, the second rebuilds them."""


def build() -> tuple[Any, Any]:
    """The model and its inputs, by the SWEEP variable: what `read_model` is pointed at for the prediction."""
    settings = json.loads(os.environ["BUSBW_SWEEP"])
    return small_gpt(settings["layers"], settings["hidden"], settings["vocab"], settings["tokens"])


def small_gpt(layers: int, hidden: int, vocab: int, tokens: int) -> tuple[Any, Any]:
    """A GPT with its head tied to the embedding, and one sequence of token ids."""
    import torch
    from torch import nn

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.heads = max(hidden // 64, 1)
            self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

        def forward(self, x: Any) -> Any:
            b, t, h = x.shape
            parts = self.qkv(self.norm1(x)).split(h, dim=-1)
            q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in parts)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, h))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    class Gpt(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(tokens, hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm = nn.LayerNorm(hidden)
            self.head = nn.Linear(hidden, vocab, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, ids: Any) -> Any:
            x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return Gpt(), torch.zeros(1, tokens, dtype=torch.long)


def main(settings: dict[str, Any]) -> None:
    """Time every limit, computation alone, and all-reduces of several sizes; rank 0 writes what came out."""
    import torch
    import torch.distributed as dist

    with suppress(AttributeError, OSError):  # gloo's threads wait a scheduler tick otherwise
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    device = torch.device("cpu")
    if settings["backend"] == "nccl":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", os.environ["RANK"])))
        torch.cuda.set_device(device)
    dist.init_process_group(settings["backend"])
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // world))
    torch.manual_seed(0)
    module, ids = small_gpt(settings["layers"], settings["hidden"], settings["vocab"], settings["tokens"])
    module, ids = module.to(device), ids.to(device)
    timed = _Timer(torch, dist, device)
    found: dict[str, Any] = {
        "world_size": world,
        "caps": {},
        "compute_s": [],
        "all_reduce": {},
        "torch": torch.__version__,
    }
    order = random.Random(0)
    for round_ in range(settings["rounds"]):
        caps = list(settings["caps_mb"])
        order.shuffle(caps)
        for index, cap in enumerate(caps):
            steps, alone = _visit(module, ids, cap, settings["steps"], timed)
            found["caps"].setdefault(str(cap), []).extend(steps)
            found["compute_s"].extend(alone)
            if rank == 0:
                done = round_ * len(caps) + index + 1
                sys.stderr.write(f"progress {done} {settings['rounds'] * len(caps)}\n")
                sys.stderr.flush()
    size = 4096
    total = sum(parameter.numel() for parameter in module.parameters()) * 4
    while size <= 2 * total:
        data = torch.ones(min(size, total) // 4, device=device)
        found["all_reduce"][str(data.numel() * 4)] = timed.many(partial(dist.all_reduce, data), 8)
        size *= 4
    if rank == 0:
        Path(settings["output"]).write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def _visit(module: Any, ids: Any, cap: float, steps: int, timed: _Timer) -> tuple[list[float], list[float]]:
    """Wrap the module with this limit; seconds of synchronised steps, and of some without synchronisation."""
    from torch.nn.parallel import DistributedDataParallel

    wrapped = DistributedDataParallel(module, bucket_cap_mb=cap)

    def step(sync: bool = True) -> None:
        with nullcontext() if sync else wrapped.no_sync():
            wrapped(ids).float().mean().backward()
        module.zero_grad(set_to_none=True)

    for _ in range(WARM_UP):
        step()
    found = timed.many(step, steps)
    alone = timed.many(lambda: step(False), max(steps // 3, 1))
    return found, alone


class _Timer:
    """Seconds from a common start to the end on the slowest rank."""

    def __init__(self, torch: Any, dist: Any, device: Any) -> None:
        self.torch, self.dist, self.device = torch, dist, device

    def many(self, call: Callable[[], object], times: int) -> list[float]:
        """So many calls, each after a barrier."""
        taken = self.torch.zeros(times, dtype=self.torch.float64, device=self.device)
        for index in range(times):
            self.dist.barrier()
            start = time.perf_counter()
            call()
            if self.device.type == "cuda":
                self.torch.cuda.synchronize()
            taken[index] = time.perf_counter() - start
        self.dist.all_reduce(taken, self.dist.ReduceOp.MAX)
        return [float(value) for value in taken.tolist()]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
