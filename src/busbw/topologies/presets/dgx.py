"""dgx-*: eight GPUs on NVSwitches, a NIC beside each. HGX boards of other makers are the same inside.

Data sheets of NVIDIA: DGX A100 (12 NVLink3 of 25 GB/s one way, 6 NVSwitches, 8 x 200 Gb/s), DGX H100 and H200 (18 NVLink4 of 25 GB/s, 4
NVSwitches with SHARP, 8 x 400 Gb/s), DGX B200 (18 NVLink5 of 50 GB/s, 2 NVSwitches, 8 x 400 Gb/s).
"""

from __future__ import annotations

from dataclasses import dataclass

from busbw.core.topology import Device, Link, Topology, TopologyBuilder
from busbw.topologies.assumed import COSTS, NOTE, pcie_Bps, policies
from busbw.topologies.preset import Parameter, Preset
from busbw.topologies.presets._skeleton import add_host


@dataclass(frozen=True, slots=True)
class Board:
    """What differs between the generations."""

    name: str
    model: str
    links: int
    link_GBps: int  # noqa: N815 - the unit's own capitals
    """Of one NVLink, one way."""
    switches: int
    reduces: bool
    generation: int
    """Of PCIe."""
    gpus_per_switch: int
    nic: str
    memory: str
    """Of a socket: channels times rate."""
    source: str


BOARDS = (
    Board("dgx-a100", "A100", 12, 25, 6, False, 4, 2, "200Gb/s", "204.8GB/s", "NVIDIA DGX A100 data sheet"),
    Board("dgx-h100", "H100", 18, 25, 4, True, 5, 1, "400Gb/s", "307.2GB/s", "NVIDIA DGX H100 data sheet"),
    Board("dgx-h200", "H200", 18, 25, 4, True, 5, 1, "400Gb/s", "307.2GB/s", "NVIDIA DGX H200 data sheet"),
    Board("dgx-b200", "B200", 18, 50, 2, True, 5, 1, "400Gb/s", "358.4GB/s", "NVIDIA DGX B200 data sheet"),
)


def _build(
    board: Board, *, name: str, gpus: int, nvls: bool, nics: int, nic: float, socket: float, memory: float
) -> Topology:
    builder = TopologyBuilder(name)
    add_host(
        builder,
        gpus=gpus,
        gpus_per_switch=board.gpus_per_switch,
        sockets=2,
        pcie=pcie_Bps(board.generation),
        socket=socket,
        memory=memory,
        nics=nics,
        nic=nic,
        details={"model": board.model},
    )
    rate = board.links * board.link_GBps * 1e9
    builder.add(Device("nvswitch", "nvswitch", "host0", reduces=nvls))
    for gpu in range(gpus):
        builder.link(Link(f"gpu{gpu}", "nvswitch", "nvlink", rate, rate))
    notes = (
        NOTE,
        f"the {board.switches} NVSwitches are one device: each GPU spreads its {board.links} links of {board.link_GBps} GB/s evenly over them",
        "speeds of sockets and memory are assumed",
    )
    return builder.build(policies=policies(), costs=COSTS, notes=notes, source=f"preset: {board.source}")


def _preset(board: Board) -> Preset:
    def build(**values: object) -> Topology:
        return _build(board, **values)  # type: ignore[arg-type]

    return Preset(
        board.name,
        f"8 {board.model} on NVSwitches ({board.links * board.link_GBps} GB/s one way each), 8 NICs",
        board.source,
        (
            Parameter("gpus", "count", "8", "GPUs"),
            Parameter("nvls", "flag", "on" if board.reduces else "off", "the NVSwitches reduce and multicast (NVLS)"),
            Parameter("nics", "count", "8", "NICs, spread over the GPUs' switches", least=0),
            Parameter("nic", "rate", board.nic, "of one NIC"),
            Parameter("socket", "rate", "96GB/s", "between the two sockets, one way"),
            Parameter("memory", "rate", board.memory, "of a socket's memory, reads and writes together"),
        ),
        build,
    )


PRESETS = tuple(_preset(board) for board in BOARDS)
