"""Presets: numbers of the data sheets worked by hand, parameters, and vectorised routers against the general one."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest

from busbw.core.topology import PATH_CLASSES, PathPolicy, Topology
from busbw.errors import BusbwError
from busbw.topologies import all_presets, read_topology


def words(machine: Topology, source: int, target: int) -> list[str]:
    return [machine.resource_name(int(resource)) for resource in machine.routes([source], [target]).of(0)]


def path_class(machine: Topology, source: int, target: int) -> str:
    return PATH_CLASSES[machine.routes([source], [target]).path_class[0]]


@pytest.mark.parametrize("name", all_presets())
def test_every_preset_has_sound_links_and_routes(name: str) -> None:
    machine = read_topology(name)
    assert machine.name == name
    assert all(parameter.help for parameter in all_presets()[name].parameters)
    count = min(machine.world_size, 12)
    source, target = (axis.reshape(-1) for axis in np.meshgrid(np.arange(count), np.arange(count)))
    routes = machine.routes(source, target)
    assert len(routes.offsets) == count * count + 1
    assert routes.resources.size == 0 or routes.resources.max() < 3 * machine.link_count
    assert np.isfinite(machine.capacities()[routes.resources]).all()
    assert {len(routes.of(i)) == 0 for i in np.flatnonzero(source == target)} == {True}
    assert {link.basis for link in machine.links()} <= {"nominal", "assumed"}


def test_the_switch_of_the_closed_form() -> None:
    machine = read_topology("switch(gpus=512, bandwidth=50GiB/s, latency=0.5us)")
    flow = machine.routes([3], [511])
    assert machine.capacities()[flow.of(0)].tolist() == [50 * 2**30, 50 * 2**30]
    assert flow.latency_s[0] == 0.5e-6
    step_s = 64 * 2**20 / 512 / (50 * 2**30) + flow.latency_s[0]
    assert 2 * 511 * step_s == pytest.approx(3006.1e-6, rel=1e-5)


def test_the_posts_machine() -> None:
    machine = read_topology("pcie-8gpu")
    assert words(machine, 0, 1) == ["gpu0 -> switch0", "switch0 -> cpu0", "cpu0 -> switch0", "switch0 -> gpu1"]
    assert path_class(machine, 0, 1) == "pcie"
    assert words(machine, 0, 2)[:4] == ["gpu0 -> switch0", "switch0 -> cpu0", "cpu0 -> memory0", "memory0 -> cpu0"]
    assert path_class(machine, 0, 2) == "host_bridge"
    assert path_class(machine, 3, 4) == "socket"
    assert "cpu0 -> cpu1" in words(machine, 3, 4)
    direct = read_topology("pcie-8gpu(pairs=direct, across=direct)")
    assert words(direct, 0, 1) == ["gpu0 -> switch0", "switch0 -> gpu1"]
    assert len(words(direct, 0, 7)) == 5
    port = next(link for link in direct.links() if link.a == "gpu0")
    assert port.forward_Bps == pytest.approx(63.0e9, rel=1e-3)
    assert direct.device(0).details["model"] == "RTX PRO 6000"


@pytest.mark.parametrize(("gpus", "classes"), [(2, {"host_bridge"}), (4, {"host_bridge"})])
def test_workstations(gpus: int, classes: set[str]) -> None:
    machine = read_topology(f"workstation(gpus={gpus}, generation=gen4)")
    assert {path_class(machine, 0, other) for other in range(1, gpus)} == classes
    assert machine.link(machine.link_count - 1).forward_Bps == pytest.approx(31.5e9, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "rate", "reduces"),
    [("dgx-a100", 300e9, False), ("dgx-h100", 450e9, True), ("dgx-b200", 900e9, True), ("gb200-nvl72", 900e9, True)],
)
def test_nvlink_hosts(name: str, rate: float, reduces: bool) -> None:
    machine = read_topology(name)
    flow = machine.routes([0], [machine.world_size - 1])
    assert machine.capacities()[flow.of(0)].tolist() == [rate, rate]
    assert PATH_CLASSES[flow.path_class[0]] == "nvlink"
    switch = next(device for device in machine.devices() if device.kind == "nvswitch")
    assert switch.reduces is reduces
    nics = [device for device in machine.devices() if device.kind == "nic"]
    assert len(nics) == (72 if name == "gb200-nvl72" else 8)


def test_mi300x_is_a_full_mesh() -> None:
    machine = read_topology("mi300x")
    assert sum(link.kind == "xgmi" for link in machine.links()) == 28
    assert words(machine, 2, 6) == ["gpu2 -> gpu6"]
    assert machine.capacities()[machine.routes([2], [6]).of(0)].tolist() == [64e9]


def test_a_cluster_as_the_issue_writes_it() -> None:
    machine = read_topology("cluster(hosts=64, host=dgx-h100, nic=400Gb/s, oversubscription=2)")
    assert machine.world_size == 512
    assert words(machine, 0, 1) == ["host0/gpu0 -> host0/nvswitch", "host0/nvswitch -> host0/gpu1"]
    assert words(machine, 0, 511) == [
        "host0/gpu0 -> host0/switch0",
        "host0/switch0 -> host0/nic0",
        "host0/nic0 -> leaf0",
        "leaf0 -> spine0",
        "spine0 -> leaf15",
        "leaf15 -> host63/nic7",
        "host63/nic7 -> host63/switch7",
        "host63/switch7 -> host63/gpu7",
    ]
    rates = machine.capacities()[machine.routes([0], [511]).of(0)]
    assert rates[2] == 50e9
    assert rates[3] == 4 * 8 * 50e9 / 2  # 4 hosts of 8 NICs under a leaf of 32 ports down, half of that up
    assert any("equal-cost" in note for note in machine.notes)


def test_rails_use_the_nic_next_to_the_gpu() -> None:
    machine = read_topology("rail(hosts=4)")
    same = words(machine, 3, 8 + 3)
    assert "host0/nic3 -> rail3/leaf0" in same
    assert "rail3/leaf0 -> host1/nic3" in same
    across = words(machine, 3, 8 + 5)
    assert across[3:5] == ["rail3/leaf0 -> spine0", "spine0 -> rail5/leaf0"]


def test_gpus_that_share_nics_take_them_by_turns() -> None:
    machine = read_topology("cluster(hosts=2, host=dgx-a100)")
    used = [next(word for word in words(machine, gpu, 8) if "leaf" in word) for gpu in range(4)]
    assert used == [f"host0/nic{nic} -> leaf0" for nic in range(4)]  # two GPUs and two NICs a switch


SMALL = [
    "switch(gpus=5)",
    "ring(gpus=7)",
    "ring(gpus=2)",
    "cluster(hosts=3, host=dgx-h100(gpus=4, nics=4), oversubscription=2, hosts_per_leaf=2)",
    "cluster(hosts=3, host=dgx-a100(gpus=4, nics=2))",
    "cluster(hosts=2, host=pcie-8gpu(nics=2))",
    "cluster(hosts=2, host=gb200-nvl72(trays=2))",
    "cluster(hosts=2, host=mi300x(gpus=3, nics=3), latency=0.3us)",
    "rail(hosts=6, host=dgx-h100(gpus=4, nics=4), hosts_per_leaf=2)",
    "rail(hosts=9, host=dgx-h100(gpus=2, nics=2), hosts_per_leaf=2, levels=3, leaves_per_pod=2)",
    "fat-tree(hosts=20, levels=3, hosts_per_leaf=4, leaves_per_pod=2)",
]


@pytest.mark.parametrize("spec", SMALL)
@pytest.mark.parametrize("limited", [False, True], ids=["full-duplex", "shared"])
def test_the_fast_router_agrees_with_the_general_one(spec: str, limited: bool) -> None:
    machine = read_topology(spec)
    if limited:  # a calibrated machine has budgets and latencies of its own
        machine = machine.changed(
            duplex_Bps=np.where(np.arange(machine.link_count) % 2, np.inf, 1e9),
            latency_s=np.arange(machine.link_count) * 1e-9,
        )
    ranks = np.arange(machine.world_size)
    source, target = (axis.reshape(-1) for axis in np.meshgrid(ranks, ranks))
    fast, slow = machine.routes(source, target), machine.changed(router=None).routes(source, target)
    assert fast.offsets.tolist() == slow.offsets.tolist()
    assert fast.resources.tolist() == slow.resources.tolist()
    assert fast.latency_s == pytest.approx(slow.latency_s)
    assert fast.cap_Bps.tolist() == slow.cap_Bps.tolist()
    assert fast.path_class.tolist() == slow.path_class.tolist()


@pytest.mark.parametrize(
    "spec", ["torus(shape=3x3x2)", "torus(shape=4x5)", "mesh(shape=3x4)", "dragonfly(groups=5, switches=2, gpus=2)"]
)
def test_grids_go_as_short_a_way_as_the_general_router(spec: str) -> None:
    machine = read_topology(spec)
    ranks = np.arange(machine.world_size)
    source, target = (axis.reshape(-1) for axis in np.meshgrid(ranks, ranks))
    fast, slow = machine.routes(source, target), machine.changed(router=None).routes(source, target)
    assert fast.offsets.tolist() == slow.offsets.tolist()
    assert fast.path_class.tolist() == slow.path_class.tolist()
    assert all(is_walk(machine, fast.of(i), source[i], target[i]) for i in range(len(source)))


def is_walk(machine: Topology, resources: npt.NDArray[np.int64], source: int, target: int) -> bool:
    here = source
    for resource in resources:
        link, back = divmod(int(resource), 2)
        ends = (machine.link_a[link], machine.link_b[link])
        if ends[back] != here:
            return False
        here = ends[1 - back]
    return bool(here == target)


def test_torus_links_are_wires_between_neighbours() -> None:
    machine = read_topology("torus(shape=4x3)")
    assert machine.link_count == 24
    assert words(machine, 0, 10) == ["gpu0_0 -> gpu3_0", "gpu3_0 -> gpu3_1"]
    two = read_topology("torus(shape=2, bandwidth=10GB/s)")
    assert (two.link_count, two.forward_Bps[0]) == (1, 20e9)


LARGE = [
    ("fat-tree(hosts=131072, levels=3)", 131072),
    ("cluster(hosts=16384, levels=3)", 131072),
    ("rail(hosts=16384, levels=3)", 131072),
    ("torus(shape=64x64x32)", 131072),
    ("switch(gpus=131072)", 131072),
    ("dragonfly(groups=512, switches=16, gpus=16, global_links=32)", 131072),
]


@pytest.mark.parametrize(("spec", "world_size"), LARGE)
def test_large_machines_are_quick_and_small(spec: str, world_size: int) -> None:
    tracemalloc.start()
    start = time.process_time()
    machine = read_topology(spec)
    ranks = np.arange(machine.world_size)
    routes = machine.routes(ranks, np.roll(ranks, -1))
    taken = time.process_time() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert machine.world_size == world_size
    assert len(routes.offsets) == world_size + 1
    assert (np.diff(routes.offsets) >= 1).all()
    assert taken < 3.0  # under 0.3 s when memory is not traced and the machine is quiet
    assert peak < 200 * 2**20


def test_a_torus_refuses_more_hops_than_fit() -> None:
    machine = read_topology("ring(gpus=131072)")
    ranks = np.arange(machine.world_size)
    with pytest.raises(BusbwError, match="hops in all"):
        machine.routes(ranks, np.roll(ranks, 65536))


BAD = [
    ("switc(gpus=3)", r"unknown topology 'switc'.*did you mean switch"),
    ("switch(gpu=3)", r"switch: unknown parameter 'gpu'.*did you mean gpus"),
    ("switch(gpus=0)", r"gpus=0: it must be from 1"),
    ("switch(gpus=-3)", r"gpus=-3: it must be from 1"),
    ("switch(gpus=3.5)", r"must be a whole number"),
    ("switch(gpus=99999999)", r"must be from 1 to"),
    ("switch(bandwidth=0GB/s)", r"a bandwidth must be above 0"),
    ("switch(bandwidth=-5GB/s)", r"a bandwidth must be above 0"),
    ("switch(bandwidth=nan)", r"is not a rate"),
    ("switch(latency=-1us)", r"a latency must be 0 or more"),
    ("switch(kind=wifi)", r"choose from network, nvlink, pcie"),
    ("switch(reduces=yes)", r"it is on or off"),
    ("switch(gpus=3", r"is no topology"),
    ("switch(gpus=3))", r"a '\)' too many"),
    ("switch(gpus=(3)", r"a '\)' is missing|is no topology"),
    ("switch(8)", r"'8' is no parameter: write name=value"),
    ("switch(gpus=3, gpus=4)", r"gpus is given twice"),
    ("torus(shape=4x)", r"sizes such as 8x8x4"),
    ("torus(shape=0x4)", r"sizes must be 1 or more"),
    ("cluster(oversubscription=0)", r"must be above 0"),
    ("cluster(oversubscription=inf)", r"must be above 0"),
    ("cluster(oversubscription=x)", r"oversubscription=x"),
    ("cluster(host=workstation)", r"the host workstation has no NIC.*workstation\(nics=1\)"),
    ("cluster(host=dgx-h10)", r"unknown topology 'dgx-h10'.*did you mean dgx-h100"),
    ("cluster(hosts=64, levels=1)", r"levels=1"),
    ("fat-tree(hosts=4, nic=0Gb/s)", r"a bandwidth must be above 0"),
    ("dragonfly(groups=99, switches=2, global_links=1)", r"give more switches or global_links"),
    ("cluster(" * 20 + ")" * 20, r"nested at most"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "message"), BAD)
def test_bad_expressions_get_one_clear_line(spec: str, message: str) -> None:
    with pytest.raises(BusbwError, match=message) as caught:
        read_topology(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("spec", ["switch(gpus=4)", "ring(gpus=4)", "dragonfly", "fat-tree(hosts=4)"])
def test_a_policy_that_the_machine_cannot_follow_is_refused(spec: str) -> None:
    machine = read_topology(spec).changed(policies={"network": PathPolicy("memory")})
    with pytest.raises(BusbwError, match=r"network traffic .*via memory, but"):
        machine.routes([0], [1])
