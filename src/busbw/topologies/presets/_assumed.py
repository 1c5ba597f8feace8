"""What the presets assume where no data sheet speaks, in one place; all of it is marked as assumed.

Latencies are NCCL's own (2.30, tuning of the ring with LL): 6.6 us a call; 0.6 us a message over NVLink, 1.0 over PCIe,
2.7 over the network beside its links' own.
"""

from __future__ import annotations

from busbw.core.topology import Costs, PathPolicy

COSTS = Costs(launch_s=6.6e-6, basis="assumed")
LATENCIES_S = {"nvlink": 0.6e-6, "pcie": 1.0e-6, "host_bridge": 1.0e-6, "socket": 1.0e-6, "network": 2.7e-6}
NOTE = "latencies and the launch are NCCL's own assumptions (6.6 us a call; 0.6 / 1.0 / 2.7 us a message over NVLink / PCIe / network)"

_GIGATRANSFERS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
_ENCODING = {1: 0.8, 2: 0.8, 3: 128 / 130, 4: 128 / 130, 5: 128 / 130, 6: 242 / 256}
"""PCI Express Base Specification: 8b/10b, 128b/130b, and of Gen6 the bytes of a flit that are not its own."""


def pcie_Bps(generation: int, lanes: int = 16) -> float:  # noqa: N802 - the unit's own capitals
    """Bytes a second one way of a PCIe link on paper: 63.0 GB/s of Gen5 x16."""
    return _GIGATRANSFERS[generation] * 1e9 * _ENCODING[generation] * lanes / 8


def policies(*, near: str = "direct", far: str = "memory") -> dict[str, PathPolicy]:
    """Path policies with the assumed latencies: `near` is the way inside a switch, `far` through the CPU and beyond.

    NCCL uses peer access up to PXB and stages in host memory beyond, so `far` is memory unless a user says otherwise.
    """
    vias = {"nvlink": "direct", "pcie": near, "host_bridge": far, "socket": far, "network": "direct"}
    return {name: PathPolicy(via=vias[name], latency_s=LATENCIES_S[name]) for name in vias}
