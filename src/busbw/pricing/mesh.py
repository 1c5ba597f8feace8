"""A plan's words on a world of ranks: which parallelisms, of which degree, and the groups of each axis.

The axes lie in the order of Megatron and torchtitan, outermost first: pp, data, cp, tp. So neighbouring ranks are a
tensor-parallel group. The data axis shards and reduces over data x cp, because context ranks hold the same parameters.
Expert parallelism takes neighbouring ranks of the data axis.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from busbw.core.plan import Word, plan_words
from busbw.errors import UsageError
from busbw.pricing.parallelism import ALIASES, PARALLELISMS, Parallelism
from busbw.pricing.stream import Group

ORDER = ("pp", "data", "cp", "tp")


@dataclass(frozen=True, slots=True)
class Part:
    """One parallelism of a plan: its degree (a product has its factors, outer first), and its options."""

    parallelism: Parallelism
    factors: tuple[int, ...]
    options: Mapping[str, Any]

    @property
    def degree(self) -> int:
        """Ranks along its axis."""
        return math.prod(self.factors)


@dataclass(frozen=True, slots=True)
class Mesh:
    """A plan on a world."""

    text: str
    world_size: int
    parts: tuple[Part, ...]
    assumed: tuple[str, ...] = ()
    """What the plan left open and how it was taken."""

    def part(self, axis: str) -> Part | None:
        """The parallelism on an axis; None where the plan has none."""
        return next((part for part in self.parts if part.parallelism.axis == axis), None)

    def degree(self, axis: str) -> int:
        """Ranks along an axis; 1 where the plan has none."""
        part = self.part(axis)
        return 1 if part is None else part.degree

    def place(self, rank: int, axis: str) -> int:
        """Where a rank stands along an axis."""
        for name in reversed(ORDER):
            degree = self.degree(name)
            if name == axis:
                return rank % degree
            rank //= degree
        raise AssertionError(axis)

    def group(self, rank: int, *axes: str, label: str | None = None) -> Group:
        """The ranks that differ from `rank` along these axes only, in rank order."""
        ranks = [0]
        own = 0
        for name in ORDER:
            degree = self.degree(name)
            if name in axes:
                ranks = [base * degree + i for base in ranks for i in range(degree)]
            else:
                ranks = [base * degree + self.place(rank, name) for base in ranks]
            own = own * degree + self.place(rank, name)
        shown = label or "_".join(
            "dp" if axis == "data" else axis for axis in axes if self.degree(axis) > 1 or len(axes) == 1
        )
        if len(ranks) == self.world_size and self.world_size > 1:
            shown = label or "world"
        return Group(shown, tuple(ranks), ranks.index(own))

    def experts(self, rank: int) -> Group:
        """The ranks that share the experts: neighbours on the data axis."""
        data, degree = self.group(rank, "data"), self.degree("ep")
        first = data.place // degree * degree
        return Group("ep", data.ranks[first : first + degree], data.place - first)

    def expert_replicas(self, rank: int) -> Group:
        """The ranks that hold the same experts: what is left of data x cp."""
        data, degree = self.group(rank, "data", "cp"), self.degree("ep")
        cp = self.degree("cp")
        mine = data.place // cp % degree
        ranks = tuple(each for index, each in enumerate(data.ranks) if index // cp % degree == mine)
        return Group("expert_dp", ranks, ranks.index(data.rank))


def make_mesh(text: str, world_size: int) -> Mesh:
    """Read a plan for `world_size` ranks.

    Raises UsageError, in one line, for an unknown word (with close ones), a degree that does not fit, two parallelisms
    on one axis, or an option without its parallelism.
    """
    if world_size < 1:
        raise UsageError(f"world size {world_size}: the number of ranks is at least 1")
    words = plan_words(text)
    chosen: list[tuple[Parallelism, tuple[int, ...] | None]] = []
    rest: list[Word] = []
    for word in words:
        name = ALIASES.get(word.name, word.name)
        if name in PARALLELISMS.names():
            parallelism = PARALLELISMS.get(name)
            _one_of_each(text, chosen, parallelism)
            chosen.append((parallelism, None if word.value is None else _factors(text, parallelism, word.value)))
        else:
            rest.append(word)
    options = _options(text, [parallelism for parallelism, _ in chosen], rest)
    assumed: list[str] = []
    known = math.prod(math.prod(f) for p, f in chosen if f is not None and p.axis != "ep")
    data = [parallelism for parallelism, _ in chosen if parallelism.axis == "data"]
    if not data:
        left, remainder = divmod(world_size, known)
        if remainder or (left > 1 and any(f is None and p.axis != "ep" for p, f in chosen)):
            left = 1
        if left > 1 or not chosen:
            chosen.insert(0, (PARALLELISMS.get("ddp"), None))
            options["ddp"] = _defaults(PARALLELISMS.get("ddp"))
            assumed.append(f"the plan names no data parallelism: the {left} times that it fits are ddp={left}")
    parts = _degrees(text, world_size, chosen, options)
    return Mesh(text, world_size, tuple(parts), tuple(assumed))


def _one_of_each(text: str, chosen: Sequence[tuple[Parallelism, object]], new: Parallelism) -> None:
    for old, _ in chosen:
        if old.axis == new.axis:
            raise UsageError(f"plan {text!r}: {old.name} and {new.name} are both on the {new.axis} axis: take one")


def _factors(text: str, parallelism: Parallelism, value: str) -> tuple[int, ...]:
    words = value.lower().split("x")
    try:
        factors = tuple(int(word) for word in words)
    except ValueError:
        factors = (0,)
    if min(factors) < 1 or (len(factors) > 1 and not parallelism.shape) or len(factors) > 2:
        how = "such as 8, or replicas x shards such as 2x4" if parallelism.shape else "such as 8"
        raise UsageError(f"plan {text!r}: {parallelism.name}={value} must be a number of ranks {how}")
    return factors


def _defaults(parallelism: Parallelism) -> dict[str, Any]:
    return {option.name: option.default for option in parallelism.options}


def _options(text: str, chosen: Sequence[Parallelism], rest: Sequence[Word]) -> dict[str, dict[str, Any]]:
    """Options by parallelism; each word goes to every parallelism that knows it."""
    chosen = list(chosen)
    if not any(p.axis == "data" for p in chosen):
        chosen.append(PARALLELISMS.get("ddp"))
    options = {parallelism.name: _defaults(parallelism) for parallelism in chosen}
    for word in rest:
        taken = False
        for parallelism in chosen:
            for option in parallelism.options:
                if option.name == word.name:
                    try:
                        options[parallelism.name][option.name] = option.parse(
                            "true" if word.value is None else word.value
                        )
                    except UsageError as error:
                        raise UsageError(f"plan {text!r}: {word.name}: {error}") from error
                    taken = True
        if not taken:
            raise UsageError(_unknown(text, word, chosen))
    return options


def _unknown(text: str, word: Word, chosen: Sequence[Parallelism]) -> str:
    names = [*PARALLELISMS.names(), *ALIASES]
    own = [option.name for parallelism in chosen for option in parallelism.options]
    close = difflib.get_close_matches(word.name, [*names, *own], n=2)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    others = [p.name for p in PARALLELISMS if any(option.name == word.name for option in p.options)]
    if others:
        return f"plan {text!r}: {word.name} is an option of {', '.join(others)}, which the plan does not have"
    return (
        f"plan {text!r}: unknown word {word.name!r}: parallelisms are {', '.join(sorted(names))}; options here are "
        f"{', '.join(own) or 'none'}{hint}"
    )


def _degrees(
    text: str,
    world_size: int,
    chosen: Sequence[tuple[Parallelism, tuple[int, ...] | None]],
    options: Mapping[str, dict[str, Any]],
) -> list[Part]:
    """Every degree; at most one may be left open, and takes what the others leave."""
    on_mesh = [(parallelism, factors) for parallelism, factors in chosen if parallelism.axis != "ep"]
    known = math.prod(math.prod(factors) for _, factors in on_mesh if factors is not None)
    open_ = [parallelism.name for parallelism, factors in on_mesh if factors is None]
    shown = " x ".join(f"{p.name}={'x'.join(map(str, f))}" for p, f in on_mesh if f is not None) or "nothing"
    if len(open_) > 1:
        raise UsageError(f"plan {text!r}: give a degree to all but one of {', '.join(open_)}, such as {open_[0]}=2")
    if world_size % known or (not open_ and known != world_size):
        raise UsageError(
            f"plan {text!r}: {shown} is {known} ranks, and {world_size} is not "
            f"{'that many' if not open_ and world_size % known == 0 else 'divisible by it'}: change --world or a degree"
        )
    parts = []
    for parallelism, factors in chosen:
        if factors is None:
            factors = (world_size // known,) if parallelism.axis != "ep" else ()
        if parallelism.shape and len(factors) == 1:
            factors = parallelism_shape(parallelism, factors[0], options[parallelism.name])
        parts.append(Part(parallelism, factors, options[parallelism.name]))
    data = math.prod(p.degree for p in parts if p.parallelism.axis == "data")
    for index, part in enumerate(parts):
        if part.parallelism.axis == "ep":
            degree = part.degree if part.factors else data
            if data % degree:
                raise UsageError(f"plan {text!r}: ep={degree} must divide the {data} ranks of the data axis")
            parts[index] = Part(part.parallelism, (degree,), part.options)
    return parts


def parallelism_shape(parallelism: Parallelism, degree: int, options: Mapping[str, Any]) -> tuple[int, ...]:
    """Replicas x shards of a degree that was given as one number: `replicas` of the options, or 2 where it divides."""
    replicas = int(options.get("replicas") or (2 if degree % 2 == 0 else 1))
    if degree % replicas:
        raise UsageError(f"{parallelism.name}: {replicas} replicas do not divide {degree} ranks")
    return (replicas, degree // replicas)
