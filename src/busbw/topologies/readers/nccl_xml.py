"""nccl_xml: NCCL's (and RCCL's) topology XML: NCCL_TOPO_DUMP_FILE, and the files that clouds give to their guests.

system > cpu > pci (nested: bridges) > gpu > nvlink, xgmi, c2c; or nic > net; `pcilink` joins switches. Files for guests
name no GPU: there the PCI class tells. What is read is kept as it stands; `topology` applies NCCL's rules for speeds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from busbw.core.log_text import LogText
from busbw.core.topology import Topology
from busbw.errors import FileError
from busbw.topologies.readers._xml import parse_xml, root_of
from busbw.topologies.reading import TopologyFormat

LINKS = ("nvlink", "xgmi")
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
_NIC_CLASS, _BRIDGE_CLASS = "0x02", "0x0604"


@dataclass(frozen=True, slots=True)
class Element:
    """One element with its attributes and what is in it."""

    tag: str
    attributes: Mapping[str, str]
    children: tuple[Element, ...] = ()

    def get(self, name: str, default: str = "") -> str:
        """An attribute."""
        return self.attributes.get(name, default)

    def walk(self) -> Iterator[Element]:
        """This element and all in it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def of(self, *tags: str) -> list[Element]:
        """The children with these tags."""
        return [child for child in self.children if child.tag in tags]

    @property
    def is_gpu(self) -> bool:
        """A PCI function that is a GPU: by its <gpu>, else by its class."""
        return self.tag == "pci" and (bool(self.of("gpu")) or self._has_class(*_GPU_CLASSES)) and not self.of("pci")

    @property
    def is_nic(self) -> bool:
        """A PCI function that is a network card."""
        return self.tag == "pci" and not self.of("gpu") and (bool(self.of("nic", "net")) or self._has_class(_NIC_CLASS))

    def _has_class(self, *starts: str) -> bool:
        return self.get("class").lower().startswith(starts)


