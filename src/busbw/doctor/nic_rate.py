"""Are the NICs up, at their full rate, and free of errors?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.doctor._probe import Probe, Seen
from busbw.host.files import Host
from busbw.host.nics import NetDevice, RdmaPort, net_devices, ports
from busbw.host.pci import listed, rdma_devices

NAME = "nic_rate"


def look(host: Host) -> Seen:
    """RDMA ports against their like on this host; without any, the network devices against their own best mode."""
    rdma, net = ports(host), [device for device in net_devices(host) if device.is_up]
    if not rdma and not net:
        return Seen(nothing="no NIC that is up")
    if not rdma:
        return Seen(tuple(_ethernet(net)), _rate(net))
    findings = [*_down(host, rdma), *_slow(rdma), *_errors(rdma)]
    up = [port for port in rdma if port.is_up]
    bad = {number.name for finding in findings if finding.severity == "problem" for number in finding.numbers}
    good = [port for port in up if port.name not in bad]
    if good:
        rates = sorted({_bits(port.rate_Bps) for port in good if port.rate_Bps})
        text = f"{len(good)} of {len(rdma)} RDMA ports are up at the full rate of their kind: {listed(rates)}"
        numbers = tuple(Number(port.name, port.rate_Bps, "B/s", f"{port.path}/rate") for port in good[:1])
        findings.append(Finding(NAME, text, "holds", "fact", numbers))
    facts = Facts().having("nics", float(len(up)) or None, "/sys/class/infiniband: ports that are up")
    speeds, networks = {port.rate_Bps for port in up if port.rate_Bps}, {port.network for port in up}
    if len(speeds) == 1:
        facts = facts.having("nic_rate", speeds.pop(), f"{up[0].path}/rate")
    if len(networks) == 1:
        facts = facts.having("network", networks.pop(), f"{up[0].path}/link_layer")
    return Seen(tuple(findings), facts)


def _bits(rate: float) -> str:
    return f"{rate * 8 / 1e9:g} Gb/s"


def _down(host: Host, rdma: tuple[RdmaPort, ...]) -> Iterator[Finding]:
    address = rdma_devices(host)
    up_slots = {address[port.device].rpartition(".")[0] for port in rdma if port.is_up}
    any_up = any(port.is_up for port in rdma)
    for port in rdma:
        if port.is_up:
            continue
        second = bool(address[port.device]) and address[port.device].rpartition(".")[0] in up_slots
        state = f"{port.state.partition(': ')[2] or 'unknown'}, {port.physical.partition(': ')[2] or 'unknown'}"
        yield Finding(
            NAME,
            f"RDMA port {port.name} is not up ({state})" + ("; another port of its card is" if second else ""),
            "fails",
            "notice" if second else "problem",
            (Number(port.name, 0.0, "B/s", f"{port.path}/state"),),
            (Cause("nic-down", "a NIC does not take part: cable, switch port, subnet manager, or driver"),),
            advice="Nothing, if this port has no cable by design"
            if second
            else "Polling or Disabled: cable, transceiver and switch port. Initialize: no subnet manager answers. "
            + ("Until then the other NICs carry its share" if any_up else "Without it NCCL falls back to sockets"),
            weight=0.1 if second else 0.7,
            headline=f"{port.name} is down",
        )


def _slow(rdma: tuple[RdmaPort, ...]) -> Iterator[Finding]:
    kinds: dict[str, list[RdmaPort]] = defaultdict(list)
    for port in rdma:
        if port.is_up and port.rate_Bps:
            kinds[port.board].append(port)
    for like in kinds.values():
        best = max(like, key=lambda port: port.rate_Bps)
        for port in like:
            if port.rate_Bps < best.rate_Bps:
                yield Finding(
                    NAME,
                    f"RDMA port {port.name} runs at {_bits(port.rate_Bps)}{f' ({port.lanes})' if port.lanes else ''}; {best.name}, of the "
                    f"same kind, at {_bits(best.rate_Bps)}{f' ({best.lanes})' if best.lanes else ''}",
                    "fails",
                    "problem",
                    (
                        Number(port.name, port.rate_Bps, "B/s", f"{port.path}/rate"),
                        Number(f"like {best.device}", best.rate_Bps, "B/s", f"{best.path}/rate"),
                    ),
                    (Cause("slow-nic", "one NIC is slower, and rings over all NICs wait for it"),),
                    advice="Cable, transceiver, switch port (speed, width, FEC) and firmware of this port",
                    weight=1 - port.rate_Bps / best.rate_Bps,
                    headline=f"{port.name} is slower than its like",
                )


def _errors(rdma: tuple[RdmaPort, ...]) -> Iterator[Finding]:
    for port in rdma:
        if port.errors:
            text = ", ".join(f"{name} {value}" for name, value in port.errors)
            yield Finding(
                NAME,
                f"RDMA port {port.name} has counted errors since it was started: {text}",
                "cannot_tell",
                "notice",
                tuple(Number(f"{port.name} {name}", value, "", f"{port.path}/counters") for name, value in port.errors),
                (Cause("link-errors", "errors on the cable, or loss in the fabric, cost retransmissions"),),
                next="read them before and after a run (busbw doctor): what matters is whether they grow",
                weight=0.1,
            )


def _ethernet(net: list[NetDevice]) -> Iterator[Finding]:
    for device in net:
        source = f"/sys/class/net/{device.name}/speed"
        if device.rate_Bps and device.able_Bps > device.rate_Bps:
            yield Finding(
                NAME,
                f"{device.name} runs at {_bits(device.rate_Bps)}; it is able to {_bits(device.able_Bps)}",
                "fails",
                "problem",
                (
                    Number(device.name, device.rate_Bps, "B/s", source),
                    Number("it is able to", device.able_Bps, "B/s", f"ethtool {device.name}"),
                ),
                (Cause("slow-nic", "the link was negotiated at a lower rate"),),
                advice="Cable, transceiver and switch port; ethtool shows what the other side advertises",
                weight=1 - device.rate_Bps / device.able_Bps,
                headline=f"{device.name} runs below its rate",
            )
        elif device.duplex == "half":
            yield Finding(
                NAME,
                f"{device.name} runs in half duplex: it sends or receives, never both",
                "fails",
                "problem",
                (Number(device.name, device.rate_Bps, "B/s", source),),
                (Cause("half-duplex", "the two sides did not agree on full duplex"),),
                advice="Turn automatic negotiation on at both sides",
                weight=0.5,
            )
        if device.errors:
            text = ", ".join(f"{name} {value}" for name, value in device.errors)
            yield Finding(
                NAME,
                f"{device.name} has counted errors since it was started: {text}",
                "cannot_tell",
                "notice",
                tuple(
                    Number(name, value, "", f"/sys/class/net/{device.name}/statistics") for name, value in device.errors
                ),
                next="read them before and after a run: what matters is whether they grow",
            )
    named = [f"{device.name} at {_bits(device.rate_Bps)}" for device in net if device.rate_Bps]
    silent = [device.name for device in net if not device.rate_Bps]
    if named:
        yield Finding(
            NAME,
            f"No RDMA NIC; between hosts, sockets would use {listed(named)}",
            "holds",
            "fact",
            tuple(
                Number(device.name, device.rate_Bps, "B/s", f"/sys/class/net/{device.name}/speed") for device in net[:2]
            ),
        )
    if silent:
        yield Finding(
            NAME,
            f"{listed(silent)} does not say how fast it is (usual in a virtual machine)",
            "cannot_tell",
            "notice",
            (Number("devices without a speed", len(silent), "", f"/sys/class/net/{silent[0]}/speed"),),
            next="measure it: iperf3 between two hosts, or busbw bench with a rank on each",
            needs=("nic_rate",),
        )


def _rate(net: list[NetDevice]) -> Facts:
    facts = Facts().having("network", "sockets", "no RDMA device in /sys/class/infiniband")
    if len(net) == 1 and net[0].rate_Bps:
        facts = facts.having("nic_rate", net[0].rate_Bps, f"/sys/class/net/{net[0].name}/speed")
    return facts


PROBE = Probe(
    NAME,
    "Are the NICs up, at their full rate, and free of errors?",
    "/sys/class/infiniband/*/ports/* (state, rate, counters), /sys/class/net/* (speed, duplex, statistics), ethtool DEVICE",
    look,
)
