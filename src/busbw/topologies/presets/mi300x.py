"""mi300x: eight GPUs, each with a link to every other one (no switch), a NIC beside each.

AMD Instinct MI300X data sheet and platform guide: 7 Infinity Fabric (xGMI) links of 64 GB/s one way at each GPU, PCIe Gen5 x16.
"""

from __future__ import annotations

from itertools import combinations

from busbw.core.topology import Link, Topology, TopologyBuilder
from busbw.topologies.assumed import COSTS, NOTE, pcie_Bps, policies
from busbw.topologies.preset import Parameter, Preset
from busbw.topologies.presets._skeleton import add_host

_SOURCE = "AMD Instinct MI300X data sheet and platform guide"


def _build(*, name: str, gpus: int, link: float, nics: int, nic: float, socket: float, memory: float) -> Topology:
    builder = TopologyBuilder(name)
    add_host(
        builder,
        gpus=gpus,
        gpus_per_switch=1,
        sockets=2,
        pcie=pcie_Bps(5),
        socket=socket,
        memory=memory,
        nics=nics,
        nic=nic,
        details={"model": "MI300X"},
    )
    for one, other in combinations(range(gpus), 2):
        builder.link(Link(f"gpu{one}", f"gpu{other}", "xgmi", link, link))
    notes = (
        NOTE,
        "a GPU reaches each other one over a link of its own: one flow has a seventh of what the GPU can send",
        "speeds of sockets and memory are assumed",
    )
    return builder.build(policies=policies(), costs=COSTS, notes=notes, source=f"preset: {_SOURCE}")


PRESETS = (
    Preset(
        "mi300x",
        "8 MI300X, each linked to every other one (64 GB/s one way a link), 8 NICs",
        _SOURCE,
        (
            Parameter("gpus", "count", "8", "GPUs"),
            Parameter("link", "rate", "64GB/s", "of one xGMI link, one way"),
            Parameter("nics", "count", "8", "NICs, spread over the GPUs' switches", least=0),
            Parameter("nic", "rate", "400Gb/s", "of one NIC"),
            Parameter("socket", "rate", "96GB/s", "between the two sockets, one way"),
            Parameter("memory", "rate", "307.2GB/s", "of a socket's memory, reads and writes together"),
        ),
        _build,
    ),
)
