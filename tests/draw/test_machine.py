from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from busbw.core.schedule import ALGORITHMS, Schedule
from busbw.core.topology import Device, Link, Topology, TopologyBuilder
from busbw.draw.captions import described
from busbw.draw.loads import count_flows
from busbw.draw.machine import draw_topology
from busbw.draw.overlaps import overlaps
from busbw.draw.scene import Line, Scene
from busbw.errors import FileError, UsageError
from busbw.topologies import all_presets, read_topology

Build = Callable[..., Schedule]
MACHINES = [
    *all_presets(),
    *(f"pcie-8gpu(gpus={n})" for n in (2, 4, 16)),
    "pcie-8gpu(sockets=4)",
    "pcie-8gpu(nics=4)",
    "pcie-8gpu(gpus=16,gpus_per_switch=4)",
    "workstation(gpus=4)",
    "cluster(hosts=2)",
    "cluster(hosts=64)",
    "rail(hosts=4)",
    "switch(gpus=2)",
    "switch(gpus=64)",
    "torus(shape=8)",
    "mesh(shape=2x4)",
]


@pytest.mark.parametrize("spec", MACHINES)
def test_nothing_overlaps(spec: str, build: Build) -> None:
    machine = read_topology(spec)
    assert overlaps(draw_topology(machine)) == []
    if 2 <= machine.world_size <= 128:
        usage = count_flows(build("ring", "all_reduce", machine.world_size), machine)
        assert overlaps(draw_topology(machine, usage)) == []


def test_nothing_overlaps_in_machines_that_files_describe(golden: Path, root: Path) -> None:
    """The golden files, and the logs of other people's machines where they lie beside the checkout."""
    logs = root.parent / "shared" / "data" / "logs"
    files = [
        *sorted((golden / "topologies").iterdir()),
        *sorted(logs.glob("nccl-topo-xml/*")),
        *sorted(logs.glob("smi-topo/*")),
    ]
    drawn = 0
    for file in files:
        try:
            machine = read_topology(str(file))
        except FileError:
            continue  # what is no whole machine; the readers' tests look at why
        usage = (
            count_flows(ALGORITHMS.get("ring").build("all_reduce", machine.world_size), machine)
            if machine.world_size > 1
            else None
        )
        assert overlaps(draw_topology(machine, usage)) == [], file.name
        drawn += 1
    assert drawn >= 5


def mesh_of_links(pairs: list[tuple[int, int]], gpus: int) -> Topology:
    builder = TopologyBuilder("links")
    builder.add(Device("cpu0", "cpu", "h"))
    for gpu in range(gpus):
        builder.add(Device(f"gpu{gpu}", "gpu", "h"))
        builder.link(Link(f"gpu{gpu}", "cpu0", "pcie", 30e9, 30e9))
    for one, other in pairs:
        builder.link(Link(f"gpu{one}", f"gpu{other}", "nvlink", 50e9, 50e9))
    return builder.build()


@pytest.mark.parametrize(
    "pairs",
    [
        [(0, 1), (2, 3)],
        [(0, 1), (1, 2), (2, 3), (0, 3)],
        [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (0, 4), (1, 5), (2, 6), (3, 7), (4, 5), (4, 6), (4, 7), (5, 6), (5, 7), (6, 7)],
    ],
)  # fmt: skip
def test_links_between_gpus_go_around_below_them(pairs: list[tuple[int, int]]) -> None:
    scene = draw_topology(mesh_of_links(pairs, 8))
    assert overlaps(scene) == []
    assert sum("nvlink" in line.said for line in scene.lines) == len(pairs)


def test_links_of_one_gpu_leave_it_side_by_side() -> None:
    """GPU 0 has three to the right: the longest leaves at the left, so that none crosses another."""
    scene = draw_topology(mesh_of_links([(0, 1), (0, 2), (0, 3), (1, 2)], 4))
    starts = [
        line.points[0][0] for other in (3, 2, 1) for line in scene.lines if line.said.startswith(f"gpu0 - gpu{other}:")
    ]
    assert starts == sorted(starts)
    assert min(b - a for a, b in pairwise(starts)) > 10


def test_a_process_hangs_at_its_cpu() -> None:
    builder = TopologyBuilder("cpu-only")
    builder.add(Device("cpu0", "cpu", "h"))
    for index in range(2):
        builder.add(Device(f"process{index}", "process", "h"))
        builder.link(Link(f"process{index}", "cpu0", "memory", 10e9, 10e9))
    scene = draw_topology(builder.build())
    assert overlaps(scene) == []
    assert all(len(line.points) == 2 for line in scene.lines)
    assert "rank 1" in [text.text for text in scene.texts]


