"""How long pricing takes: a thousand tensors on 1024 ranks under every data parallelism, and large known models.

python benchmarks/pricing/speed.py
"""

from __future__ import annotations

import sys
import time

from busbw.core.plan import Model, Tensor
from busbw.pricing import price
from busbw.pricing.readers import read_model

PLANS = ("ddp", "zero_redundancy_optimizer", "fsdp1", "fsdp2", "hsdp=8x128", "zero1", "zero3", "megatron_ddp", "muon")
KNOWN = (
    ("llama3-405b", "fsdp2,tp=8,sp", 1024),
    ("llama3-405b", "fsdp2,tp=8,sp,pp=16", 1024),
    ("deepseek-v3", "fsdp2,ep=64,pp=8", 1024),
)


def thousand() -> Model:
    """100 blocks of ten matrices."""
    names = [f"layers.{i // 10}.t{i % 10}.weight" for i in range(1000)]
    tensors = tuple(Tensor(name, (1000 + i, 333)) for i, name in enumerate(names))
    return Model("thousand", tensors, tuple(reversed(names)), tuple(f"layers.{i}" for i in range(100)))


def main() -> None:
    cases = [(thousand(), plan, 1024) for plan in PLANS] + [(read_model(name), plan, n) for name, plan, n in KNOWN]
    for model, plan, world in cases:
        best = min(_seconds(model, plan, world) for _ in range(3))
        print(f"{model.name:<14} {plan:<28} N = {world}: {best:.3f} s")
    assert "torch" not in sys.modules


def _seconds(model: Model, plan: str, world: int) -> float:
    start = time.perf_counter()
    price(model, plan, world, settings={"accumulate": 16 if "pp" in plan else 1})
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
