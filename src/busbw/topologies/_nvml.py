"""The GPUs of NVIDIA's driver and their NVLinks, through nvidia-ml-py (`import pynvml`)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_LINKS = 18
_GPU, _SWITCH = 0, 2
"""NVML_NVLINK_DEVICE_TYPE_GPU and _SWITCH."""


@dataclass(frozen=True, slots=True)
class NvGpu:
    """One GPU as the driver sees it."""

    busid: str
    """As in sysfs: 0000:03:00.0."""
    name: str
    sm: int
    """Compute capability, such as 90."""
    switch_links: int = 0
    """NVLinks to NVSwitches."""
    peers: Mapping[str, int] = field(default_factory=dict)
    """Bus id of another GPU -> NVLinks to it."""


def nvml_gpus() -> tuple[tuple[NvGpu, ...], str]:
    """The GPUs of this machine in nvidia-smi's order; and, where there are none, why."""
    try:
        library = importlib.import_module("pynvml")
    except ImportError:
        return (), "nvidia-ml-py is not installed: pip install 'busbw[gpu]'"
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        return (), f"NVIDIA's driver does not answer: {error}"
    try:
        return tuple(_gpu(library, index) for index in range(library.nvmlDeviceGetCount())), ""
    except library.NVMLError as error:
        return (), f"NVIDIA's driver stopped answering: {error}"
    finally:
        library.nvmlShutdown()


def _gpu(library: Any, index: int) -> NvGpu:
    handle = library.nvmlDeviceGetHandleByIndex(index)
    major, minor = library.nvmlDeviceGetCudaComputeCapability(handle)
    switch_links = 0
    peers: dict[str, int] = {}
    for link in range(MOST_LINKS):
        try:
            if not library.nvmlDeviceGetNvLinkState(handle, link):
                continue
            remote = address(library.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)
            kind = _link_kind(library, handle, link)
        except library.NVMLError:  # a GPU without NVLink, or with fewer links
            continue
        if kind == _SWITCH:
            switch_links += 1
        elif kind in (_GPU, None):
            peers[remote] = peers.get(remote, 0) + 1
    return NvGpu(
        address(library.nvmlDeviceGetPciInfo(handle).busId),
        _text(library.nvmlDeviceGetName(handle)),
        10 * major + minor,
        switch_links,
        peers,
    )


def _link_kind(library: Any, handle: Any, link: int) -> int | None:
    """What is at the other end; None where the driver is too old to say."""
    ask = getattr(library, "nvmlDeviceGetNvLinkRemoteDeviceType", None)
    return None if ask is None else int(ask(handle, link))


def address(busid: str | bytes) -> str:
    """A bus id of NVML (00000000:03:00.0) as sysfs writes it."""
    domain, _, rest = _text(busid).lower().partition(":")
    return f"{domain[-4:] if domain.startswith('0000') else domain}:{rest}"


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
