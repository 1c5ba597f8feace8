"""Do the PCIe links of GPUs, NICs and the switches above them run at the speed and width that they are able to?"""

from __future__ import annotations

from collections.abc import Iterator

from busbw.core.finding import Cause, Finding, Number
from busbw.doctor import _nvidia
from busbw.doctor._probe import Probe, Seen
from busbw.host.files import Host
from busbw.host.nics import ports
from busbw.host.pci import DEVICES, Device, Link, endpoints, gpus, link, link_numbers, listed, rate_Bps, words

NAME = "pcie_link"
FIX = "Reseat the card, try another riser or cable, and look at the slot's speed, width and bifurcation in the BIOS"


def look(host: Host) -> Seen:
    """Each link once, by its lower end: the device itself, and each switch's upstream port above it."""
    ends = {**{f"GPU{number}": device for number, device in enumerate(gpus(host))}, **endpoints(host)}
    if not ends:
        return Seen(nothing="no GPU and no RDMA NIC")
    lower: dict[str, tuple[str, str]] = {}
    for name, device in ends.items():
        lower.setdefault(device.address, (name, device.above[0] if device.above else ""))
        # Going up, ports alternate: below a switch (or the CPU) a port faces down, at its top one faces up.
        for at, port in enumerate(device.above):
            if at % 2 == 1 and at + 1 < len(device.above):
                lower.setdefault(port, (f"the switch above {name}", device.above[at + 1]))
    findings: list[Finding] = []
    good: list[tuple[str, Link]] = []
    silent: list[str] = []
    for address, (name, port) in lower.items():
        found = link(host, address)
        if found is None:
            silent.append(name)
            continue
        bad = list(_judge(host, name, address, port, found, ends.get(name)))
        findings += bad
        if not bad:
            good.append((name, found))
    if good:
        same = {words(each.speed, each.width) for _, each in good}
        text = f"{len(good)} of {len(lower)} links run as fast and wide as they are able to: {listed(sorted(same))}"
        numbers = link_numbers(good[0][0], good[0][1], DEVICES)[:1]
        findings.append(Finding(NAME, text, "holds", "fact", numbers))
    if silent:
        findings.append(
            Finding(
                NAME,
                f"{listed(silent)} show{'s' if len(silent) == 1 else ''} no link speed and width (usual in a virtual machine)",
                "cannot_tell",
                "notice",
                (Number("links not shown", len(silent), "", f"{DEVICES}/*/current_link_speed"),),
                next="measure it: busbw bench --world 2 --op send_recv_one_way; or ask the owner of the hardware for lspci -vvv (LnkSta)",
            )
        )
    return Seen(tuple(findings))


def _judge(host: Host, name: str, address: str, port: str, found: Link, end: Device | None) -> Iterator[Finding]:
    numbers = link_numbers(name, found, f"{DEVICES}/{address}")
    if found.width >= found.max_width and found.speed >= found.max_speed:
        return
    now, able = words(found.speed, found.width), words(found.max_speed, found.max_width)
    lost = 1 - rate_Bps(found.speed, found.width) / rate_Bps(found.max_speed, found.max_width)
    text = f"The PCIe link of {name} ({address}) runs at {now}; it is able to {able}"
    above = link(host, port) if port else None
    enough = _enough(host, name, found)
    if enough:
        yield Finding(NAME, f"{text}. {enough}", "holds", "notice", numbers, weight=lost)
        return
    slot = above is not None and (found.speed, found.width) == (
        min(above.max_speed, found.max_speed),
        min(above.max_width, found.max_width),
    )
    if slot and above is not None:
        yield Finding(
            NAME,
            f"{text}, and the port above it ({port}) only to {words(above.max_speed, above.max_width)}",
            "fails",
            "notice",
            numbers,
            (Cause("slot", "the slot, switch or CPU offers no more"),),
            advice="Another slot, if the board has a better one. Otherwise this is the wire to judge results against",
            weight=lost,
        )
        return
    if found.width < found.max_width and not _narrow_slot(found, above):
        yield Finding(
            NAME,
            text,
            "fails",
            "problem",
            numbers,
            (Cause("link-width", "lanes are missing: contact, riser, cable, or bifurcation of the slot"),),
            advice=FIX,
            weight=lost,
            headline=f"{name} has x{found.width} instead of x{found.max_width}",
        )
        return
    gpu = next((gpu for gpu in _nvidia.gpus(host) if end is not None and gpu.address == address), None)
    if end is not None and end.is_gpu and not (gpu is not None and (gpu.works or gpu.pstate == 0)):
        state = (
            "nvidia-smi does not say whether it works"
            if gpu is None
            else f"it is idle (P{gpu.pstate})"
            if gpu.pstate is not None
            else "its state is not known"
        )
        yield Finding(
            NAME,
            f"{text}; {state}, and an idle GPU may slow its link to save power",
            "cannot_tell",
            "notice",
            numbers,
            (
                Cause("idle", "the link slows down while the GPU is idle"),
                Cause("link-speed", "the link was trained at a lower speed: riser, cable, contact or BIOS"),
            ),
            next="run busbw doctor again while a benchmark runs on the GPUs",
            weight=lost,
        )
        return
    yield Finding(
        NAME,
        text,
        "fails",
        "problem",
        numbers,
        (Cause("link-speed", "the link was trained at a lower speed: riser, cable, contact or BIOS"),),
        advice=FIX,
        weight=lost,
        headline=f"{name} runs at {now} instead of {able}",
    )


def _narrow_slot(found: Link, above: Link | None) -> bool:
    return above is not None and found.width >= above.max_width


def _enough(host: Host, name: str, found: Link) -> str:
    """Whether a NIC's slower link still carries its port."""
    rates = [port.rate_Bps for port in ports(host) if port.device == name and port.rate_Bps]
    if rates and rate_Bps(found.speed, found.width) > 1.15 * sum(rates):
        return f"That still carries its {sum(rates) * 8 / 1e9:.0f} Gb/s"
    return ""


PROBE = Probe(
    NAME,
    "Do the PCIe links of GPUs, NICs and switches run as fast and wide as they are able to?",
    "current_link_* and max_link_* in sysfs, else lspci -vvv (LnkSta, LnkCap); nvidia-smi for idle GPUs",
    look,
)