def test_a_link_from_each_to_each_is_one_band() -> None:
    pairs = [(i, j) for i in range(4) for j in range(i)]
    scene = draw_topology(mesh_of_links(pairs, 4))
    assert "NVLink, every GPU to every other" in [text.text for text in scene.texts]
    assert [text.text for text in scene.texts].count("3×50") == 4


def width_of(scene: Scene, said: str) -> float:
    return next(line.width for line in scene.lines if said in line.said)


def test_wide_links_are_wide_and_carry_their_rate() -> None:
    scene = draw_topology(read_topology("dgx-h100"))
    assert width_of(scene, "gpu0 - nvswitch: nvlink, 450 GB/s") == pytest.approx(10.0)
    assert width_of(scene, "gpu0 - switch0: pcie, 63.0 GB/s") == pytest.approx(1.5 + 8.5 * 63 / 450, abs=0.01)
    texts = [text.text for text in scene.texts]
    assert texts.count("450") == 8
    assert texts.count("63") == 24
    assert texts.count("rank 3") == 1


def test_a_slower_way_back_and_a_budget_of_both_are_told() -> None:
    builder = TopologyBuilder("uneven")
    builder.add(Device("cpu0", "cpu", "h"))
    for gpu in range(2):
        builder.add(Device(f"gpu{gpu}", "gpu", "h"))
        builder.link(Link(f"gpu{gpu}", "cpu0", "pcie", 49e9, 44e9, 80e9, basis="measured"))
    scene = draw_topology(builder.build())
    texts = [text.text for text in scene.texts]
    assert texts.count("44↓") == texts.count("49↑") == texts.count("80 both") == 2
    assert "PCIe 44 to 49.0 GB/s (measured)" in texts


def test_the_bottleneck_is_red_and_says_how_busy_it_is(build: Build) -> None:
    machine = read_topology("pcie-8gpu")
    scene = draw_topology(machine, count_flows(build("ring", "all_reduce", 8), machine))
    red = {line.said.split(":")[0] for line in scene.lines if line.role == "alarm"}
    assert red == {"switch0 - cpu0", "switch1 - cpu0", "switch2 - cpu1", "switch3 - cpu1"}
    texts = [(text.text, text.role) for text in scene.texts]
    assert texts.count(("100 %", "alarm")) == 4
    assert texts.count(("50 %", "ink")) == 8
    assert texts.count(("33 %", "ink")) == 1


def test_equal_hosts_are_collapsed_and_counted() -> None:
    scene = draw_topology(read_topology("cluster(hosts=16)"))
    texts = [text.text for text in scene.texts]
    assert [name for name in texts if name in ("host0", "host1", "host4", "host5")] == ["host0", "host1", "host4"]
    assert "+ 11 more" in texts
    assert texts.count("8×50") == 4
    assert any(text.startswith("4 switches, leaf0 … leaf3") for text in texts)


def test_a_line_that_passes_a_band_does_not_end_at_it() -> None:
    """A NIC's way to the network goes over the NVSwitch, with a gap on both sides."""
    scene = draw_topology(read_topology("cluster(hosts=2)"))
    items = list(scene.items)
    (index,) = [i for i, item in enumerate(items) if isinstance(item, Line) and item.said.startswith("host0/nic0 -")
                and item.role == "network"]  # fmt: skip
    halo, line = items[index - 1], items[index]
    assert isinstance(halo, Line)
    assert isinstance(line, Line)
    assert halo.role == "host"
    assert halo.points[0][0] == line.points[0][0]
    assert halo.width > line.width


def test_a_large_machine_is_drawn_in_no_time() -> None:
    machine = read_topology("cluster(hosts=16384)")
    assert machine.world_size == 131072
    texts = [text.text for text in draw_topology(machine).texts]
    assert "+ 16379 more" in texts


def test_what_it_is_made_of() -> None:
    assert described(read_topology("pcie-8gpu")) == "8 GPUs, 4 PCIe switches, 2 CPUs, 2 memories, on 1 host."


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(UsageError, match="a grid 4×4×4 has no flat picture"):
        draw_topology(read_topology("torus(shape=4x4x4)"))
    with pytest.raises(UsageError, match="a host of 96 GPUs and NICs is too wide"):
        draw_topology(read_topology("pcie-8gpu(gpus=96,gpus_per_switch=8)"))
    with pytest.raises(UsageError, match="256 GPUs are too many"):
        draw_topology(read_topology("torus(shape=16x16)"))
