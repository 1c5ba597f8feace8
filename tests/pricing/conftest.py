from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from busbw.core.bill import Bills, Line
from busbw.core.plan import Geometry, Model, Tensor
from busbw.pricing import price


@pytest.fixture
def small() -> Model:
    """Two blocks of a gated transformer with hidden 8, 4 heads of 2, 2 kv heads, ffn 12, vocabulary 24."""
    tensors = [Tensor("tokens.weight", (24, 8), flops=0.0)]
    for layer in ("layers.0", "layers.1"):
        shapes = {
            "attention.wq.weight": (8, 8),
            "attention.wk.weight": (4, 8),
            "attention.wv.weight": (4, 8),
            "attention.wo.weight": (8, 8),
            "feed_forward.w1.weight": (12, 8),
            "feed_forward.w3.weight": (12, 8),
            "feed_forward.w2.weight": (8, 12),
            "attention_norm.weight": (8,),
            "ffn_norm.weight": (8,),
        }
        tensors += [Tensor(f"{layer}.{name}", shape, flops=100.0) for name, shape in shapes.items()]
    tensors += [Tensor("norm.weight", (8,)), Tensor("output.weight", (24, 8), flops=50.0)]
    names = tuple(tensor.name for tensor in reversed(tensors))
    geometry = Geometry(2, 8, 4, 2, 2, 12, 24, 16, gated=True)
    return Model("small", tuple(tensors), names, ("layers.0", "layers.1"), geometry)


@pytest.fixture
def calls() -> Callable[..., list[tuple[Any, ...]]]:
    """(collective, elements or bytes S, dtype, phase, N) of every call of a step."""

    def listed(bills: Bills, step: str = "steady") -> list[tuple[Any, ...]]:
        return [_short(line) for line in bills.steps[step].lines for _ in range(line.count)]

    return listed


@pytest.fixture
def priced() -> Callable[..., Bills]:
    """price() with settings as keywords."""

    def run(model: Model | str, plan: str, world: int, rank: int = 0, **settings: Any) -> Bills:
        words: Mapping[str, Any] = settings
        return price(model, plan, world, rank=rank, settings=words)

    return run


def _short(line: Line) -> tuple[Any, ...]:
    return (line.call.collective, line.call.size_bytes, line.call.dtype, line.phase, line.call.world_size)
