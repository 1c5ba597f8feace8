"""What nvidia-smi says, as rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from busbw.core.log_text import LogText
from busbw.host import pci as _pci
from busbw.host.files import Host
from busbw.topologies.readers.smi_topo import matrices


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as the driver sees it."""

    index: int
    name: str
    address: str
    """As in sysfs: 0000:03:00.0."""
    pstate: int | None
    """0 is full speed; larger is idler."""
    utilization: float | None

    @property
    def works(self) -> bool | None:
        """Whether it ran something when it was asked; None where that is not known.

        P0 alone does not tell: some GPUs stay there when idle.
        """
        if self.utilization is None:
            return None
        return self.utilization > 0


@lru_cache(maxsize=8)
def gpus(host: Host) -> tuple[Gpu, ...]:
    """The GPUs of the driver; nothing where nvidia-smi does not answer."""
    found = []
    for line in host.run("nvidia-smi-gpus").text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 5 and cells[0].isdecimal():
            pstate = re.fullmatch(r"P(\d+)", cells[3])
            found.append(
                Gpu(int(cells[0]), cells[1], _address(cells[2]), int(pstate[1]) if pstate else None, number(cells[4]))
            )
    return tuple(found)


def count(host: Host) -> int:
    """NVIDIA GPUs here, by the driver or by PCI, whichever sees more."""
    return max(len(gpus(host)), sum(1 for device in _pci.gpus(host) if device.vendor == _pci.NVIDIA))


def _address(text: str) -> str:
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:] if domain.startswith('0000') else domain}:{rest}"


def number(text: str) -> float | None:
    """A number of nvidia-smi's; None for [N/A], [Not Supported] and the like."""
    try:
        return float(text)
    except ValueError:
        return None


def matrix(text: str) -> dict[tuple[str, str], str]:
    """A table of nvidia-smi topo, of links or of peer access: the entry of each (row, column), such as PIX or NS."""
    links, peers = matrices(LogText(text.encode(), "nvidia-smi topo"))
    return {
        (row, column): cell
        for one in (links or peers)[:1]
        for row, cells in one.rows.items()
        for column, cell in cells.items()
    }


def gpu_pairs(table: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """The entries between different GPUs, each pair once."""
    return {
        (one, other): entry
        for (one, other), entry in table.items()
        if one.startswith("GPU") and other.startswith("GPU") and int(one[3:]) < int(other[3:])
    }
