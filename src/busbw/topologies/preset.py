"""A preset: a machine by name with parameters, and how the text of a parameter becomes its value."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from busbw.core.topology import Topology
from busbw.errors import UsageError
from busbw.registry import Registry
from busbw.units import parse_rate, parse_time

KINDS = ("count", "number", "rate", "time", "flag", "choice", "shape", "machine")
MOST = 2**24
"""GPUs, hosts or switches that a parameter may ask for."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a preset: `text` is its default as a user would write it."""

    name: str
    kind: str
    text: str
    help: str
    choices: tuple[str, ...] = ()
    least: int = 1
    """Of a count."""

    def read(self, text: str, owner: str) -> Any:
        """The value of what was written (None for nothing); UsageError that names the parameter and its rule."""
        if not text and not self.text:
            return None
        where = f"{owner}: {self.name}={text}"
        try:
            return self._value(text.strip(), where)
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from error

    def _value(self, text: str, where: str) -> Any:
        if self.kind == "count":
            if re.fullmatch(r"[+-]?\d{1,18}", text) is None:
                raise UsageError(f"{where}: it must be a whole number, such as {self.name}=8")
            if not self.least <= int(text) <= MOST:
                raise UsageError(f"{where}: it must be from {self.least} to {MOST}")
            return int(text)
        if self.kind == "number":
            value = float(text)
            if not 0 < value < math.inf:
                raise UsageError(f"{where}: it must be above 0")
            return value
        if self.kind in ("rate", "time"):
            return self._measure(text, where)
        if self.kind == "flag":
            if text not in ("on", "off"):
                raise UsageError(f"{where}: it is on or off")
            return text == "on"
        if self.kind == "choice":
            if text not in self.choices:
                raise UsageError(f"{where}: choose from {', '.join(self.choices)}{close_matches(text, self.choices)}")
            return text
        if self.kind == "shape":
            if re.fullmatch(r"\d{1,8}(x\d{1,8}){0,7}", text) is None:
                raise UsageError(f"{where}: it must be sizes such as 8x8x4")
            sizes = tuple(int(size) for size in text.split("x"))
            if min(sizes) < 1 or not 1 <= math.prod(sizes) <= MOST:
                raise UsageError(f"{where}: the sizes must be 1 or more, and their product at most {MOST}")
            return sizes
        assert self.kind == "machine", self.kind
        from busbw.topologies import read_topology

        return read_topology(text)

    def _measure(self, text: str, where: str) -> float:
        """A rate, which must be above 0, or a time, which must be 0 or more."""
        sign, rest = (-1.0, text[1:]) if text.startswith("-") else (1.0, text)
        value = sign * (parse_rate(rest) if self.kind == "rate" else parse_time(rest))
        if self.kind == "rate" and not value > 0:
            raise UsageError(f"{where}: a bandwidth must be above 0")
        if self.kind == "time" and not value >= 0:
            raise UsageError(f"{where}: a latency must be 0 or more")
        return value


@dataclass(frozen=True, slots=True)
class Preset:
    """One machine, or a kind of machine, by name."""

    name: str
    summary: str
    source: str
    """Data sheets and documents that the numbers are from."""
    parameters: tuple[Parameter, ...]
    build: Callable[..., Topology]
    """Values by parameter name, and `name=` for the Topology -> the Topology."""

    def make(self, texts: Mapping[str, str]) -> Topology:
        """The machine with these parameters (as text); the others have their defaults."""
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in texts:
            if name not in known:
                choices = ", ".join(known) or "it has none"
                raise UsageError(
                    f"{self.name}: unknown parameter {name!r}: choose from {choices}{close_matches(name, known)}"
                )
        values = {name: parameter.read(texts.get(name, parameter.text), self.name) for name, parameter in known.items()}
        return self.build(name=self.written(texts), **values)

    def written(self, texts: Mapping[str, str]) -> str:
        """The expression that makes it, in the order of its parameters."""
        given = [
            f"{parameter.name}={texts[parameter.name]}" for parameter in self.parameters if parameter.name in texts
        ]
        return f"{self.name}({', '.join(given)})" if given else self.name


FAMILIES: Registry[tuple[Preset, ...]] = Registry("busbw.topologies.presets", "PRESETS", "family of presets")
"""Every file of presets by name."""


@lru_cache(maxsize=1)
def all_presets() -> Mapping[str, Preset]:
    """Every preset by name, in alphabetical order."""
    found = {preset.name: preset for family in FAMILIES for preset in family}
    return dict(sorted(found.items()))


def find_preset(name: str) -> Preset:
    """A preset by name; UsageError with the close matches. `_`, capitals and hgx- are as good as `-` and dgx-."""
    known = all_presets()
    wanted = name.lower().replace("_", "-").replace("hgx-", "dgx-")
    if wanted not in known:
        raise UsageError(
            f"unknown topology {name!r}: neither a file nor a preset ({', '.join(known)}){close_matches(wanted, known)}"
        )
    return known[wanted]


def close_matches(word: str, choices: Iterable[str]) -> str:
    """The end of a message: `; did you mean this?`, or nothing where no choice is like the word."""
    close = difflib.get_close_matches(word, list(choices), n=2, cutoff=0.5)
    return f"; did you mean {' or '.join(close)}?" if close else ""
