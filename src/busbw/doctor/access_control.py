"""Does PCIe access control (ACS) send traffic between GPUs, or between GPUs and NICs, up to the root complex?"""

from __future__ import annotations

from itertools import combinations

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.doctor import _nvidia
from busbw.doctor._probe import Probe, Seen
from busbw.host.files import Host
from busbw.host.pci import Device, access_control, between, endpoints, is_guest, listed

NAME = "access_control"
REDIRECTS = frozenset({"ReqRedir", "CmpltRedir", "EgressCtrl"})
"""The bits that bend or block peer traffic. SrcValid alone only checks who is asking."""
AS_ROOT = "sudo busbw doctor (or: sudo lspci -vvv | grep -e '^[0-9a-f]' -e ACSCtl)"
CAUSE = Cause(
    "acs-enabled", "PCIe access control (ACS) sends peer traffic through the root complex instead of across the switch"
)


def look(host: Host) -> Seen:
    """The ports between every two ends that exchange data over PCIe."""
    ends = endpoints(host)
    pairs = [(one, other) for one, other in combinations(ends, 2) if _matters(host, one, other, ends)]
    if not pairs:
        few = (
            "GPU"
            if not any(name.startswith("GPU") for name in ends)
            else "second GPU, and no RDMA NIC near one, to reach over PCIe"
        )
        return Seen(nothing=f"no {few}")
    paths = {(one, other): between(ends[one], ends[other]) for one, other in pairs}
    ports = list(dict.fromkeys(port for path in paths.values() for port in path))
    if not ports:
        return Seen((_hidden(host, len(pairs)),))
    read = {port: access_control(host, port) for port in ports}
    bent = {pair: [port for port in path if (read[port][0] or frozenset()) & REDIRECTS] for pair, path in paths.items()}
    bent = {pair: path for pair, path in bent.items() if path}
    unread = [port for port in ports if read[port][0] is None]
    inside = {pair: path for pair, path in bent.items() if _shared(ends[pair[0]], ends[pair[1]])}
    if inside or (bent and not any(_shared(ends[one], ends[other]) for one, other in pairs)):
        source = next(read[port][1] for path in bent.values() for port in path)
        return Seen((_on(ends, bent, read, len(pairs), is_guest(host)),), Facts().having("acs", True, source))
    if unread:
        return Seen((_unread(host, unread, len(ports)),))
    checks = [port for port in ports if read[port][0]]
    text = f"No switch between the GPUs (and NICs) redirects peer traffic: {len(ports)} ports read"
    if checks:
        text += f"; {listed(checks)} set {listed(sorted(set().union(*(read[port][0] or () for port in checks))))}, which does not bend it"
    found = Finding(NAME, text, "holds", "fact", (Number("ports read", len(ports), "", read[ports[0]][1]),))
    return Seen((found,), Facts().having("acs", False, read[ports[0]][1]))


def _matters(host: Host, one: str, other: str, ends: dict[str, Device]) -> bool:
    """Whether data moves between the two over PCIe ports: not over NVLink, and not from a GPU to a NIC far away."""
    if not one.startswith("GPU"):
        return False
    if other.startswith("GPU"):
        return (one, other) not in _nvlinked(host)
    return not ends[one].above or _shared(ends[one], ends[other])  # a virtual machine hides what lies between


def _shared(one: Device, other: Device) -> bool:
    """Whether a switch joins them; otherwise all that passes between them goes through the CPU anyway."""
    return bool(set(one.above) & set(other.above))


def _nvlinked(host: Host) -> set[tuple[str, str]]:
    table = _nvidia.gpu_pairs(_nvidia.matrix(host.run("nvidia-smi-topo").text))
    return {pair for pair, entry in table.items() if entry.startswith("NV")}


def _on(
    ends: dict[str, Device],
    bent: dict[tuple[str, str], list[str]],
    read: dict[str, tuple[frozenset[str] | None, str]],
    pairs: int,
    guest: bool,
) -> Finding:
    ports = list(dict.fromkeys(port for path in bent.values() for port in path))
    bits = sorted(set().union(*(read[port][0] or frozenset() for port in ports)))
    inside = [pair for pair in bent if _shared(ends[pair[0]], ends[pair[1]])]
    shown = listed(f"{one}-{other}" for one, other in inside or bent)
    text = f"ACS is on ({', '.join(bits)}) at {listed(ports)}: traffic of {shown} "
    text += (
        "climbs to the root port and comes back down their shared uplink, which about halves what both ways carry together"
        if inside
        else "goes to the IOMMU at the root ports. It passes the CPU anyway; but where peer access is used there, it can be slow or lost (a hang)"
    )
    if "DirectTrans" in bits:
        text += " (DirectTrans+ spares devices that translate addresses themselves, ATS)"
    return Finding(
        NAME,
        text,
        "fails",
        "problem" if inside else "notice",
        (
            Number("pairs redirected", len(bent), "", read[ports[0]][1]),
            Number("pairs over PCIe", pairs, "", "/sys/bus/pci/devices"),
        ),
        (CAUSE,),
        advice=(
            "The owner of the hardware decides here: ACS isolates virtual machines. Ask for ATS on GPUs and NICs, or bare metal"
            if guest
            else "Switch ACS off in the BIOS (or the IOMMU, which makes Linux set it); until the next boot, as root, for each port: "
            f"setpci -s {ports[0]} ECAP_ACS+0x6.w=0000. Not where virtual machines or untrusted users share the host"
        ),
        weight=0.5,
        headline="ACS redirects peer traffic",
    )


def _unread(host: Host, unread: list[str], ports: int) -> Finding:
    tried = host.run("lspci").trouble or "lspci shows no capabilities without root"
    return Finding(
        NAME,
        f"Whether ACS redirects traffic between the GPUs is not readable: the registers of {len(unread)} of {ports} ports "
        f"({listed(unread)}) need root, and {tried}",
        "cannot_tell",
        "notice",
        (Number("ports that need root", len(unread), "", f"/sys/bus/pci/devices/{unread[0]}/config"),),
        (CAUSE,),
        next=AS_ROOT,
        needs=("acs",),
    )


def _hidden(host: Host, pairs: int) -> Finding:
    who = "this virtual machine" if is_guest(host) else "this host"
    return Finding(
        NAME,
        f"{who.capitalize()} shows no PCIe port above its GPUs, so ACS cannot be seen from here",
        "cannot_tell",
        "notice",
        (Number("pairs over PCIe", pairs, "", "/sys/bus/pci/devices"),),
        next="ask the owner of the hardware for lspci -vvv (ACSCtl), or measure one pair one-way and both ways: "
        "busbw bench --world 2 --op send_recv_one_way,send_recv",
        needs=("acs",),
    )


PROBE = Probe(
    NAME,
    "Does ACS redirect traffic between GPUs, or between GPUs and NICs, to the root complex?",
    "/sys/bus/pci/devices/*/config (ACS capability, control register), else lspci -vvv (ACSCtl)",
    look,
)
