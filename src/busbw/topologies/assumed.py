"""What presets and readers assume where nothing speaks, in one place; all of it is marked as assumed.

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


# --- what NCCL 2.30 takes links for, GB/s one way ---

_NVLINK_BY_SM = ((100, 40.1), (90, 20.6), (86, 12.0), (70, 20.0), (60, 18.0))
_PCIE_STEPS = {1: 15, 2: 30, 3: 60, 4: 120, 5: 240, 6: 480}
XGMI_BPS = 48e9
"""RCCL's rate of one xGMI link of MI200 and MI300, one way."""
C2C_BPS = 450e9
LOCAL_BPS = 5000e9
PXB_NOTE = "peer access up to PXB, as NCCL does by default; pairs further apart are staged in host memory"


def nccl_nvlink_Bps(sm: int) -> float:  # noqa: N802 - the unit's own capitals
    """One NVLink, one way, for a compute capability such as 90."""
    if sm == 86:  # consumer and workstation boards of that generation have slower links
        return 12e9
    return next((rate * 1e9 for least, rate in _NVLINK_BY_SM if sm >= least and least != 86), 18e9)


def nccl_pcie_Bps(gigatransfers: float, width: int) -> float:  # noqa: N802
    """A PCIe link one way: 12 / 24 / 48 / 96 GB/s of x16 Gen3-6. An unknown speed is Gen3, an unknown width 16."""
    speeds = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
    generation = speeds.get(gigatransfers, 3)
    return (width or 16) * _PCIE_STEPS[generation] / 80 * 1e9


def nccl_socket_Bps(arch: str, vendor: str, family: int, model: int) -> tuple[float, str]:  # noqa: N802
    """Between two sockets one way, and what it was taken for."""
    if arch.startswith("arm") or arch.startswith("aarch"):
        return 6e9, "ARM"
    if arch.startswith("ppc"):
        return 32e9, "POWER9"
    if "AMD" in vendor:
        return 16e9, "AMD"
    if "Zhaoxin" in vendor or "Shanghai" in vendor:
        return (6e9 if family == 7 and model == 0x5B else 9e9), "Zhaoxin"
    if "Intel" in vendor:
        if family == 6 and model >= 0xCF:
            return 40e9, "Intel after Sapphire Rapids"
        if family == 6 and model >= 0x8F:
            return 22e9, "Intel Sapphire Rapids"
        if family == 6 and model >= 0x55:
            return 10e9, "Intel Skylake"
        return 6e9, "Intel Broadwell"
    return 10e9, "an unknown CPU"
