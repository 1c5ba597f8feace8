"""Known machines and links: what their wires carry and what their collectives reach, each with its source.

Nominal, assumed and measured rates are three things and are kept apart: `wire` is the data sheet's rate one way for one
GPU, `ring` the busbw that a ring collective has been seen to reach, `nvls` the busbw of all-reduce where the switch
reduces. All in GB/s (1e9).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from busbw.core.finding import Facts, Number
from busbw.errors import UsageError
from busbw.units import GB

WIRE_SHARE = 0.8
"""Of the data sheet's rate one way, what a ring reaches: the rule of thumb where nothing was measured."""
NIC_SHARE = (0.92, 0.98)
"""Of a NIC's line rate, what NCCL reaches: 12 of 12.5 GB/s, 24 of 25, 46-48 of 50."""
RULES = "NVIDIA/nccl-tests#119, #212, #290 (maintainers' answers)"


@dataclass(frozen=True, slots=True)
class Machine:
    """One kind of host."""

    name: str
    gpu: str
    """Pattern of the names of its GPUs and of its other names."""
    gpus: int
    link: str
    wire: float
    source: str
    ring: float | None = None
    nvls: Mapping[int, float] = field(default_factory=dict)
    """N -> busbw of all-reduce on one host, reduced in the switch."""
    by_world: Mapping[int, float] = field(default_factory=dict)
    """N -> busbw of all-reduce, where it depends on N."""
    nics: int = 0
    nic_Gbps: float = 0.0  # noqa: N815 - the unit's own capitals


_H100 = {5: 420.0, 6: 440.0, 7: 460.0, 8: 480.0}

MACHINES: tuple[Machine, ...] = (
    Machine("dgx-h100", r"(DGX|HGX)[- ]?H100|\bH100.*(SXM|HBM3)|\bH100|ndv5|\bp5\b", 8, "nvlink", 450, f"{RULES}; 18 NVLink4 of 25 GB/s", 367, _H100, nics=8, nic_Gbps=400),
    Machine("dgx-h200", r"(DGX|HGX)[- ]?H200|\bH200", 8, "nvlink", 450, "published nccl-tests of 8 H200: ring 367, all-gather 361, NVLS 480", 365, _H100, nics=8, nic_Gbps=400),
    Machine("dgx-b200", r"(DGX|HGX)[- ]?B200|\bB200", 8, "nvlink", 900, "published nccl-tests of 8 B200: NVLS 845.7", None, {8: 846.0}, nics=8, nic_Gbps=400),
    Machine("gb200-nvl72", r"GB200|NVL72", 4, "nvlink", 900, "18 NVLink5 of 50 GB/s", None),
    Machine("dgx-a100", r"(DGX|HGX)[- ]?A100|A100.*SXM|A800|ndv4", 8, "nvlink", 300, "12 NVLink3 of 25 GB/s; NVIDIA/nccl#812: 192 GB/s over 8 x 200 Gb/s", None, nics=8, nic_Gbps=200),
    Machine("p4d", r"\bp4de?\b", 8, "nvlink", 300, "AWS p4d: 4 x 100 Gb/s EFA; 12 NVLink3", None, nics=4, nic_Gbps=100),
    Machine("a3-high", r"a3-?high", 8, "nvlink", 450, "8 H100, 4 x 200 Gb/s", 367, _H100, nics=4, nic_Gbps=200),
    Machine("a3-mega", r"a3-?mega", 8, "nvlink", 450, "8 H100, 8 x 200 Gb/s", 367, _H100, nics=8, nic_Gbps=200),
    Machine("dgx-1-v100", r"DGX-?1|ndv2|V100.*SXM2", 8, "nvlink", 150, "6 NVLink2 of 25 GB/s", None, nics=4, nic_Gbps=100),
    Machine("dgx-2", r"DGX-?2\b|V100.*SXM3", 16, "nvlink", 150, "6 NVLink2 of 25 GB/s through NVSwitch", None, nics=8, nic_Gbps=100),
    Machine("mi300x", r"\bMI300X", 8, "xgmi", 448, "published rccl-tests: 47.7 at 2, 312.9 at 8; 7 links of 64 GB/s", None, by_world={2: 47.7, 8: 312.9}, nics=8, nic_Gbps=400),
    Machine("rtx-pro-6000-pcie", r"RTX PRO 6000", 8, "pcie", 50, "PCIe 5.0 x16: 63 GB/s on paper, 50 one way in the post's own scatter; public machine of this class: a pair moves 50 both ways together with ACS on, 103 with ACS off"),
    Machine("pcie-gen5", r"pcie-?gen5|RTX 50\d\d", 8, "pcie", 48, "x16 Gen5 as NCCL 2.30 assumes it"),
    Machine("pcie-gen4", r"pcie-?gen4|RTX 40\d\d|A6000|L40|A100.*PCIE|A10\b|A30\b", 8, "pcie", 24, "x16 Gen4 as NCCL 2.30 assumes it"),
    Machine("pcie-gen3", r"pcie-?gen3|V100.*PCIE|\bT4\b|RTX 20\d\d|P100", 8, "pcie", 12, "x16 Gen3 as NCCL 2.30 assumes it"),
)  # fmt: skip
"""In the order in which a GPU's name is looked for."""


def find_machine(name: str) -> Machine:
    """The machine of this name; UsageError lists the choices."""
    for machine in MACHINES:
        if machine.name == name.strip().lower().replace("_", "-").replace("hgx", "dgx"):
            return machine
    names = [machine.name for machine in MACHINES]
    close = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise UsageError(f"unknown machine {name!r}: choose from {', '.join(names)}{hint}, or give --peak")


def machine_of(facts: Facts) -> Machine | None:
    """The machine that was named, else the one that the GPU's name fits; None when neither is known."""
    if facts.text("machine"):
        return find_machine(facts.text("machine"))
    gpu = facts.text("gpu")
    if not gpu:
        return None
    return next((machine for machine in MACHINES if re.search(machine.gpu, gpu, re.IGNORECASE)), None)


def wire_rate(facts: Facts, world_size: int) -> Number | None:
    """What one rank can send over the wire that bounds it, in B/s: --peak, the NICs between hosts, else the GPU's links."""
    peak = facts.number("peak")
    if peak is not None:
        return Number("the peak given", peak, "B/s", facts.source("peak"))
    hosts = facts.number("hosts")
    if hosts is not None and hosts > 1:
        return nics_rate(facts)
    machine = machine_of(facts)
    if machine is None or hosts is None:
        return None
    return Number(f"{machine.name}'s link one way", machine.wire * GB, "B/s", machine.source)


def nics_rate(facts: Facts) -> Number | None:
    """The line rate of a host's NICs together, in B/s; None when it is not known."""
    # A GPU's name tells nothing about NICs: clouds put the same GPUs beside 4 x 100 and 8 x 400 Gb/s.
    machine = find_machine(facts.text("machine")) if facts.text("machine") else None
    rate, nics = facts.number("nic_rate"), facts.number("nics")
    source = ", ".join(dict.fromkeys(filter(None, (facts.source("nic_rate"), facts.source("nics")))))
    if rate is None and machine is not None and machine.nics:
        rate, source = machine.nic_Gbps * GB / 8, f"table of machines: {machine.source}"
    if nics is None and machine is not None and machine.nics and facts.number("nic_rate") is None:
        nics = float(machine.nics)
    if rate is None or nics is None:
        return None
    return Number(f"{nics:.0f} x {rate * 8 / GB:.0f} Gb/s NICs a host", nics * rate, "B/s", source)
