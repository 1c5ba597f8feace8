"""A family of models: from a configuration to the tensors, without torch.

A family says which tensors there are in the order of registration, and in which order forward uses them; the order in
which gradients arrive follows. Autograd runs what was recorded last first, so gradients arrive in the reverse order of
first use, and within one operation in a fixed order: a linear layer's bias before its weight, a norm's or a
convolution's weight before its bias. A tied weight is first used by the embedding, so it arrives last.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from busbw.core.plan import Geometry, Model, Tensor
from busbw.errors import UsageError
from busbw.registry import Registry

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Family:
    """One family. Each file of `busbw.pricing.models` defines one, named FAMILY."""

    name: str
    members: Mapping[str, Config]
    """Known members: the name that users type, and the configuration in transformers' words."""
    build: Callable[[str, Config], Model]
    model_types: tuple[str, ...] = ()
    """The `model_type` of a transformers config.json that it reads."""
    aliases: Mapping[str, str] | None = None


FAMILIES: Registry[Family] = Registry("busbw.pricing.models", "FAMILY", "model family")
"""Every family by name."""


def member_names() -> tuple[str, ...]:
    """Every model that is known by name."""
    return tuple(sorted(name for family in FAMILIES for name in family.members))


def built_in(name: str) -> Model:
    """A known model; UsageError names close matches and what else a model can be."""
    word = name.lower().replace("_", "-")
    for family in FAMILIES:
        word = (family.aliases or {}).get(word, word)
        if word in family.members:
            return family.build(word, family.members[word])
    known = member_names()
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    raise UsageError(
        f"unknown model {name!r}: {hint}known are {', '.join(known)}; or give a config.json, a .safetensors file, a CSV of "
        "name,shape,dtype, or package.module:function"
    )


def from_config(name: str, config: Config) -> Model:
    """The model of a transformers configuration; UsageError names the `model_type`s that are read."""
    model_type = str(config.get("model_type", ""))
    for family in FAMILIES:
        if model_type in family.model_types:
            return family.build(name, config)
    known = sorted(word for family in FAMILIES for word in family.model_types)
    raise UsageError(
        f"model_type {model_type!r} is not known here ({', '.join(known)}); give package.module:function that returns the "
        "module, its .safetensors file, or a CSV of name,shape,dtype"
    )


class Draft:
    """Collects tensors in the order of registration, and notes the order of use.

    `at` places a use elsewhere than last: a key that is compared with the running number of the uses so far.
    """

    def __init__(self, dtype: str = "float32") -> None:
        self.dtype = dtype
        self.tensors: list[Tensor] = []
        self.buffers: list[Tensor] = []
        self.uses: list[tuple[float, int, tuple[str, ...]]] = []

    def add(self, name: str, shape: tuple[int, ...], flops: float = 0.0) -> None:
        """A parameter, without a use."""
        self.tensors.append(Tensor(name, shape, self.dtype, flops=flops))

    def use(self, *names: str, at: float | None = None) -> None:
        """One operation uses these; the order is that in which its backward finishes them."""
        self.uses.append((len(self.uses) if at is None else at, len(self.uses), names))

    def parameter(self, name: str, shape: tuple[int, ...], flops: float = 0.0, at: float | None = None) -> None:
        """A parameter with a use of its own."""
        self.add(name, shape, flops)
        self.use(name, at=at)

    def linear(
        self,
        name: str,
        out: int,
        inside: int,
        bias: bool = True,
        *,
        transposed: bool = False,
        at: float | None = None,
        share: float = 1.0,
    ) -> None:
        """A linear layer; `share` of the tokens go through it."""
        self.add(f"{name}.weight", (inside, out) if transposed else (out, inside), 2.0 * out * inside * share)
        if bias:
            self.add(f"{name}.bias", (out,))
        self.use(*([f"{name}.bias"] if bias else []), f"{name}.weight", at=at)

    def norm(self, name: str, size: int, bias: bool = True, at: float | None = None) -> None:
        """A norm's weight, and its bias."""
        self.add(f"{name}.weight", (size,))
        if bias:
            self.add(f"{name}.bias", (size,))
        self.use(f"{name}.weight", *([f"{name}.bias"] if bias else []), at=at)

    def convolution(
        self, name: str, out: int, inside: int, size: int, places: int, bias: bool = False, at: float | None = None
    ) -> None:
        """A square convolution that computes `places` outputs of each channel an image."""
        self.add(f"{name}.weight", (out, inside, size, size), 2.0 * out * inside * size * size * places)
        if bias:
            self.add(f"{name}.bias", (out,))
        self.use(f"{name}.weight", *([f"{name}.bias"] if bias else []), at=at)

    def buffer(self, name: str, shape: tuple[int, ...], dtype: str = "float32") -> None:
        """A buffer."""
        self.buffers.append(Tensor(name, shape, dtype, buffer=True, trainable=False, used=False))

    @property
    def here(self) -> float:
        """The key of the next use."""
        return float(len(self.uses))

    def model(self, name: str, blocks: tuple[str, ...], geometry: Geometry | None, **more: Any) -> Model:
        """The model, with its gradients' order of arrival."""
        order = [names for _, _, names in sorted(self.uses)]
        arrival: list[str] = []
        first: set[str] = set()
        for names in order:
            fresh = tuple(each for each in names if each not in first)
            first.update(fresh)
            arrival[:0] = fresh
        assert set(arrival) == {tensor.name for tensor in self.tensors}, "every parameter has a use"
        return Model(
            name,
            (*self.tensors, *self.buffers),
            tuple(arrival),
            blocks,
            geometry,
            source=more.pop("source", f"shape table of {name}"),
            **more,
        )


def whole_number(name: str, config: Config, *keys: str, default: int | None = None) -> int:
    """A positive whole number of a configuration under the first key that is there; UsageError names the key."""
    for key in keys:
        if config.get(key) is not None:
            value = config[key]
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"{name}: {key} {value!r} must be a whole number of 1 or more")
            return value
    if default is None:
        raise UsageError(f"{name}: {keys[0]} is missing")
    return default
