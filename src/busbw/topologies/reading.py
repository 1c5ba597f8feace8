"""A format of machine descriptions: how to recognise it by content, and what is read from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from busbw.core.log_text import LogText
from busbw.core.topology import Topology
from busbw.registry import Registry


class Description(Protocol):
    """What a file says of a machine, as it says it; frozen data of the format's own kind."""

    @property
    def stands_alone(self) -> bool:
        """Whether it says something worth showing although it may not describe a machine: graphs, a log."""
        ...

    def topology(self) -> Topology:
        """The machine; FileError, with the reason and what to do instead, where it does not describe one."""
        ...

    def summary(self) -> list[str]:
        """What it says, in lines for people."""
        ...

    def to_json(self) -> dict[str, Any]:
        """What it says, as plain data; `format` names the kind."""
        ...


@dataclass(frozen=True, slots=True)
class TopologyFormat:
    """One format. Each file of `busbw.topologies.readers` defines one, named FORMAT.

    `recognises(text)` looks at content, never at names, and is cheap. `read(text)` raises FileError that names the file,
    the line where there is one, the rule and the way out. Formats of a lower `order` are asked first.
    """

    name: str
    summary: str
    recognises: Callable[[LogText], bool]
    read: Callable[[LogText], Description]
    order: int = 1


TOPOLOGY_FORMATS: Registry[TopologyFormat] = Registry("busbw.topologies.readers", "FORMAT", "topology format")
"""Every reader by name."""
