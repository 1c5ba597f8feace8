"""PCI devices as sysfs shows them: who hangs under which bridge, links, and the access-control register."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from busbw.core.finding import Number
from busbw.host.files import Host

DEVICES = "/sys/bus/pci/devices"
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
NVIDIA, AMD, INTEL = 0x10DE, 0x1002, 0x8086
_GPU_CLASSES = {NVIDIA: (0x0300, 0x0302, 0x0380), AMD: (0x0300, 0x0380, 0x1200), INTEL: (0x0380,)}
"""By vendor: the display controller of a board's management chip is no GPU, and neither is Intel's VGA in a CPU."""


@dataclass(frozen=True, slots=True)
class Device:
    """A PCI device and the bridges above it, the nearest first."""

    address: str
    above: tuple[str, ...]
    host_bridge: str
    class_code: int
    """Class and subclass, such as 0x0302."""
    vendor: int
    numa: int | None
    """The NUMA node; None where the firmware does not say (-1)."""

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU that computes."""
        return self.class_code in _GPU_CLASSES.get(self.vendor, ())


@lru_cache(maxsize=8)
def devices(host: Host) -> dict[str, Device]:
    """Every PCI device by address."""
    return {name: _device(host, name) for name in host.names(DEVICES) if ADDRESS.fullmatch(name)}


