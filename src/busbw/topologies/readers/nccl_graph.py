"""nccl_graph: NCCL's graphs (NCCL_GRAPH_DUMP_FILE, NCCL_GRAPH_FILE): the channels that it found, not the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from busbw.core.log_text import LogText
from busbw.core.topology import Topology
from busbw.errors import FileError
from busbw.topologies.readers._xml import parse_xml, root_of
from busbw.topologies.reading import TopologyFormat

PATTERNS = {"1": "balanced tree", "2": "split tree", "3": "tree", "4": "ring", "5": "NVLS", "6": "CollNet direct"}
"""NCCL's numbers of its patterns (src/include/graph.h)."""


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph: channels as NCCL wrote them, each a sequence of ("gpu" or "net", number)."""

    attributes: Mapping[str, str]
    channels: tuple[tuple[tuple[str, str], ...], ...]

    @property
    def pattern(self) -> str:
        """In words; NCCL's number where it is not known."""
        number = self.attributes.get("pattern", "")
        return PATTERNS.get(number, f"pattern {number}")

    def orders(self) -> list[tuple[int, ...]]:
        """The GPUs of each channel (by NCCL's dev, of one host) in order: of a ring, the ring."""
        return [tuple(int(number, 0) for kind, number in channel if kind == "gpu") for channel in self.channels]

    def to_json(self) -> dict[str, Any]:
        """Attributes, and what its channels hold."""
        gpus = [sum(kind == "gpu" for kind, _ in channel) for channel in self.channels]
        nets = [sum(kind == "net" for kind, _ in channel) for channel in self.channels]
        return {
            **self.attributes,
            "channels": len(self.channels),
            "gpus_per_channel": sorted(set(gpus)),
            "nets_per_channel": sorted(set(nets)),
            "first_channel": [list(step) for step in self.channels[0]] if self.channels else [],
            "orders": [list(order) for order in self.orders()],
        }


@dataclass(frozen=True, slots=True)
class NcclGraphs:
    """All graphs of a file."""

    file: str
    version: str
    graphs: tuple[Graph, ...]

    @property
    def stands_alone(self) -> bool:
        """It is worth showing by itself."""
        return True

    def topology(self) -> Topology:
        """Refused: channels are not links."""
        raise FileError(
            f"{self.file}: NCCL's graphs: channels (orders of GPUs), not the machine that they were found on; for that set "
            "NCCL_TOPO_DUMP_FILE=topo.xml beside NCCL_GRAPH_DUMP_FILE"
        )

    def summary(self) -> list[str]:
        """A line a graph, and the orders of its channels."""
        lines = [f"NCCL graphs, version {self.version or 'unknown'}: {len(self.graphs)}"]
        for graph in self.graphs:
            said = graph.attributes
            lines.append(
                f"graph {said.get('id', '?')}: {graph.pattern}, {len(graph.channels)} channels, GB/s a channel inside "
                f"{said.get('speedintra', '?')} ({said.get('typeintra', '?')}), between hosts {said.get('speedinter', '?')} "
                f"({said.get('typeinter', '?')})"
            )
            lines += [f"  channel {n}: {' '.join(map(str, order))}" for n, order in enumerate(graph.orders())]
        return lines

    def to_json(self) -> dict[str, Any]:
        """All graphs."""
        return {
            "format": "nccl_graph",
            "root": "graphs",
            "version": self.version,
            "graphs": [graph.to_json() for graph in self.graphs],
        }


def _read(text: LogText) -> NcclGraphs:
    root = parse_xml(text)
    graphs = []
    for graph in root.iter("graph"):
        channels = tuple(
            tuple((step.tag, step.get("dev", "")) for step in channel if step.tag in ("gpu", "net"))
            for channel in graph.iter("channel")
        )
        for channel in channels:
            for kind, number in channel:
                if kind == "gpu" and not _is_number(number):
                    raise FileError(
                        f"{text.name}: graph {graph.get('id', '?')}: a gpu with dev={number!r}: it must be a number"
                    )
        graphs.append(Graph(dict(graph.attrib), channels))
    if not graphs:
        raise FileError(f"{text.name}: <graphs> without a <graph>: NCCL writes them when a communicator is made")
    return NcclGraphs(text.name, root.get("version", ""), tuple(graphs))


def _is_number(text: str) -> bool:
    try:
        return int(text, 0) >= 0
    except ValueError:
        return False


FORMAT = TopologyFormat(
    "nccl_graph", "NCCL_GRAPH_DUMP_FILE", lambda text: root_of(text) in ("graphs", "graph"), _read, order=0
)
