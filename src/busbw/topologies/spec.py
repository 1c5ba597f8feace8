"""The one grammar of machines: `NAME`, or `NAME(key=value, ...)`, where a value may be such an expression itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.core.topology import Topology
from busbw.errors import UsageError
from busbw.topologies.preset import find_preset

EXPRESSION = re.compile(r"\s*([A-Za-z][\w.-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
DEEPEST = 8


def read_spec(text: str) -> Topology:
    """The machine of a preset expression; UsageError that says where it is not one."""
    if _deepest(text) > DEEPEST:
        raise UsageError(f"topology {text[:60]!r}...: expressions are nested at most {DEEPEST} deep")
    match = EXPRESSION.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text!r} is no topology: write a preset such as dgx-h100, switch(gpus=8, bandwidth=50GB/s), or a file"
        )
    return find_preset(match[1]).make(dict(_arguments(match[1], match[2] or "")))


def _arguments(owner: str, text: str) -> Iterator[tuple[str, str]]:
    """Pairs of name and text; commas inside of parentheses belong to the value."""
    seen: set[str] = set()
    for part in _parts(owner, text):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value or re.fullmatch(r"[A-Za-z_]\w*", name) is None:
            known = ", ".join(f"{parameter.name}=" for parameter in find_preset(owner).parameters)
            raise UsageError(f"{owner}: {part.strip()!r} is no parameter: write name=value ({known or 'it has none'})")
        if name in seen:
            raise UsageError(f"{owner}: {name} is given twice")
        seen.add(name)
        yield name, value


def _parts(owner: str, text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            raise UsageError(f"{owner}: a ')' too many in {text!r}")
        if character == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    if depth:
        raise UsageError(f"{owner}: a ')' is missing in {text!r}")
    parts.append(text[start:])
    return [part for part in parts if part.strip()]


def _deepest(text: str) -> int:
    depth = deepest = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    return deepest