@dataclass(frozen=True, slots=True)
class NcclSystem:
    """One file."""

    file: str
    root: Element

    @property
    def gpu_functions(self) -> list[Element]:
        """PCI functions that are GPUs."""
        return [element for element in self.root.walk() if element.is_gpu]

    def elements(self, tag: str) -> list[Element]:
        """All elements of a kind."""
        return [element for element in self.root.walk() if element.tag == tag]

    def link_counts(self) -> list[int]:
        """NVLinks (or xGMI links) of each <gpu>."""
        return [sum(number(link.get("count"), 1) for link in gpu.of(*LINKS)) for gpu in self.elements("gpu")]

    def asymmetric_pairs(self) -> list[tuple[str, str]]:
        """Bus ids of GPUs that disagree on how many links join them."""
        told = {(one, other): count for one, other, count in self.links_between()}
        return [(a, b) for (a, b), count in told.items() if a < b and told.get((b, a)) != count] + [
            (b, a) for (a, b) in told if a > b and (b, a) not in told
        ]

    def links_between(self) -> list[tuple[str, str, int]]:
        """(bus id, bus id, links) as each GPU tells them of other GPUs of the file."""
        gpus = {pci.get("busid").lower() for pci in self.gpu_functions}
        told: Counter[tuple[str, str]] = Counter()
        for pci in self.gpu_functions:
            for gpu in pci.of("gpu"):
                for link in gpu.of(*LINKS):
                    target = link.get("target").lower()
                    if target in gpus and target != pci.get("busid").lower():
                        told[pci.get("busid").lower(), target] += number(link.get("count"), 1)
        return [(one, other, count) for (one, other), count in told.items()]

    def _depth(self, element: Element) -> int:
        inner = max((self._depth(child) for child in element.children), default=0)
        return inner + (element.tag == "pci")

    def hosts(self) -> list[str]:
        """Host hashes, where the file has them."""
        return list(dict.fromkeys(cpu.get("host_hash") for cpu in self.elements("cpu") if cpu.get("host_hash")))

    @property
    def stands_alone(self) -> bool:
        """It describes a machine, or nothing."""
        return False

    def topology(self) -> Topology:
        """The machine, with the speeds that NCCL takes its links for; FileError for one without a GPU."""
        from busbw.topologies.readers._nccl_machine import build

        return build(self)

    def summary(self) -> list[str]:
        """Counts."""
        links = Counter(self.link_counts())
        lines = [
            f"NCCL topology: {len(self.elements('cpu'))} CPUs (NUMA nodes), {len(self.gpu_functions)} GPUs, "
            f"{len(self.elements('net'))} network ports"
        ]
        if links and set(links) != {0}:
            lines.append(
                "links to other GPUs or NVSwitches: " + ", ".join(f"{n} of {c} GPUs" for n, c in links.items())
            )
        return lines

    def to_json(self) -> dict[str, Any]:
        """What the file holds, counted."""
        walked = list(self.root.walk())
        pci = [element for element in walked if element.tag == "pci"]
        functions = [element for element in pci if element.is_gpu or element.is_nic]
        groups = []
        for bridge in pci:
            gpus = sum(child.is_gpu for child in bridge.children)
            nics = sum(child.is_nic for child in bridge.children)
            if gpus or nics:
                groups.append([bridge.get("busid"), gpus, nics])
        links = [element.tag for element in walked if element.tag in LINKS]
        return {
            "format": "nccl_xml",
            "root": self.root.tag,
            "version": self.root.get("version"),
            "elements": dict(Counter(element.tag for element in walked)),
            "cpus": [
                {
                    "numaid": cpu.get("numaid"),
                    "arch": cpu.get("arch"),
                    "gpus": sum(element.tag == "gpu" for element in cpu.walk()),
                    "nets": sum(element.tag == "net" for element in cpu.walk()),
                    "nics": sum(element.tag == "nic" for element in cpu.walk()),
                }
                for cpu in self.elements("cpu")
            ],
            "gpu_functions": sum(element.is_gpu for element in functions),
            "nic_functions": sum(element.is_nic for element in functions),
            "gpu_elements": len(self.elements("gpu")),
            "net_elements": len(self.elements("net")),
            "nic_names": [net.get("name") for net in self.elements("net")],
            "max_pci_depth": self._depth(self.root),
            "link_count_per_gpu": {str(count): gpus for count, gpus in Counter(self.link_counts()).items()},
            "link_element": links[0] if links else None,
            "pci_link_speeds": dict(Counter(f"{p.get('link_speed')} x{p.get('link_width')}" for p in pci)),
            "switch_groups_gpu_nic": groups,
            "net_speeds": sorted({net.get("speed") for net in self.elements("net")}),
            "asymmetric_pairs": [list(pair) for pair in self.asymmetric_pairs()],
            "hosts": self.hosts() or None,
        }


def number(text: str, default: int) -> int:
    """A whole number as NCCL writes it, decimal or 0x; the default for anything else, and for what is impossibly large."""
    match = re.fullmatch(r"\s*([+-]?)(?:0[xX]([0-9a-fA-F]{1,16})|0*([0-9]{1,15}))\s*", text)
    if match is None:
        return default
    value = int(match[2], 16) if match[2] else int(match[3])
    return -value if match[1] == "-" else value


def _element(element: ElementTree.Element) -> Element:
    return Element(element.tag, dict(element.attrib), tuple(_element(child) for child in element))


def _read(text: LogText) -> NcclSystem:
    root = parse_xml(text)
    try:
        return NcclSystem(text.name, _element(root))
    except RecursionError as error:
        raise FileError(f"{text.name}: elements are nested too deep for a topology") from error


FORMAT = TopologyFormat(
    "nccl_xml", "NCCL_TOPO_DUMP_FILE", lambda text: root_of(text) not in ("", "graphs", "graph"), _read, order=0
)
