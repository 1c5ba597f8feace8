"""What is recorded of the machine: an allow-list, because the whole environment holds secrets."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from busbw._version import __version__

_PREFIXES = (
    "NCCL_",
    "RCCL_",
    "GLOO_",
    "UCX_",
    "UCC_",
    "OMP_",
    "MPIR_CVAR_",
    "I_MPI_",
    "OMPI_MCA_",
    "FI_",
    "TORCH_NCCL_",
)
_NAMES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_DEVICE_MAX_CONNECTIONS")
_SECRET = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "PRIVATE")


def environment(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Versions, CPU, memory, GPUs, NICs, and the variables that decide how collectives run."""
    return {
        "busbw": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "host": platform.node(),
        "cpu": _cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": _memory_bytes(),
        "gpus": _gpus(),
        "nics": _nics(),
        "variables": variables(environ),
    }


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The allowed variables; one whose name speaks of a secret is left out even so."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if (name.startswith(_PREFIXES) or name in _NAMES) and not any(word in name.upper() for word in _SECRET)
    }


def _cpu() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model", "cpu model"):
                return value.strip()
    return platform.processor()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gpus() -> list[dict[str, str]]:
    """From nvidia-smi, where there is one; never more than its name, driver, memory and bus."""
    keys = ("name", "driver_version", "memory.total", "pci.bus_id")
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={','.join(keys)}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = (line.split(", ") for line in done.stdout.splitlines())
    return [dict(zip(keys, row, strict=True)) for row in rows if len(row) == len(keys)]


def _nics() -> list[dict[str, Any]]:
    """Names, speeds and states of network and RDMA ports; no addresses."""
    found: list[dict[str, Any]] = []
    for device in sorted(Path("/sys/class/net").glob("*")):
        speed = _read(device / "speed")
        found.append(
            {
                "name": device.name,
                "state": _read(device / "operstate"),
                "speed_Mbps": int(speed) if speed.lstrip("-").isdigit() and int(speed) > 0 else None,
            }
        )
    for port in sorted(Path("/sys/class/infiniband").glob("*/ports/*")):
        found.append(
            {"name": f"{port.parts[-3]}:{port.name}", "state": _read(port / "state"), "rate": _read(port / "rate")}
        )
    return found


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text().strip()
    return ""
