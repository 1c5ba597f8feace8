"""What a training step works on: a model's tensors, how its computation is shaped, and the words of a parallel plan.

A Model is plain data. Its tensors stand in the order in which a module registers them (`named_parameters()`, then
`named_buffers()`; a shared tensor once, under its first name), because constructors communicate in that order.
`arrival` is the order in which backward finishes gradients, because buckets are filled in that order.

History of the saved form:
    1   {"type": "model", "format": 1, "name": ..., "tensors": [...], "arrival": [...], "blocks": [...], ...}
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

from busbw.core.dtype import DTYPES
from busbw.errors import UsageError

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Tensor:
    """A parameter or a buffer of a model.

    `flops` is what forward computes with it for one sample unit (a token, or an image): 2 for each multiplication and
    addition. Backward is taken as twice that. `used` is False for a parameter that never gets a gradient.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    buffer: bool = False
    trainable: bool = True
    used: bool = True
    flops: float = 0.0

    @property
    def count(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes in its own dtype."""
        return self.count * DTYPES[self.dtype].itemsize

    def inside(self, module: str) -> bool:
        """It belongs to the module of this path, or to one inside it; "" is the whole model."""
        return not module or self.name.startswith(module + ".")


@dataclass(frozen=True, slots=True)
class Geometry:
    """The sizes of a transformer that its activations follow; `experts` 0 is a dense model."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    sequence: int
    """Tokens of one sequence, unless the user says otherwise."""
    gated: bool = False
    """The feed-forward has a gate beside the up projection (SwiGLU)."""
    experts: int = 0
    experts_per_token: int = 0
    dense_layers: int = 0
    """The first so many layers of a mixture of experts that have none."""
    tied: bool = False
    """The head shares the embedding's weight."""
    rotary: bool = True
    """Positions are rotated into queries and keys; False: they are added to the embedding."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch of the model that runs as one: everything before the blocks, one block, everything after."""

    name: str
    kind: str
    """stem, block or head."""
    tensors: tuple[Tensor, ...]

    @property
    def flops(self) -> float:
        """Forward FLOPs for one sample unit."""
        return math.fsum(tensor.flops for tensor in self.tensors)


@dataclass(frozen=True)
class Model:
    """A model as its tensors; see the module's docstring for their order."""

    name: str
    tensors: tuple[Tensor, ...]
    arrival: tuple[str, ...]
    """Names of the trainable, used parameters in the order in which their gradients are finished."""
    blocks: tuple[str, ...] = ()
    """Paths of the repeated blocks (`transformer.h.0`, ...), in the order in which they run."""
    geometry: Geometry | None = None
    sample: str = "token"
    """What `Tensor.flops` count for: a token, or an image."""
    source: str = ""
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What a reader found out beside the tensors: order in which modules run, ..."""

    @cached_property
    def parameters(self) -> tuple[Tensor, ...]:
        """Parameters, in registration order."""
        return tuple(tensor for tensor in self.tensors if not tensor.buffer)

    @cached_property
    def buffers(self) -> tuple[Tensor, ...]:
        """Buffers, in registration order."""
        return tuple(tensor for tensor in self.tensors if tensor.buffer)

    @cached_property
    def trainable(self) -> tuple[Tensor, ...]:
        """Parameters that require a gradient, in registration order."""
        return tuple(tensor for tensor in self.parameters if tensor.trainable)

    @cached_property
    def by_name(self) -> Mapping[str, Tensor]:
        """Every tensor by its name."""
        return {tensor.name: tensor for tensor in self.tensors}

    @cached_property
    def arriving(self) -> tuple[Tensor, ...]:
        """Parameters in the order in which their gradients are finished."""
        return tuple(self.by_name[name] for name in self.arrival)

    @property
    def count(self) -> int:
        """Elements of all parameters."""
        return sum(tensor.count for tensor in self.parameters)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The model in the order in which it runs: stem, blocks, head; those without parameters are left out.

        A parameter outside the blocks belongs to the head when its gradient arrives before the first block's that is
        reached by backward; what gets no gradient goes by its place among the registered ones.
        """
        home: dict[str, int] = {}
        for index, block in enumerate(self.blocks):
            for tensor in self.parameters:
                if tensor.name.startswith(block + "."):
                    home[tensor.name] = index
        last, first = self._edge(home)
        stem, head = [], []
        inside: list[list[Tensor]] = [[] for _ in self.blocks]
        for tensor in self.parameters:
            if tensor.name in home:
                inside[home[tensor.name]].append(tensor)
            elif self.blocks and (tensor.name in last or (tensor.name not in first and self._is_after(tensor, home))):
                head.append(tensor)
            else:
                stem.append(tensor)
        units = [Unit("stem" if self.blocks else "model", "stem" if self.blocks else "block", tuple(stem))]
        units += [Unit(block, "block", tuple(own)) for block, own in zip(self.blocks, inside, strict=True)]
        units.append(Unit("head", "head", tuple(head)))
        return tuple(unit for unit in units if unit.tensors)

    def _edge(self, home: Mapping[str, int]) -> tuple[set[str], set[str]]:
        """Names whose gradients arrive before any block's, and the other ones outside the blocks."""
        first = next((i for i, name in enumerate(self.arrival) if name in home), len(self.arrival))
        return set(self.arrival[:first]), {name for name in self.arrival[first:] if name not in home}

    def _is_after(self, tensor: Tensor, home: Mapping[str, int]) -> bool:
        names = [each.name for each in self.parameters]
        return names.index(tensor.name) > max((i for i, name in enumerate(names) if name in home), default=len(names))

    def to_json(self) -> dict[str, Any]:
        """The saved form: a plain dictionary."""
        return {
            "type": "model",
            "format": FORMAT_VERSION,
            "name": self.name,
            "tensors": [asdict(tensor) for tensor in self.tensors],
            "arrival": list(self.arrival),
            "blocks": list(self.blocks),
            "geometry": None if self.geometry is None else asdict(self.geometry),
            "sample": self.sample,
            "source": self.source,
            "notes": list(self.notes),
            "facts": dict(self.facts),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Model:
        """The inverse of `to_json`; KeyError, TypeError, ValueError or UsageError for what is not a model."""
        if data.get("type") != "model" or data.get("format") != FORMAT_VERSION:
            raise ValueError(f"not a model of format {FORMAT_VERSION}")
        known = {each.name for each in fields(Tensor)}
        tensors = tuple(
            Tensor(**{**{k: v for k, v in item.items() if k in known}, "shape": tuple(item["shape"])})
            for item in data["tensors"]
        )
        geometry = data.get("geometry")
        return cls(
            name=str(data["name"]),
            tensors=tensors,
            arrival=tuple(data["arrival"]),
            blocks=tuple(data["blocks"]),
            geometry=None if geometry is None else Geometry(**geometry),
            sample=str(data.get("sample", "token")),
            source=str(data.get("source", "")),
            notes=tuple(data.get("notes", ())),
            facts=dict(data.get("facts", {})),
        )


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a plan: a parallelism with its degree, an option with its value, or a flag (`value` None)."""

    name: str
    value: str | None


def plan_words(text: str) -> tuple[Word, ...]:
    """The words (between commas or spaces) of a plan such as `ddp`, `dp=8,tp=4,pp=2` or `fsdp2,reshard_after_forward=false`.

    Raises UsageError for an empty plan, a word without a name, or a word given twice.
    """
    words: list[Word] = []
    for part in re.split(r"[,;]\s*|\s+", text.strip()):
        name, equals, value = part.strip().partition("=")
        name = name.strip().lower().replace("-", "_")
        if not name:
            raise UsageError(f"plan {text!r}: write words between commas, such as ddp or dp=8,tp=4,pp=2")
        if any(word.name == name for word in words):
            raise UsageError(f"plan {text!r}: {name} stands twice")
        words.append(Word(name, value.strip() if equals else None))
    return tuple(words)


__all__ = ["FORMAT_VERSION", "Geometry", "Model", "Tensor", "Unit", "Word", "plan_words"]
