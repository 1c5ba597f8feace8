"""What a parallelism is to the pricing: its options, and a scheme that emits the events of a step.

A plan is a product of parallelisms on a mesh. One of them, the *data* one, owns parameters and gradients (ddp, zero,
fsdp, ...); the others change the model that a rank holds (`localize`) and put calls around a unit's computation
(`forward`, `backward`); a pipeline orders the micro-batches.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from busbw.core.dtype import find_dtype
from busbw.core.plan import Model, Tensor, Unit
from busbw.errors import UsageError
from busbw.pricing.stream import Compute, Events, Group
from busbw.registry import Registry


@dataclass(frozen=True, slots=True)
class Option:
    """A word of the plan that belongs to a parallelism: `bucket_cap_mb=50`."""

    name: str
    default: Any
    parse: Callable[[str], Any]
    means: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for the whole step.

    `micro_batch` samples (sequences, images) a rank and micro-step, `sequence` tokens of each, `accumulate` micro-steps
    for one optimizer step, `dtype` of activations.
    """

    micro_batch: int = 1
    sequence: int = 1
    accumulate: int = 1
    dtype: str = "float32"
    clip: bool = False
    """The training loop calls clip_grad_norm_ before the optimizer."""


@dataclass(frozen=True)
class Job:
    """What a scheme prices: the model as this rank holds it, its group, the options and the settings.

    `mesh` has the group of every axis of the plan; `whole` is the model before anything was cut.
    """

    model: Model
    group: Group
    options: Mapping[str, Any]
    settings: Settings
    mesh: Mapping[str, Group]
    whole: Model
    data: str = ""
    """The name of the parallelism that owns parameters and gradients."""
    factors: tuple[int, ...] = ()
    """The degree as it was given: (2, 4) of `hsdp=2x4`."""
    inner: tuple[Scheme, ...] = ()
    """The schemes whose calls stand around a unit's computation, outermost first."""

    def inside_forward(self, unit: Unit, phase: str = "forward") -> Events:
        """A unit's forward: its computation in two halves, and what the inner schemes call around and between them."""
        before, between, after = _merged({s.axis: s.forward(unit, phase) for s in self.inner}, FORWARD)
        return self._around(unit, phase, 1.0, before, between, after)

    def inside_backward(self, unit: Unit) -> Events:
        """A unit's backward, which computes twice as much, in the opposite order."""
        before, between, after = _merged({s.axis: s.backward(unit) for s in self.inner}, BACKWARD)
        return self._around(unit, "backward", 2.0, before, between, after)

    def _around(self, unit: Unit, phase: str, factor: float, before: Events, between: Events, after: Events) -> Events:
        flops = factor * self.flops(unit)
        if not between:
            return [*before, Compute(phase, unit.name, flops), *after]
        half = Compute(phase, unit.name, flops / 2)
        return [*before, half, *between, half, *after]

    @property
    def sequence(self) -> int:
        """Tokens of a sample on this rank: context parallelism cuts them."""
        return self.settings.sequence // self.mesh["cp"].size if "cp" in self.mesh else self.settings.sequence

    @property
    def tokens(self) -> int:
        """Tokens (or images) of a micro-batch on this rank."""
        return self.settings.micro_batch * self.sequence

    def _attention_flops(self, unit: Unit) -> float:
        """Scores and their product with the values, a token: 2 x 2 x s x heads x head_dim, half of it under a causal mask."""
        geometry = self.whole.geometry
        if geometry is None or unit.kind != "block" or self.whole.sample != "token":
            return 0.0
        return 2.0 * self.settings.sequence * geometry.heads * geometry.head_dim

    def flops(self, unit: Unit) -> float:
        """Forward FLOPs of a micro-batch on this rank."""
        flops = (unit.flops + self._attention_flops(unit)) * self.tokens
        for scheme in self.inner:
            flops *= scheme.share_of_flops(unit)
        return flops


Around: TypeAlias = "tuple[Events, Events, Events]"
"""Calls before a unit's computation, in its middle (behind attention), and after it."""


FORWARD = (("tp", "cp"), ("cp", "tp", "ep"), ("ep", "tp"))
"""Whose calls stand first: before attention, between attention and feed-forward, behind the feed-forward."""
BACKWARD = (("tp", "ep"), ("ep", "tp", "cp"), ("cp", "tp"))
"""The same for backward, which goes through the feed-forward first."""


