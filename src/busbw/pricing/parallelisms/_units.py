"""What the sharding schemes share: which parameters are gathered together, and in which order that happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from busbw.core.plan import Model, Tensor, Unit
from busbw.errors import UsageError


@dataclass(frozen=True, slots=True)
class ShardUnit:
    """Parameters that are gathered by one call: those of a wrapped module, or what is left for the root."""

    name: str
    tensors: tuple[Tensor, ...]

    @property
    def with_gradient(self) -> tuple[Tensor, ...]:
        """Those that get a gradient."""
        return tuple(tensor for tensor in self.tensors if tensor.trainable and tensor.used)


def shard_units(model: Model, units: Sequence[Unit], wrap: str) -> tuple[ShardUnit, dict[str, ShardUnit]]:
    """The root's unit, and that of each wrapped block by its name. A block in which nothing is used never runs."""
    if wrap == "none":
        return ShardUnit("root", model.parameters), {}
    wrapped = {
        unit.name: ShardUnit(unit.name, unit.tensors)
        for unit in units
        if unit.kind == "block" and unit.name in model.blocks and any(t.used or not t.trainable for t in unit.tensors)
    }
    inside = {tensor.name for unit in units if unit.name in model.blocks for tensor in unit.tensors}
    return ShardUnit("root", tuple(t for t in model.parameters if t.name not in inside)), wrapped


def one_dtype(unit: ShardUnit, how: str) -> str:
    """The dtype that all of a unit's tensors have; UsageError where they differ."""
    dtypes = {tensor.dtype for tensor in unit.tensors}
    if len(dtypes) > 1:
        raise UsageError(f"{unit.name} has parameters of {', '.join(sorted(dtypes))}: {how} takes one dtype a unit")
    return dtypes.pop()
