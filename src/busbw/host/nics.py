"""RDMA ports and network devices as sysfs shows them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from busbw.errors import UsageError
from busbw.host.files import Host
from busbw.units import parse_rate

RDMA = "/sys/class/infiniband"
NET = "/sys/class/net"
ERRORS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
HW_ERRORS = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "implied_nak_seq_err",
    "rx_icrc_encapsulated",
)


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """One port of an RDMA device."""

    device: str
    port: str
    state: str
    physical: str
    rate_Bps: float  # noqa: N815 - the unit's own capitals
    """0 where it is not known."""
    lanes: str
    """Such as 4X NDR."""
    layer: str
    board: str
    errors: tuple[tuple[str, int], ...]
    path: str

    @property
    def name(self) -> str:
        """Device and port."""
        return f"{self.device}:{self.port}"

    @property
    def is_up(self) -> bool:
        """Whether it can send."""
        return self.state.upper().endswith("ACTIVE")

    @property
    def network(self) -> str:
        """In the words of the fact `network`."""
        if re.match(r"efa|rdmap", self.device):
            return "efa"
        return "roce" if self.layer == "Ethernet" else "infiniband"


@lru_cache(maxsize=8)
def ports(host: Host) -> tuple[RdmaPort, ...]:
    """Every port of every RDMA device."""
    return tuple(
        _port(host, device, port) for device in host.names(RDMA) for port in host.names(f"{RDMA}/{device}/ports")
    )


def _port(host: Host, device: str, port: str) -> RdmaPort:
    path = f"{RDMA}/{device}/ports/{port}"
    rate = re.match(r"([\d.]+) Gb/sec(?: \((.*)\))?", host.text(f"{path}/rate"))
    counters = [(name, host.number(f"{path}/counters/{name}")) for name in ERRORS]
    counters += [(name, host.number(f"{path}/hw_counters/{name}")) for name in HW_ERRORS]
    return RdmaPort(
        device,
        port,
        host.text(f"{path}/state"),
        host.text(f"{path}/phys_state"),
        float(rate[1]) * 1e9 / 8 if rate else 0.0,
        (rate[2] or "") if rate else "",
        host.text(f"{path}/link_layer"),
        host.text(f"{RDMA}/{device}/board_id") or host.text(f"{RDMA}/{device}/hca_type"),
        tuple((name, value) for name, value in counters if value),
        path,
    )


@dataclass(frozen=True, slots=True)
class NetDevice:
    """A network device with hardware below it."""

    name: str
    is_up: bool
    rate_Bps: float  # noqa: N815
    """0 where the driver does not say, as in many virtual machines."""
    able_Bps: float  # noqa: N815
    """The fastest mode that it supports; 0 where that is not known."""
    duplex: str
    errors: tuple[tuple[str, int], ...]


def net_devices(host: Host) -> list[NetDevice]:
    """Network devices, without virtual ones and without those that an RDMA device drives."""
    found = []
    for name in host.names(NET):
        folder = f"{NET}/{name}"
        if not host.has(f"{folder}/device") or host.has(f"{folder}/device/infiniband"):
            continue
        speed = host.number(f"{folder}/speed") or 0
        up = host.text(f"{folder}/operstate") == "up"
        modes = host.run("ethtool", name).text if up and speed > 0 else ""
        errors = (
            (key, host.number(f"{folder}/statistics/{key}") or 0) for key in ("rx_errors", "rx_crc_errors", "tx_errors")
        )
        found.append(
            NetDevice(
                name,
                up,
                max(speed, 0) * 1e6 / 8,
                _fastest(modes),
                host.text(f"{folder}/duplex"),
                tuple((key, value) for key, value in errors if value),
            )
        )
    return found


def _fastest(text: str) -> float:
    """The fastest of ethtool's 'Supported link modes', in B/s; 0 where there are none."""
    part = re.search(r"Supported link modes:(.*?)\n\s*[A-Z][^\n]*:", text, re.DOTALL)
    speeds = re.findall(r"\b(\d+)base", part[1]) if part else []
    try:
        return max((parse_rate(f"{speed}Mb/s") for speed in speeds), default=0.0)
    except UsageError:
        return 0.0
