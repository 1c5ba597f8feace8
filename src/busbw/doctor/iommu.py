"""Does the IOMMU translate what GPUs and NICs read and write?"""

from __future__ import annotations

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.doctor._probe import Probe, Seen
from busbw.host.files import Host
from busbw.host.pci import DEVICES, endpoints, is_guest, listed

NAME = "iommu"
_WORDS = ("iommu", "intel_iommu", "amd_iommu", "iommu.passthrough", "iommu.strict", "pcie_acs_override", "pci")


def look(host: Host) -> Seen:
    """The type of each end's group: identity passes addresses on, DMA and DMA-FQ translate them."""
    ends = endpoints(host)
    if not ends:
        return Seen(nothing="no GPU and no RDMA NIC")
    words = [word for word in host.text("/proc/cmdline").split() if word.partition("=")[0] in _WORDS]
    said = f"the kernel was started with {' '.join(words)}" if words else "the kernel's command line does not name it"
    types = {name: host.text(f"{DEVICES}/{device.address}/iommu_group/type") for name, device in ends.items()}
    groups = {name: type_ for name, type_ in types.items() if type_}
    translated = [name for name, type_ in groups.items() if type_.startswith("DMA")]
    number = Number("IOMMU groups", len(host.names("/sys/kernel/iommu_groups")), "", "/sys/kernel/iommu_groups")
    if translated:
        found = Finding(
            NAME,
            f"The IOMMU translates the addresses of {listed(translated)} (group type {groups[translated[0]]}; {said}): peer "
            "traffic passes through it at the root complex",
            "fails",
            "problem",
            (number,),
            (Cause("iommu", "the IOMMU translates peer traffic"),),
            advice="On bare metal: iommu=pt on the kernel's command line (or the IOMMU off in the BIOS), then reboot. In a "
            "virtual machine, or where devices must be isolated, leave it",
            weight=0.3,
            headline="the IOMMU translates GPU traffic",
        )
        return Seen(
            (found,), Facts().having("iommu", True, f"{DEVICES}/{ends[translated[0]].address}/iommu_group/type")
        )
    if is_guest(host):
        found = Finding(
            NAME,
            "This is a virtual machine: the IOMMU that matters belongs to the machine below it and does not show here",
            "cannot_tell",
            "notice",
            (number,),
            next="ask the owner of the hardware whether GPUs and NICs translate addresses themselves (ATS)",
            needs=("iommu",),
        )
        return Seen((found,))
    if groups or not host.names("/sys/class/iommu"):
        why = "passes addresses on (group type identity)" if groups else "is off"
        found = Finding(NAME, f"The IOMMU {why}; {said}", "holds", "fact", (number,))
        return Seen((found,), Facts().having("iommu", False, "/sys/kernel/iommu_groups"))
    found = Finding(
        NAME,
        f"An IOMMU is on, and the kernel does not say whether it translates for the GPUs; {said}",
        "cannot_tell",
        "notice",
        (number,),
        next="sudo dmesg | grep -i -e iommu -e DMAR -e AMD-Vi: 'Default domain type: Passthrough' is good",
        needs=("iommu",),
    )
    return Seen((found,))


PROBE = Probe(
    NAME,
    "Does the IOMMU translate what GPUs and NICs read and write?",
    "iommu_group/type of each GPU and RDMA NIC, /sys/class/iommu, /proc/cmdline",
    look,
)
