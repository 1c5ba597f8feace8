"""Hosts whose GPUs talk over PCIe: the post's machine (pairs under switches, two sockets), and workstations."""

from __future__ import annotations

from busbw.core.topology import Topology, TopologyBuilder
from busbw.topologies.assumed import COSTS, NOTE, pcie_Bps, policies
from busbw.topologies.preset import Parameter, Preset
from busbw.topologies.presets._skeleton import add_host

_WAYS = {"direct": "direct", "redirect": "cpu", "staged": "memory"}
_SOURCE = "PCI Express Base Specification (x16 a way: Gen4 31.5, Gen5 63.0 GB/s)"


def build(
    *,
    name: str,
    gpus: int,
    gpus_per_switch: int,
    sockets: int,
    generation: str,
    lanes: int,
    socket: float,
    memory: float,
    pairs: str,
    across: str,
    nics: int,
    nic: float,
    model: str = "",
) -> Topology:
    """One host: GPUs under switches (or at root ports), switches spread evenly over the sockets."""
    builder = TopologyBuilder(name)
    add_host(
        builder,
        gpus=gpus,
        gpus_per_switch=gpus_per_switch,
        sockets=sockets,
        pcie=pcie_Bps(int(generation[3:]), lanes),
        socket=socket,
        memory=memory,
        nics=nics,
        nic=nic,
        details={"model": model} if model else {},
    )
    notes = [NOTE, "speeds of sockets and memory are assumed"]
    notes.append(
        {
            "direct": "GPUs of a switch reach each other inside it",
            "redirect": "traffic between GPUs of a switch climbs to the root port and comes back (ACS or IOMMU redirect)",
            "staged": "traffic between GPUs of a switch is staged in host memory (no peer access)",
        }[pairs]
        if gpus_per_switch > 1
        else "every GPU has a root port of its own"
    )
    if gpus > max(gpus_per_switch, 1):
        notes.append(
            "beyond a switch traffic is staged in host memory, NCCL's default (peer access up to PXB)"
            if across == "staged"
            else "beyond a switch GPUs reach each other directly (peer access up to SYS)"
        )
    return builder.build(
        policies=policies(near=_WAYS[pairs], far=_WAYS[across]), costs=COSTS, notes=notes, source=f"preset: {_SOURCE}"
    )


def _parameters(**defaults: str) -> tuple[Parameter, ...]:
    parameters = (
        Parameter("gpus", "count", "8", "GPUs"),
        Parameter("gpus_per_switch", "count", "2", "GPUs under one PCIe switch; 0: each at a root port", least=0),
        Parameter("sockets", "count", "2", "CPU sockets"),
        Parameter("generation", "choice", "gen5", "of PCIe", tuple(f"gen{generation}" for generation in range(1, 7))),
        Parameter("lanes", "count", "16", "of every PCIe link"),
        Parameter("socket", "rate", "96GB/s", "between two sockets, one way (three UPI links of 16 GT/s)"),
        Parameter("memory", "rate", "307.2GB/s", "of a socket's memory, reads and writes together (8 x DDR5-4800)"),
        Parameter("pairs", "choice", "direct", "way between GPUs of a switch", tuple(_WAYS)),
        Parameter("across", "choice", "staged", "way between GPUs of different switches", ("direct", "staged")),
        Parameter("nics", "count", "0", "NICs, spread over the switches", least=0),
        Parameter("nic", "rate", "400Gb/s", "of one NIC"),
    )
    return tuple(
        Parameter(p.name, p.kind, defaults.get(p.name, p.text), p.help, p.choices, p.least) for p in parameters
    )


def _post(**values: object) -> Topology:
    return build(model="RTX PRO 6000", **values)  # type: ignore[arg-type]


PRESETS = (
    Preset(
        "pcie-8gpu",
        "the post's machine: 8 RTX PRO 6000 in pairs under PCIe Gen5 switches, two sockets over UPI",
        _SOURCE,
        _parameters(pairs="redirect"),
        _post,
    ),
    Preset(
        "workstation",
        "2 or 4 GPUs at the root ports of one CPU, PCIe Gen5",
        _SOURCE,
        _parameters(gpus="2", gpus_per_switch="0", sockets="1"),
        build,
    ),
)
