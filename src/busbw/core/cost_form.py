"""Shapes of T(S): the few formulas that a cost model is made of, each non-negative and never falling as S grows.

Overlap (1 to 3 parameters) is ``T = (t0^p + (S b)^p)^(1/p)``: a launch or latency t0, b seconds for each byte, and how
sharply one gives way to the other, p:

- p = 1: one after the other, the line T = t0 + S b of Hockney, "The communication challenge for MPP" (1994).
- p > 1: they overlap, up to max(t0, S b). Back-to-back calls queue on the device while it is busy.
- p = 1/2: (sqrt(t0) + sqrt(S b))^2, the time of a pipeline that cuts S into the best number of chunks. Its rate
  still rises long after the latency is paid.

With t0 = 0 or b = 0 it is a rate alone, or a floor alone.

Power (2 parameters) is ``T = c (S / S0)^g``: the rate grows as S^(1-g) throughout, as while a library adds channels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Overlap:
    """T = (launch_s^p + (S s_per_byte)^p)^(1/p), with p the sharpness."""

    launch_s: float
    s_per_byte: float
    sharpness: float = 1.0

    kind = "overlap"

    def seconds(self, size_bytes: float) -> float:
        """T of S = size_bytes."""
        wire_s = size_bytes * self.s_per_byte
        least, most = sorted((self.launch_s, wire_s))
        if least <= 0:
            return most
        return most * math.exp(math.log1p((least / most) ** self.sharpness) / self.sharpness)

    def gradient(self, size_bytes: float) -> tuple[float, ...]:
        """Derivatives of log T by the logarithms of the parameters in `parameters`."""
        wire_s = size_bytes * self.s_per_byte
        if self.launch_s <= 0 or self.s_per_byte <= 0:
            return (1.0,)
        if wire_s <= 0:
            return (1.0, 0.0, 0.0)[: len(self.parameters)]
        launch, wire = math.log(self.launch_s), math.log(wire_s)
        share = 1 / (1 + math.exp(min(max(self.sharpness * (launch - wire), -700.0), 700.0)))
        by_sharpness = (1 - share) * launch + share * wire - math.log(self.seconds(size_bytes))
        return (1 - share, share, by_sharpness)[: len(self.parameters)]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters that were fitted."""
        if self.launch_s <= 0:
            return ("s_per_byte",)
        if self.s_per_byte <= 0:
            return ("launch_s",)
        return ("launch_s", "s_per_byte") if self.sharpness == 1 else ("launch_s", "s_per_byte", "sharpness")

    @property
    def words(self) -> str:
        """What the shape means, in a few words."""
        if self.launch_s <= 0:
            return "a rate alone"
        if self.s_per_byte <= 0:
            return "a floor alone"
        if self.sharpness == 1:
            return "launch + wire"
        if self.sharpness > 1:
            return f"launch and wire overlap (p = {self.sharpness:g})"
        return f"a rate that still rises (p = {self.sharpness:g})"


@dataclass(frozen=True, slots=True)
class Power:
    """T = seconds_at (S / at_bytes)^exponent."""

    seconds_at: float
    at_bytes: float
    exponent: float

    kind = "power"

    def seconds(self, size_bytes: float) -> float:
        """T of S = size_bytes."""
        return float(self.seconds_at * (size_bytes / self.at_bytes) ** self.exponent)

    def gradient(self, size_bytes: float) -> tuple[float, ...]:
        """Derivatives of log T by log seconds_at and by the exponent."""
        return (1.0, math.log(max(size_bytes, 1.0) / self.at_bytes))

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters that were fitted (at_bytes is a unit, not a parameter)."""
        return ("seconds_at", "exponent")

    @property
    def words(self) -> str:
        """What the shape means, in a few words."""
        return f"T grows as S^{self.exponent:.2f}"


Form: TypeAlias = Overlap | Power

_KINDS: Mapping[str, type[Overlap] | type[Power]] = {"overlap": Overlap, "power": Power}


def form_to_json(form: Form) -> dict[str, Any]:
    """A plain dictionary: the kind and the parameters."""
    return {"kind": form.kind, **asdict(form)}


def form_from_json(data: Mapping[str, Any]) -> Form:
    """The inverse of `form_to_json`; raises KeyError, TypeError or ValueError for what is not a form."""
    kind = _KINDS.get(data["kind"])
    if kind is None:
        raise ValueError(f"unknown form {data['kind']!r}: choose from {', '.join(_KINDS)}")
    values = {name: float(data[name]) for name in kind.__slots__}
    if not all(0 <= value < math.inf for value in values.values()):
        raise ValueError(f"a form's parameters are numbers of 0 or more, not {values}")
    if 0 in (values.get("sharpness"), values.get("at_bytes"), values.get("seconds_at")):
        raise ValueError(f"a form's sharpness, at_bytes and seconds_at are above 0, not {values}")
    return kind(**values)