def _merged(parts: Mapping[str, Around], order: tuple[tuple[str, ...], ...]) -> Around:
    """The calls of all inner schemes, in the order in which a block makes them."""
    none: Around = ([], [], [])
    before, between, after = (
        [event for axis in axes for event in parts.get(axis, none)[place]] for place, axes in enumerate(order)
    )
    return before, between, after


class Scheme:
    """Emits events as a job goes on. Schemes are stateful: the first steps of a job differ from the later ones."""

    axis = "data"

    def __init__(self, job: Job) -> None:
        self.job = job
        self.notes: list[str] = []

    # --- every parallelism ---
    def constructor(self) -> Events:
        """What wrapping the model communicates, before the first step."""
        return []

    def optimizer(self) -> Events:
        """What the optimizer step communicates."""
        return []

    # --- those that work inside a unit: tp, cp, ep ---
    def forward(self, unit: Unit, phase: str = "forward") -> Around:
        """Calls of one unit's forward."""
        return [], [], []

    def backward(self, unit: Unit) -> Around:
        """Calls of one unit's backward."""
        return [], [], []

    def partial_gradients(self, tensors: Sequence[Tensor], phase: str) -> Events:
        """Calls that finish gradients which every rank of the group has a part of, before the data scheme takes them."""
        return []

    def after_backward(self) -> Events:
        """Calls once all gradients of a step are there, before the optimizer."""
        return []

    @property
    def parts_of_sequence(self) -> int:
        """Into how many parts activations between units are cut."""
        return 1

    def share_of_flops(self, unit: Unit) -> float:
        """The share of a unit's computation that is left to one rank."""
        return 1.0


class DataScheme(Scheme):
    """A scheme that owns parameters and gradients."""

    def forward_pass(self, units: Sequence[Unit], micro_step: int, last: bool) -> Events:
        """All units of one micro-batch, in order. `last`: gradients are synchronised after it."""
        return [event for unit in units for event in self.job.inside_forward(unit)]

    def backward_pass(self, units: Sequence[Unit], micro_step: int, last: bool) -> Events:
        """All units of one micro-batch, backwards."""
        return [event for unit in reversed(units) for event in self.job.inside_backward(unit)]


@dataclass(frozen=True, slots=True)
class Parallelism:
    """One parallelism. Each file of `busbw.pricing.parallelisms` defines one, named PARALLELISM."""

    name: str
    axis: str
    """data, tp, pp, cp or ep: what it divides. A plan has one of each at most."""
    summary: str
    scheme: Callable[[Job], Scheme]
    options: tuple[Option, ...] = ()
    localize: Callable[[Model, Group, Mapping[str, Any]], Model] | None = None
    """The model as one rank of the group holds it, where it is cut."""
    tries: tuple[tuple[str, Any, str], ...] = ()
    """(option, value, why): changes that are worth pricing beside the plan as it is."""
    shape: bool = False
    """Its degree may be a product, outer x inner (`hsdp=2x4`)."""
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader of its bill has to know."""


PARALLELISMS: Registry[Parallelism] = Registry("busbw.pricing.parallelisms", "PARALLELISM", "parallelism")
"""Every parallelism by name."""

ALIASES = {
    "dp": "ddp",
    "fsdp": "fsdp2",
    "zero": "zero_redundancy_optimizer",
    "zero_redundancy": "zero_redundancy_optimizer",
}
"""Other words for the same."""


def yes_or_no(text: str) -> bool:
    """A flag's value."""
    word = text.lower()
    if word in ("", "1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise UsageError(f"{text!r} is neither true nor false")


def whole(least: int = 0) -> Callable[[str], int]:
    """A whole number of `least` or more."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise UsageError(f"{text!r} must be a whole number of {least} or more")
        return value

    return parse


def number(text: str) -> float:
    """A number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e15:
        raise UsageError(f"{text!r} must be a number above 0")
    return value


def one_of(*choices: str) -> Callable[[str], str]:
    """One of these words."""

    def parse(text: str) -> str:
        word = text.lower()
        if word not in choices:
            close = difflib.get_close_matches(word, choices, n=1)
            raise UsageError(
                f"{text!r} must be one of {', '.join(choices)}{f'; did you mean {close[0]}?' if close else ''}"
            )
        return word

    return parse


def dtype_or_none(text: str) -> str | None:
    """The name of an element type; `none` is None."""
    return None if text.lower() == "none" else find_dtype(text).name