def _device(host: Host, address: str) -> Device:
    parts = host.target(f"{DEVICES}/{address}").split("/")
    above = [part for part in parts[:-1] if ADDRESS.fullmatch(part)]
    numa = host.number(f"{DEVICES}/{address}/numa_node")
    return Device(
        address,
        tuple(reversed(above)),
        next((part for part in parts if re.fullmatch(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", part)), ""),
        (host.number(f"{DEVICES}/{address}/class") or 0) >> 8,
        host.number(f"{DEVICES}/{address}/vendor") or 0,
        None if numa is None or numa < 0 else numa,
    )


@lru_cache(maxsize=8)
def rdma_devices(host: Host) -> dict[str, str]:
    """Names of RDMA devices, such as mlx5_0, and the PCI address of each ("" where it has none)."""
    found = {}
    for name in host.names("/sys/class/infiniband"):
        last = host.target(f"/sys/class/infiniband/{name}/device").rsplit("/", 1)[-1]
        found[name] = last if ADDRESS.fullmatch(last) else ""
    return found


def gpus(host: Host) -> list[Device]:
    """The GPUs on PCI, in the order of their addresses, which is nvidia-smi's order."""
    return [device for device in devices(host).values() if device.is_gpu]


def nics(host: Host) -> dict[str, Device]:
    """The RDMA devices that are PCI devices."""
    known = devices(host)
    return {name: known[address] for name, address in rdma_devices(host).items() if address in known}


def endpoints(host: Host) -> dict[str, Device]:
    """GPUs and RDMA NICs by the name that a reader knows them by."""
    numbered = {f"GPU{number}": device for number, device in enumerate(gpus(host))}
    return {**numbered, **nics(host)}


def is_guest(host: Host) -> bool:
    """Whether this is a virtual machine, whose owner of the hardware sees more."""
    return bool(re.search(r"^flags\s*:.*\bhypervisor\b", host.text("/proc/cpuinfo"), re.MULTILINE))


# --- paths -------------------------------------------------------------------------------------------------------------

PATHS = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""From near to far, in the words of nvidia-smi topo -m."""


def distance(one: Device, other: Device) -> str:
    """How far two devices are apart, as nvidia-smi topo -m says it."""
    if set(one.above) & set(other.above):
        # The port above each, then the switch's upstream port: shared, it is one switch.
        return "PIX" if one.above[:1] == other.above[:1] or one.above[1:2] == other.above[1:2] else "PXB"
    if one.host_bridge == other.host_bridge:
        return "PHB"
    return "NODE" if one.numa == other.numa else "SYS"


def between(one: Device, other: Device) -> list[str]:
    """The ports that traffic between two devices passes below the bridge (or CPU) that they share."""
    shared = set(one.above) & set(other.above)
    return [port for port in (*one.above, *other.above) if port not in shared]


# --- links -------------------------------------------------------------------------------------------------------------

GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


@dataclass(frozen=True, slots=True)
class Link:
    """Speed (GT/s a lane) and width (lanes) of a link, now and at most."""

    speed: float
    width: int
    max_speed: float
    max_width: int


def rate_Bps(speed: float, width: int) -> float:  # noqa: N802 - the unit's own capitals
    """Bytes a second one way on paper: 8b/10b coding below 8 GT/s, 128b/130b (or flits) from there on."""
    return speed * 1e9 * width / 8 * (0.8 if speed < 8 else 128 / 130)


def words(speed: float, width: int) -> str:
    """Such as Gen5 x16."""
    name = f"Gen{GENERATIONS[speed]}" if speed in GENERATIONS else f"{speed:g} GT/s"
    return f"{name} x{width}"


def link(host: Host, address: str) -> Link | None:
    """The link of a device: for an end or a switch's upstream port, the one above it. From sysfs, else from lspci."""
    folder = f"{DEVICES}/{address}"
    read = [host.text(f"{folder}/{when}_link_{what}") for when in ("current", "max") for what in ("speed", "width")]
    numbers = [re.match(r"\d+(?:\.\d+)?", text) for text in read]
    if not all(numbers):
        block = lspci_blocks(host).get(address, "")
        status = re.search(r"LnkSta:\s*Speed ([\d.]+)GT/s[^,]*, Width x(\d+)", block)
        able = re.search(r"LnkCap:.*?Speed ([\d.]+)GT/s[^,]*, Width x(\d+)", block)
        if status is None or able is None:
            return None
        values = [float(word) for word in (*status.groups(), *able.groups())]
    else:
        values = [float(match[0]) for match in numbers if match is not None]
    found = Link(values[0], int(values[1]), values[2], int(values[3]))
    usable = 0 < found.width < 64 and 0 < found.max_width < 64 and found.speed > 0 and found.max_speed > 0
    return found if usable else None  # a device without a link of its own says x0, x255 or Unknown


@lru_cache(maxsize=8)
def lspci_blocks(host: Host) -> dict[str, str]:
    """What `lspci -vvv` says of each address."""
    blocks: dict[str, str] = {}
    for block in re.split(r"\n(?=\S)", host.run("lspci").text):
        match = re.match(r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ", block)
        if match is not None:
            blocks[match[1] if match[1].count(":") == 2 else f"0000:{match[1]}"] = block
    return blocks


def link_numbers(name: str, found: Link, source: str) -> tuple[Number, ...]:
    """What a link can carry now, and at most, on paper."""
    return (
        Number(f"{name} carries on paper", rate_Bps(found.speed, found.width), "B/s", f"{source}/current_link_*"),
        Number(f"{name} could carry", rate_Bps(found.max_speed, found.max_width), "B/s", f"{source}/max_link_*"),
    )


# --- access control ----------------------------------------------------------------------------------------------------

ACS_BITS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")
"""The control register from bit 0 on, in lspci's words (PCI Express Base Specification, Access Control Services)."""
_ACS = 0x000D
_EXTENDED = 0x100


def control_of_config(config: bytes) -> frozenset[str] | None:
    """The ACS control bits in a configuration space; empty without the capability, None where it ends before it."""
    if len(config) <= _EXTENDED:
        return None
    offset = _EXTENDED
    for _ in range((4096 - _EXTENDED) // 8):  # a chain that runs in a circle ends here
        if offset < _EXTENDED or offset + 8 > len(config):
            break
        (header,) = struct.unpack_from("<I", config, offset)
        if header in (0, 0xFFFFFFFF):
            break
        if header & 0xFFFF == _ACS:
            (control,) = struct.unpack_from("<H", config, offset + 6)
            return frozenset(name for bit, name in enumerate(ACS_BITS) if control >> bit & 1)
        offset = header >> 20 & 0xFFC
    return frozenset()


def access_control(host: Host, address: str) -> tuple[frozenset[str] | None, str]:
    """The ACS control bits of a bridge and where they were read; None where they could not be."""
    path = f"{DEVICES}/{address}/config"
    bits = control_of_config(host.data(path) or b"")
    if bits is not None:
        return bits, path
    block = lspci_blocks(host).get(address, "")
    line = re.search(r"ACSCtl:(.*)", block)
    if line is not None:
        return frozenset(re.findall(r"(\w+)\+", line[1])), "lspci -vvv"
    if "Capabilities: [" in block and "<access denied>" not in block:
        return frozenset(), "lspci -vvv"
    return None, ""


def listed(names: Iterable[str], most: int = 4) -> str:
    """Names in a sentence, the first few and a count of the others."""
    every = list(dict.fromkeys(names))
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more} more" if more > 0 else "")
