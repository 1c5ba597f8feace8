"""What most hosts share: GPUs and NICs under PCIe switches, switches under sockets, memory at sockets."""

from __future__ import annotations

from collections.abc import Mapping

from busbw.core.topology import Device, Link, TopologyBuilder


def add_host(
    builder: TopologyBuilder,
    *,
    gpus: int,
    gpus_per_switch: int,
    sockets: int,
    pcie: float,
    socket: float,
    memory: float,
    nics: int,
    nic: float,
    details: Mapping[str, str],
) -> None:
    """Add `host0`: GPUs in order, groups of them spread evenly over the sockets, NICs evenly over the groups.

    With `gpus_per_switch` 0 every GPU is at a root port of its own. `pcie`, `socket` and `nic` are bytes a second one
    way, `memory` is what reads and writes share.
    """
    groups = -(-gpus // gpus_per_switch) if gpus_per_switch else gpus
    cpus = min(sockets, groups)
    for gpu in range(gpus):
        builder.add(Device(f"gpu{gpu}", "gpu", "host0", details=details))
    for cpu in range(cpus):
        builder.add(Device(f"cpu{cpu}", "cpu", "host0", details={"numa": str(cpu)}))
        builder.add(Device(f"memory{cpu}", "memory", "host0"))
        builder.link(Link(f"cpu{cpu}", f"memory{cpu}", "memory", memory, memory, memory, basis="assumed"))
    for cpu in range(cpus):
        for other in range(cpu):
            builder.link(Link(f"cpu{other}", f"cpu{cpu}", "socket", socket, socket, basis="assumed"))
    places = []
    for group in range(groups):
        place = f"cpu{group * cpus // groups}"
        if gpus_per_switch:
            switch = builder.add(Device(f"switch{group}", "pcie_switch", "host0"))
            builder.link(Link(switch, place, "pcie", pcie, pcie))
            place = switch
        places.append(place)
    for gpu in range(gpus):
        builder.link(Link(f"gpu{gpu}", places[gpu // (gpus_per_switch or 1)], "pcie", pcie, pcie))
    for number in range(nics):
        builder.add(Device(f"nic{number}", "nic", "host0", details={"rate_Bps": repr(nic)}))
        builder.link(Link(f"nic{number}", places[number * groups // nics], "pcie", pcie, pcie))
