"""This machine, on hosts made of text and on a driver that is a fake."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest

from busbw.core.topology import PATH_CLASSES, Topology
from busbw.host import Host
from busbw.host.pci import rate_Bps
from busbw.topologies import read_topology
from busbw.topologies._nvml import NvGpu, nvml_gpus
from busbw.topologies.this_machine import this_machine

Machine = Callable[..., Host]


def ways(machine: Topology, source: int, target: int) -> list[str]:
    return [machine.resource_name(int(resource)) for resource in machine.routes([source], [target]).of(0)]


def test_a_switch_with_two_gpus_and_nics_on_both_sockets(machine: Machine) -> None:
    here = this_machine(machine()).topology()
    assert here.world_size == 2
    assert ways(here, 0, 1) == ["gpu0 -> switch0", "switch0 -> gpu1"]
    nics = {device.details["device"]: device for device in here.devices() if device.kind == "nic"}
    assert set(nics) == {"mlx5_0", "mlx5_1"}
    hangs = {link.a: (link.b, link.basis) for link in here.links() if link.a.startswith("nic")}
    assert hangs[nics["mlx5_0"].name] == ("switch0", "nominal")
    assert hangs[nics["mlx5_1"].name] == ("cpu1", "nominal")
    port = next(link for link in here.links() if link.a == "gpu0")
    assert port.forward_Bps == rate_Bps(32.0, 16)


def test_an_idle_link_counts_with_its_full_speed(machine: Machine) -> None:
    here = this_machine(machine("idle_gen1")).topology()
    assert min(link.forward_Bps for link in here.links() if link.a.startswith("gpu")) == rate_Bps(32.0, 16)
    assert any("idle" in note for note in here.notes)


def test_a_virtual_machine_hides_bridges_and_speeds(machine: Machine) -> None:
    here = this_machine(machine("guest")).topology()
    gpus = [device for device in here.devices() if device.kind == "gpu"]
    assert len(gpus) >= 2
    assert {link.forward_Bps for link in here.links() if link.a.startswith("gpu")} == {12e9}
    assert {link.basis for link in here.links() if link.a.startswith("gpu")} == {"assumed"}


def test_nvlinks_of_the_driver(machine: Machine) -> None:
    host = machine()
    addresses = [device.details["busid"] for device in this_machine(host).topology().devices() if device.kind == "gpu"]
    pair = [NvGpu(a, "NVIDIA A6000", 86, peers={b: 4}) for a, b in (addresses, addresses[::-1])]
    here = this_machine(host, pair).topology()
    assert ways(here, 0, 1) == ["gpu0 -> gpu1"]
    assert next(link for link in here.links() if link.kind == "nvlink").forward_Bps == 4 * 12e9
    switched = this_machine(host, [NvGpu(a, "NVIDIA H100", 90, switch_links=18) for a in addresses]).topology()
    assert ways(switched, 0, 1) == ["gpu0 -> nvswitch", "nvswitch -> gpu1"]
    assert switched.device(0).details == {"busid": addresses[0], "model": "NVIDIA H100", "sm": "90"}
    assert next(device for device in switched.devices() if device.kind == "nvswitch").reduces


def test_without_a_gpu_processes_share_memory(machine: Machine) -> None:
    here = this_machine(machine("nothing")).topology()
    assert here.world_size >= 1
    assert {device.kind for device in here.devices()} <= {"process", "cpu", "memory", "nic"}
    assert here.notes[0].startswith("no GPU here")
    assert {link.basis for link in here.links() if link.kind in ("memory", "socket")} == {"assumed"}


def test_this_machine_routes_between_its_ranks() -> None:
    here = read_topology("this")
    assert here.name == "this"
    if here.world_size > 1:
        routes = here.routes([0], [1])
        assert len(routes.of(0)) > 0
        assert PATH_CLASSES[routes.path_class[0]] != "network"


class FakeError(Exception):
    pass


def fake_nvml(links: dict[int, dict[int, tuple[str, int]]]) -> ModuleType:
    """A driver: GPU -> NVLink -> (bus id at the other end, kind of device there)."""

    def remote(gpu: int, link: int) -> tuple[str, int]:
        if link not in links[gpu]:
            raise FakeError("not supported")
        return links[gpu][link]

    module = ModuleType("pynvml")
    module.__dict__.update(
        NVMLError=FakeError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(links),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetCudaComputeCapability=lambda gpu: (9, 0),
        nvmlDeviceGetName=lambda gpu: b"NVIDIA H100",
        nvmlDeviceGetPciInfo=lambda gpu: SimpleNamespace(busId=f"00000000:0{gpu}:00.0"),
        nvmlDeviceGetNvLinkState=lambda gpu, link: bool(remote(gpu, link)),
        nvmlDeviceGetNvLinkRemotePciInfo=lambda gpu, link: SimpleNamespace(busId=remote(gpu, link)[0].encode()),
        nvmlDeviceGetNvLinkRemoteDeviceType=lambda gpu, link: remote(gpu, link)[1],
    )
    return module


def test_the_driver_is_asked_link_by_link(monkeypatch: pytest.MonkeyPatch) -> None:
    switch, other = ("00000000:20:00.0", 2), ("00000000:01:00.0", 0)
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml({0: {0: switch, 1: switch, 3: other}, 1: {}}))
    gpus, reason = nvml_gpus()
    assert reason == ""
    assert gpus[0] == NvGpu("0000:00:00.0", "NVIDIA H100", 90, 2, {"0000:01:00.0": 1})
    assert gpus[1] == NvGpu("0000:01:00.0", "NVIDIA H100", 90)


def test_no_driver_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    module = fake_nvml({})

    def fails() -> None:
        raise FakeError("driver not loaded")

    module.__dict__["nvmlInit"] = fails
    monkeypatch.setitem(sys.modules, "pynvml", module)
    assert nvml_gpus() == ((), "NVIDIA's driver does not answer: driver not loaded")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "pip install 'busbw[gpu]'" in nvml_gpus()[1]
