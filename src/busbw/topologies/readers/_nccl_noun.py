"""What an NCCL log says, as one noun: ranks and places, channels, rings, trees, transports, choices, tuning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from busbw.core.topology import Topology
from busbw.errors import FileError
from busbw.topologies.readers._system_block import Block, host_of_blocks


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank runs, as far as the log says."""

    host: str
    device: int
    """The number in brackets: the GPU's, in its process' order."""
    busid: str = ""
    gpu: str = ""
    """Its name, where nccl-tests printed it."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One channel's way from one rank to another."""

    channel: int
    source: int
    target: int
    transport: str
    """Such as P2P/IPC or NET/IB/0/GDRDMA."""


@dataclass(frozen=True, slots=True)
class NcclLog:
    """What the lines say; what is not said is empty or None."""

    file: str
    versions: tuple[str, ...] = ()
    rccl_versions: tuple[str, ...] = ()
    info_lines: int = 0
    warn_lines: int = 0
    damaged_lines: int = 0
    """Lines that a second process wrote into."""
    nranks: Mapping[int, int] = field(default_factory=dict)
    """World size -> lines that name it."""
    hosts_said: tuple[int, ...] = ()
    """nNodes."""
    ranks: Mapping[int, Place] = field(default_factory=dict)
    channels: tuple[int, ...] = ()
    """Channels of collectives, as the line of their counts says."""
    nvls_channels: tuple[int, ...] = ()
    ring_lists: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Channel -> ranks in the order of its ring, as they stand: RCCL cuts long lists."""
    ring_list_lines: int = 0
    next_rank: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Channel -> rank -> the next one, from lines `Ring 00 : 1 -> 0 -> 1` and from the connections of rings."""
    trees: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Channel -> rank -> its parent; -1 for a root."""
    tree_lines: int = 0
    connections: tuple[Connection, ...] = ()
    transports: Mapping[str, int] = field(default_factory=dict)
    """Transport (numbers as n) -> lines."""
    connected_all_rings: int = 0
    connected_all_trees: int = 0
    gdrdma_mentions: int = 0
    nvls_available: bool | None = None
    thread_thresholds: tuple[str, ...] = ()
    choices: Mapping[tuple[str, str], Counter[int]] = field(default_factory=dict)
    """("AllReduce", "RING/SIMPLE") -> bytes -> calls."""
    init_complete: int = 0
    networks: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    tuning: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    """Operation -> Ring/LL -> (us, GB/s): NCCL's own estimate, without what it can't use."""
    blocks: Mapping[str, Block] = field(default_factory=dict)
    """Host -> its `=== System` block (NCCL_DEBUG_SUBSYS=GRAPH)."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts of the ranks, in the order of ranks."""
        return tuple(dict.fromkeys(place.host for _, place in sorted(self.ranks.items())))

    @property
    def world_size(self) -> int | None:
        """Of the largest communicator that is named."""
        return max(self.nranks, default=None)

    def rings(self) -> dict[int, tuple[int, ...]]:
        """Channel -> the ranks in the order of its ring, cut lists completed where the connections tell how they go on."""
        found = {}
        for channel in sorted({*self.ring_lists, *self.next_rank}):
            order = list(self.ring_lists.get(channel, ()))
            following = self.next_rank.get(channel, {})
            if not order and following:
                order = [min(following)]
            while order and following.get(order[-1], order[0]) not in order:
                order.append(following[order[-1]])
            found[channel] = tuple(order)
        return found

    @property
    def stands_alone(self) -> bool:
        """It is worth showing by itself."""
        return True

    def topology(self) -> Topology:
        """The hosts as NCCL saw them, where the log has its graph lines; FileError otherwise."""
        if not self.blocks:
            raise FileError(
                f"{self.file}: an NCCL log with channels and transports, but not the links of the machine: run it again with "
                "NCCL_TOPO_DUMP_FILE=topo.xml and give that file, or log with NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH"
            )
        return host_of_blocks(self.file, self.blocks, self.ranks)

    def summary(self) -> list[str]:
        """What a reader wants first."""
        said = [f"NCCL {version}" for version in self.versions] + [f"RCCL {version}" for version in self.rccl_versions]
        version = ", ".join(said) or "NCCL of unknown version"
        ranks = f"{self.world_size} ranks" if self.world_size else "ranks unknown"
        lines = [
            f"log of {version}: {ranks}, {len(self.hosts) or 'unknown'} hosts, network {', '.join(self.networks) or 'unknown'}"
        ]
        if self.channels:
            lines.append(
                f"channels: {', '.join(map(str, self.channels))}; NVLS channels: {', '.join(map(str, self.nvls_channels)) or 'not said'}"
            )
        if self.transports:
            lines.append(
                "transports: " + ", ".join(f"{name} ({count} lines)" for name, count in self.transports.items())
            )
        rings = self.rings()
        if rings:
            first = min(rings)
            order = " ".join(map(str, rings[first][:32])) + (" ..." if len(rings[first]) > 32 else "")
            cut = (
                ""
                if self.world_size in (None, len(rings[first]))
                else f" (cut: {len(rings[first])} of {self.world_size})"
            )
            lines.append(f"rings: {len(rings)}; ring {first}: {order}{cut}")
        for host in self.hosts[:16]:
            here = [rank for rank, place in sorted(self.ranks.items()) if place.host == host]
            lines.append(f"host {host}: ranks {' '.join(map(str, here))}")
        if len(self.hosts) > 16:
            lines.append(f"... and {len(self.hosts) - 16} more hosts")
        if self.damaged_lines:
            lines.append(
                f"{self.damaged_lines} lines were written over by a second process; the part that is whole is read"
            )
        return lines

    def to_json(self) -> dict[str, Any]:
        """Counts, rings, transports, tuning."""
        rings = self.rings()
        return {
            "format": "nccl_log",
            "nccl_version": list(self.versions) or None,
            "rccl_version": list(self.rccl_versions) or None,
            "info_lines": self.info_lines,
            "warn_lines": self.warn_lines,
            "damaged_lines": self.damaged_lines,
            "nranks_seen": {str(ranks): lines for ranks, lines in self.nranks.items()} or None,
            "nnodes": list(self.hosts_said) or None,
            "hosts": {
                host: [r for r, place in sorted(self.ranks.items()) if place.host == host] for host in self.hosts
            },
            "channels": list(self.channels) or None,
            "nvls_channels": list(self.nvls_channels) or None,
            "ring_lists": self.ring_list_lines,
            "ring_00": list(self.ring_lists[0]) if 0 in self.ring_lists else None,
            "rings": {str(channel): list(order) for channel, order in rings.items()},
            "trees": {
                str(channel): {str(r): p for r, p in sorted(tree.items())}
                for channel, tree in sorted(self.trees.items())
            },
            "transports": dict(self.transports),
            "tree_lines": self.tree_lines,
            "connected_all_rings": self.connected_all_rings,
            "connected_all_trees": self.connected_all_trees,
            "gdrdma_mentions": self.gdrdma_mentions,
            "nvls_available": self.nvls_available,
            "thread_thresholds": list(self.thread_thresholds) or None,
            "algo_lines": sum(sum(sizes.values()) for sizes in self.choices.values()),
            "algo_by_size": {f"{op} {how}": [min(s), max(s), len(s)] for (op, how), s in self.choices.items()},
            "init_complete": self.init_complete,
            "network": list(self.networks) or None,
            "nics": list(self.nics),
            "patterns": list(self.patterns),
            "tuning_us_GBs": {op: {how: list(cell) for how, cell in rows.items()} for op, rows in self.tuning.items()},
        }
