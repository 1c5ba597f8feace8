"""What is here: GPUs, NICs, sockets; and whether the driver sees the GPUs that PCI shows."""

from __future__ import annotations

from busbw.core.finding import Cause, Facts, Finding, Number
from busbw.doctor import _nvidia
from busbw.doctor._probe import Probe, Seen
from busbw.host.files import Host
from busbw.host.nics import net_devices, ports
from busbw.host.pci import DEVICES, NVIDIA, devices, distance, gpus, listed

NAME = "inventory"


def look(host: Host) -> Seen:
    """Counts, and the facts that follow from where things hang."""
    on_pci, driven = gpus(host), _nvidia.gpus(host)
    count = max(len(on_pci), len(driven))
    net = [device.name for device in net_devices(host)]
    rdma = sorted({port.device for port in ports(host)})
    names = listed(dict.fromkeys(gpu.name for gpu in driven))
    if count:
        gpu_text = f"{count} GPU{'s' if count > 1 else ''}{f' ({names})' if names else ''}"
    elif not devices(host):
        gpu_text = "no PCI device at all, so no GPU"
    else:
        gpu_text = f"no GPU (none among {len(devices(host))} PCI devices, and {host.run('nvidia-smi-gpus').trouble or 'nvidia-smi lists none'})"
    rdma_text = f"RDMA: {listed(rdma)}" if rdma else "no RDMA NIC"
    text = f"Here: {gpu_text}; {rdma_text}; {f'network: {listed(net)}' if net else 'no network device with hardware below it'}"
    numbers = (Number("GPUs", count, "", DEVICES), Number("RDMA devices", len(rdma), "", "/sys/class/infiniband"))
    findings = [Finding(NAME, text, "holds", "fact", numbers, weight=1.0)]
    seen = [gpu for gpu in on_pci if gpu.vendor == NVIDIA]
    if len(seen) > len(driven):
        trouble = host.run("nvidia-smi-gpus").trouble
        lost = [gpu.address for gpu in seen if gpu.address not in {each.address for each in driven}]
        absent = "is not installed" in trouble or "is not saved" in trouble
        findings.append(
            Finding(
                NAME,
                f"PCI shows {len(seen)} NVIDIA GPUs and the driver {len(driven)} (not: {listed(lost)})"
                + (f": {trouble}" if trouble else ""),
                "cannot_tell" if absent else "fails",
                "notice" if absent else "problem",
                (
                    Number("GPUs on PCI", len(seen), "", DEVICES),
                    Number("GPUs of the driver", len(driven), "", "nvidia-smi"),
                ),
                () if absent else (Cause("gpu-lost", "the driver lost a GPU, or does not run"),),
                next="nvidia-smi, on the host itself" if absent else "sudo dmesg | grep -i -e NVRM -e Xid",
                advice="" if absent else "Reset or replace the GPU that is gone; after an update of the driver, reboot",
                headline="" if absent else "the driver does not see every GPU",
            )
        )
    return Seen(tuple(findings), _facts(host, count))


def _facts(host: Host, count: int) -> Facts:
    facts = Facts()
    on_pci = gpus(host)
    names = {gpu.name for gpu in _nvidia.gpus(host)}
    if count:
        facts = facts.having("gpus_per_host", float(count), DEVICES if on_pci else "nvidia-smi")
    if len(names) == 1:
        facts = facts.having("gpu", names.pop(), "nvidia-smi")
    packages = {host.text(f"/sys/devices/system/cpu/{cpu}/topology/physical_package_id") for cpu in _cpus(host)} - {""}
    if packages:
        facts = facts.having("sockets", float(len(packages)), "/sys/devices/system/cpu/*/topology/physical_package_id")
    if len(on_pci) < 2:
        return facts
    near = {
        (one, other): distance(on_pci[one], on_pci[other])
        for one in range(len(on_pci))
        for other in range(one + 1, len(on_pci))
    }
    if any(gpu.above for gpu in on_pci):  # a virtual machine hides the bridges, and so which GPUs are neighbours
        switched = all(len(gpu.above) > 1 for gpu in on_pci)
        facts = facts.having("pcie_switch", switched, DEVICES)
        paired = len(on_pci) % 2 == 0 and all(
            (near[pair] == "PIX") == (pair[0] % 2 == 0 and pair[1] == pair[0] + 1) for pair in near
        )
        facts = facts.having("pairs", paired, DEVICES)
    table = _nvidia.gpu_pairs(_nvidia.matrix(host.run("nvidia-smi-topo").text))
    if table and all(entry.startswith("NV") for entry in table.values()):
        return facts.having("link", "nvlink", "nvidia-smi topo -m")
    if table and not any(entry.startswith("NV") for entry in table.values()):
        return facts.having("link", "pcie", "nvidia-smi topo -m")
    return facts


def _cpus(host: Host) -> list[str]:
    return [name for name in host.names("/sys/devices/system/cpu") if name[:3] == "cpu" and name[3:].isdecimal()]


PROBE = Probe(
    NAME,
    "What is here, and does the driver see every GPU that PCI shows?",
    "/sys/bus/pci/devices, /sys/class/infiniband, /sys/class/net, nvidia-smi",
    look,
)
