"""rocm_topo: the tables of `rocm-smi --showtopo` and of `amd-smi topology` (weight, hops, link type, NUMA nodes).

Rows and columns are GPUs, by number or by bus id. The link type says XGMI or PCIE; hops of 1 are a link of their own,
XGMI pairs of more hops go through other GPUs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from busbw.core.log_text import LogText
from busbw.core.topology import Device, Link, Topology, TopologyBuilder
from busbw.errors import FileError
from busbw.topologies.assumed import COSTS, NOTE, PXB_NOTE, nccl_pcie_Bps, policies
from busbw.topologies.reading import TopologyFormat

_SECTIONS = (
    ("link type", re.compile(r"link type", re.IGNORECASE)),
    ("weight", re.compile(r"weight", re.IGNORECASE)),
    ("hops", re.compile(r"\bhops\b", re.IGNORECASE)),
    ("access", re.compile(r"\baccess\b", re.IGNORECASE)),
    ("bandwidth", re.compile(r"\b(?:numa )?(?:bw|bandwidth)\b", re.IGNORECASE)),
    ("link status", re.compile(r"link status", re.IGNORECASE)),
)
_TITLE = re.compile(r"\s*=*\s*([A-Za-z][\w ()/-]*?)\s*(?:=+|:)\s*")
_GPU = re.compile(r"GPU\[?\d{1,4}\]?")
_BDF = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_NUMA = re.compile(r"\s*GPU\s?\[?\s*(\d{1,4})\s*\]?\s*:\s*\(Topology\)\s*Numa Node:\s*(-?\d{1,6})", re.IGNORECASE)
_XGMI_BPS = 48e9
_SOCKET_BPS, _MEMORY_BPS = 16e9, 100e9


@dataclass(frozen=True, slots=True)
class RocmTables:
    """The tables as they stand."""

    file: str
    gpus: tuple[str, ...]
    tables: Mapping[str, Mapping[tuple[str, str], str]]
    """Section -> (row, column) -> cell."""
    numa_of: Mapping[int, int] = field(default_factory=dict)
    """GPU -> NUMA node."""

    def _pairs(self, section: str) -> dict[tuple[str, str], str]:
        table = self.tables.get(section, {})
        return {
            (one, other): table.get((one, other)) or table.get((other, one), "")
            for place, one in enumerate(self.gpus)
            for other in self.gpus[place + 1 :]
            if (one, other) in table or (other, one) in table
        }

    @property
    def numa(self) -> tuple[int, ...]:
        """The NUMA node of each GPU, where they are told."""
        return tuple(node for _, node in sorted(self.numa_of.items()))

    def link_pairs(self) -> dict[str, int]:
        """Link type -> pairs of GPUs."""
        return dict(Counter((self._pairs("link type") or self._pairs("link status")).values()))

    def _numbers(self, section: str) -> list[int]:
        return sorted({int(cell) for cell in self._pairs(section).values() if cell.isdecimal() and len(cell) < 10})

    def asymmetric_pairs(self) -> list[tuple[str, str]]:
        """Pairs whose two rows disagree on the type of their link."""
        table = self.tables.get("link type", {})
        return [(a, b) for (a, b), cell in table.items() if a < b and table.get((b, a), cell) != cell]

    @property
    def stands_alone(self) -> bool:
        """It describes a machine, or nothing."""
        return False

    def topology(self) -> Topology:
        """GPUs on the sockets of their NUMA nodes, joined by XGMI; FileError where no link can be told."""
        types, hops = self._pairs("link type"), self._pairs("hops")
        missing = len(self.gpus) * (len(self.gpus) - 1) // 2 - len(types)
        if missing:
            what = (
                "no link can be read in it"
                if not types
                else f"{missing} pairs of GPUs are not in its table of link types"
            )
            raise FileError(f"{self.file}: {what}: save the output of rocm-smi --showtopo")
        unknown = sorted({cell for cell in types.values() if cell not in ("XGMI", "PCIE")})
        if unknown:
            raise FileError(
                f"{self.file}: link type {unknown[0]!r}: XGMI and PCIE are known; save the output of rocm-smi --showtopo"
            )
        builder = TopologyBuilder(self.file)
        names = {gpu: f"gpu{place}" for place, gpu in enumerate(self.gpus)}
        node_of = [self.numa_of.get(place, 0) for place in range(len(self.gpus))]
        nodes = sorted(set(node_of))
        for place, gpu in enumerate(self.gpus):
            details = {"busid": gpu} if _BDF.fullmatch(gpu) else {}
            builder.add(Device(names[gpu], "gpu", "host0", details={**details, "numa": str(node_of[place])}))
        for number, node in enumerate(nodes):
            builder.add(Device(f"cpu{number}", "cpu", "host0", details={"numa": str(node)}))
            builder.add(Device(f"memory{number}", "memory", "host0"))
            builder.link(
                Link(
                    f"cpu{number}", f"memory{number}", "memory", _MEMORY_BPS, _MEMORY_BPS, _MEMORY_BPS, basis="assumed"
                )
            )
            for other in range(number):
                builder.link(Link(f"cpu{other}", f"cpu{number}", "socket", _SOCKET_BPS, _SOCKET_BPS, basis="assumed"))
        pcie = nccl_pcie_Bps(0, 16)
        for place, gpu in enumerate(self.gpus):
            builder.link(Link(names[gpu], f"cpu{nodes.index(node_of[place])}", "pcie", pcie, pcie, basis="assumed"))
        longer = 0
        for (near, far), cell in types.items():
            if cell == "XGMI" and hops.get((near, far), "1") in ("0", "1"):
                builder.link(Link(names[near], names[far], "xgmi", _XGMI_BPS, _XGMI_BPS, basis="assumed"))
            elif cell == "XGMI":
                longer += 1
        notes = [
            "the tables tell neither speeds nor PCIe switches: XGMI is taken for 48 GB/s one way (MI300; MI200: 36), PCIe for 12"
        ]
        notes += [f"{longer} pairs reach each other over XGMI through other GPUs"] if longer else []
        notes += [
            f"sockets are taken for {_SOCKET_BPS / 1e9:.0f}, memory for {_MEMORY_BPS / 1e9:.0f} GB/s",
            PXB_NOTE,
            NOTE,
        ]
        return builder.build(
            policies=policies(),
            costs=COSTS,
            gpus_forward=longer > 0,
            notes=notes,
            source=f"{self.file}: rocm-smi --showtopo",
        )

    def summary(self) -> list[str]:
        """Pairs by type."""
        pairs = ", ".join(f"{count} {cell}" for cell, count in self.link_pairs().items())
        return [f"rocm-smi or amd-smi: {len(self.gpus)} GPUs, pairs: {pairs or 'none'}"]

    def to_json(self) -> dict[str, Any]:
        """Counts, weights, hops, NUMA nodes."""
        return {
            "format": "rocm_topo",
            "gpus": len(self.gpus),
            "link_pairs": self.link_pairs(),
            "weights": self._numbers("weight"),
            "hops": self._numbers("hops"),
            "numa": list(self.numa),
            "asymmetric_pairs": [list(pair) for pair in self.asymmetric_pairs()],
        }


def _columns(words: list[str]) -> list[str]:
    """The columns of a header: GPUs alone; a first `bdf` names the column between row names and cells."""
    words = words[1:] if words and words[0].lower() == "bdf" else words
    same = all(_GPU.fullmatch(word) for word in words) or all(_BDF.fullmatch(word) for word in words)
    return words if words and same else []


def _of_json(text: LogText) -> RocmTables:
    """`amd-smi topology --json`: a list of GPUs with their links."""
    try:
        data = json.loads(text.whole())
        gpus = tuple(str(gpu["bdf"]) for gpu in data)
        tables: dict[str, dict[tuple[str, str], str]] = {}
        for gpu in data:
            for link in gpu["links"]:
                if link["bdf"] != gpu["bdf"]:
                    for section, key in (("link type", "link_type"), ("weight", "weight"), ("hops", "num_hops")):
                        tables.setdefault(section, {})[gpu["bdf"], link["bdf"]] = str(link.get(key, ""))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FileError(
            f"{text.name}: not what amd-smi topology --json prints, a list of GPUs with bdf and links ({error!r})"
        ) from error
    if not gpus or len(set(gpus)) < len(gpus):
        raise FileError(f"{text.name}: amd-smi topology --json {'with a GPU twice' if gpus else 'without a GPU'}")
    return RocmTables(text.name, gpus, tables)


def _read(text: LogText) -> RocmTables:
    if _is_json(text):
        return _of_json(text)
    section = ""
    columns: list[str] = []
    gpus: dict[str, None] = {}
    tables: dict[str, dict[tuple[str, str], str]] = {}
    numa: dict[int, int] = {}
    for _, line in text.lines():
        node = _NUMA.match(line)
        if node is not None:
            numa[int(node[1])] = int(node[2])
            continue
        title = _TITLE.fullmatch(line)
        if title is not None:
            section = next((name for name, pattern in _SECTIONS if pattern.search(title[1])), "")
            columns = []
            continue
        words = line.split()
        if _columns(words) and (section or not columns):
            columns = _columns(words)
            gpus.update(dict.fromkeys(columns))
        elif section and columns and words and words[0] in columns:
            row, cells = words[0], words[1:]
            if len(cells) == len(columns) + 1 and _BDF.fullmatch(cells[0]):
                cells = cells[1:]
            table = tables.setdefault(section, {})
            table.update({(row, column): cell for column, cell in zip(columns, cells, strict=False) if column != row})
    if not gpus:
        raise FileError(f"{text.name}: output of AMD's tools without a table of GPUs: save rocm-smi --showtopo")
    return RocmTables(text.name, tuple(gpus), tables, numa)


def _is_json(text: LogText) -> bool:
    return text.head.lstrip().startswith("[") and '"bdf"' in text.head and '"links"' in text.head


def _recognises(text: LogText) -> bool:
    return (
        _is_json(text)
        or re.search(r"between two GPUs|(?:ACCESS|WEIGHT|HOPS|LINK TYPE) TABLE:|XGMI LINK STATUS", text.head)
        is not None
    )


FORMAT = TopologyFormat("rocm_topo", "rocm-smi --showtopo, amd-smi topology", _recognises, _read, order=0)
