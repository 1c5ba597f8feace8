"""gb200-nvl72: a rack of 18 trays, each two Grace CPUs and four Blackwell GPUs, all 72 GPUs on one set of NVSwitches.

NVIDIA GB200 NVL72 data sheet: 18 NVLink5 of 50 GB/s one way at each GPU, 130 TB/s in all; NVLink-C2C 900 GB/s both ways together between
a Grace and its two GPUs; LPDDR5X 512 GB/s a Grace; a 400 Gb/s ConnectX-7 for each GPU.
"""

from __future__ import annotations

from busbw.core.topology import Device, Link, Topology, TopologyBuilder
from busbw.topologies.assumed import COSTS, NOTE, pcie_Bps, policies
from busbw.topologies.preset import Parameter, Preset

_NVLINK_BPS = 18 * 50e9
_C2C_BPS = 450e9 / 2
"""One way of one GPU: the two of a Grace share its 450 GB/s each way."""
_MEMORY_BPS = 512e9


def _build(*, name: str, trays: int, nvls: bool, nic: float) -> Topology:
    builder = TopologyBuilder(name)
    pcie = pcie_Bps(5)
    builder.add(Device("nvswitch", "nvswitch", "", reduces=nvls))
    for tray in range(trays):
        host = f"tray{tray}"
        for grace in range(2):
            cpu = builder.add(Device(f"{host}/cpu{grace}", "cpu", host, details={"model": "Grace", "numa": str(grace)}))
            memory = builder.add(Device(f"{host}/memory{grace}", "memory", host))
            builder.link(Link(cpu, memory, "memory", _MEMORY_BPS, _MEMORY_BPS, _MEMORY_BPS))
            for place in (2 * grace, 2 * grace + 1):
                gpu = builder.add(Device(f"{host}/gpu{place}", "gpu", host, details={"model": "GB200"}))
                builder.link(Link(gpu, "nvswitch", "nvlink", _NVLINK_BPS, _NVLINK_BPS))
                builder.link(Link(gpu, cpu, "c2c", _C2C_BPS, _C2C_BPS, basis="assumed"))
                card = builder.add(Device(f"{host}/nic{place}", "nic", host, details={"rate_Bps": repr(nic)}))
                builder.link(Link(card, cpu, "pcie", pcie, pcie))
    notes = (
        NOTE,
        "the 18 NVSwitches are one device: each GPU spreads its 18 links of 50 GB/s evenly over them",
        "the two GPUs of a Grace are assumed to have half of its NVLink-C2C each",
        "NICs hang at the Grace CPUs: traffic to the network passes through them",
    )
    return builder.build(policies=policies(), costs=COSTS, notes=notes, source="preset: NVIDIA GB200 NVL72 data sheet")


PRESETS = (
    Preset(
        "gb200-nvl72",
        "a rack of 18 trays of 4 Blackwell GPUs, all on NVSwitches (900 GB/s one way each)",
        "NVIDIA GB200 NVL72 data sheet",
        (
            Parameter("trays", "count", "18", "trays of 4 GPUs"),
            Parameter("nvls", "flag", "on", "the NVSwitches reduce and multicast (NVLS)"),
            Parameter("nic", "rate", "400Gb/s", "of one NIC; a tray has 4"),
        ),
        _build,
    ),
)
