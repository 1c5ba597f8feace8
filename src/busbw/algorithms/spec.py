"""How people name an algorithm, in one syntax for bench, simulate and draw.

- `ring`, or with options `ring(order=0-2-1-3)`, `double_binary_tree(chunks=16)`, `multi_ring(orders=0-1-2-3/0-2-1-3)`
- `path/to/file.py:NAME`, a user's own function or Algorithm, with options too: `mine.py:star(centre=2)`
- `path/to/file.xml`, a program in MSCCL's XML

Numbers become int, numbers joined by `-` a tuple of int (joined by `/`, a tuple of those), anything else stays text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from busbw.core.schedule import ALGORITHMS, Algorithm, Schedule
from busbw.errors import UsageError

_NAMED = re.compile(r"(?P<name>[^()]*)(?:\((?P<options>[^()]*)\))?\s*")
_LIST = re.compile(r"\d+(-\d+)+")


@dataclass(frozen=True, slots=True)
class Spec:
    """An algorithm with the options that were asked for."""

    algorithm: Algorithm
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The spec as it would be typed, options sorted: what labels and captions show."""
        if not self.options:
            return self.algorithm.name
        options = ",".join(f"{name}={value_text(value)}" for name, value in sorted(self.options.items()))
        return f"{self.algorithm.name}({options})"

    def why_not(self, collective: str, world_size: int) -> str:
        """Why it can't do this collective on so many ranks; "" where it can."""
        return self.algorithm.why_not(collective, world_size)

    def build(self, collective: str, world_size: int, root: int = 0) -> Schedule:
        """The schedule; UsageError where the algorithm can't do this, or an option breaks a rule."""
        return self.algorithm.build(collective, world_size, root=root, **self.options)


def parse_algorithm(text: str) -> Spec:
    """Read one name with its options; UsageError names what is wrong with it, FileError what is wrong in a file."""
    match = _NAMED.fullmatch(text.strip())
    if match is None or not match["name"].strip():
        raise UsageError(f"algorithm {text!r}: write a name, with options in brackets: ring(order=0-2-1-3)")
    name = match["name"].strip()
    options = _options(match["options"] or "", text)
    algorithm = _find(name)
    algorithm.check_options(options)
    return Spec(algorithm, options)


def split_algorithms(text: str) -> list[str]:
    """A list parted by commas; those inside brackets part options and stay."""
    parts = (part.strip() for part in re.split(r",(?![^()]*\))", text))
    return [part for part in parts if part]


def value_text(value: Any) -> str:
    """An option's value as it is typed."""
    if isinstance(value, tuple | list):
        nested = any(isinstance(part, tuple | list) for part in value)
        return ("/" if nested else "-").join(value_text(part) for part in value)
    return str(value)


def _find(name: str) -> Algorithm:
    path, colon, function = name.rpartition(":")
    if colon and path.endswith(".py"):
        from busbw.algorithms.user_file import load

        return load(path, function)
    if name.lower().endswith(".xml"):
        from busbw.algorithms.msccl_xml import load_algorithm

        return load_algorithm(name)
    if name.endswith(".py"):
        raise UsageError(f"algorithm {name!r}: say which function of the file it is: {name}:NAME")
    return ALGORITHMS.get(name.lower().replace("-", "_"))


def _options(text: str, whole: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not value:
            raise UsageError(f"algorithm {whole!r}: {part!r} is no option: write NAME=VALUE")
        if name in options:
            raise UsageError(f"algorithm {whole!r}: the option {name} stands there twice")
        options[name] = _value(value)
    return options


def _value(text: str) -> Any:
    parts = text.split("/")
    if len(parts) > 1 and all(_LIST.fullmatch(part) or part.isdigit() for part in parts):
        return tuple(tuple(map(int, part.split("-"))) for part in parts)
    if _LIST.fullmatch(text):
        return tuple(map(int, text.split("-")))
    return int(text) if text.isdigit() else text
