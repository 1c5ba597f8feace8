"""Readers on small files in the real layouts: what they say, the machine that is made of it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.core.log_text import LogText
from busbw.core.topology import PATH_CLASSES, Topology
from busbw.errors import BusbwError, FileError
from busbw.topologies import describe_file, describe_text, read_topology
from busbw.topologies.readers._nccl_noun import NcclLog
from busbw.topologies.readers.smi_topo import SmiMatrix


@pytest.fixture
def folder(golden: Path) -> Path:
    return golden / "topologies"


def classes(machine: Topology) -> list[str]:
    count = machine.world_size
    return [PATH_CLASSES[machine.routes([0], [other]).path_class[0]] for other in range(1, count)]


def rate_of(machine: Topology, a: str, b: str) -> float:
    return next(link.forward_Bps for link in machine.links() if {link.a, link.b} == {a, b})


def test_a_matrix_with_ansi_tabs_and_a_legend(folder: Path) -> None:
    found = describe_file(str(folder / "smi_pairs_ansi.txt"))
    assert isinstance(found, SmiMatrix)
    assert found.line == 2
    assert found.gpu_pairs() == {"PIX": 2, "SYS": 4}
    assert found.nic_devices == {"NIC0": "mlx5_0", "NIC1": "mlx5_1"}
    assert found.nearest_nics()["GPU3"] == ("NODE", ("NIC1",))
    assert found.affinity["GPU2"] == ("16-31", "1", "N/A")
    machine = found.topology()
    assert classes(machine) == ["pcie", "socket", "socket"]
    links = {frozenset((link.a, link.b)) for link in machine.links()}
    # GPU0 and GPU1 at one switch, NIC0 at the switch above it; GPU2 and GPU3 at a switch of the other socket, NIC1 at its root
    assert {frozenset(pair) for pair in (("gpu0", "switch1"), ("switch1", "switch0"), ("nic0", "switch0"))} <= links
    assert {frozenset(pair) for pair in (("gpu3", "switch2"), ("switch2", "cpu1"), ("nic1", "cpu1"))} <= links


def test_a_cut_matrix_of_a_switched_host_is_completed_and_says_so(folder: Path) -> None:
    found = describe_file(str(folder / "smi_nvswitch_cut.txt"))
    assert isinstance(found, SmiMatrix)
    assert found.rows_present == ("GPU0", "GPU1", "GPU2")
    assert not found.full_rows
    assert found.rows["GPU2"] == {"GPU0": "NV18"}  # NV1 is what is left of NV18
    assert found.notes == ("the matrix is cut in the row of GPU2", "the matrix is cut: no row of GPU3")
    machine = found.topology()
    assert classes(machine) == ["nvlink"] * 3
    assert rate_of(machine, "gpu3", "nvswitch") == 18 * 20.6e9
    assert any("cut" in note for note in machine.notes)


def test_a_cut_matrix_of_a_pcie_host_is_refused(folder: Path) -> None:
    with pytest.raises(FileError, match=r"smi_pcie_cut.txt:1: the matrix is cut: \d pairs of its 4 GPUs .*topo.txt"):
        read_topology(str(folder / "smi_pcie_cut.txt"))


def test_a_matrix_of_peer_access_is_refused(folder: Path) -> None:
    with pytest.raises(FileError, match=r"smi_p2p.txt:2: a matrix of nvidia-smi topo -p2p.*topo -m"):
        read_topology(str(folder / "smi_p2p.txt"))


def test_a_table_with_rules_and_rows_that_disagree(folder: Path) -> None:
    found = describe_file(str(folder / "smi_bridge_table.txt"))
    assert isinstance(found, SmiMatrix)
    assert found.asymmetric_pairs() == [("GPU1", "GPU2")]
    assert found.links_per_gpu() == {"GPU0": 4, "GPU1": 4, "GPU2": 0}
    machine = found.topology()
    assert classes(machine) == ["nvlink", "host_bridge"]
    assert rate_of(machine, "gpu0", "gpu1") == 4 * 12e9
    assert "the rows of GPU1 and GPU2 disagree on each other" in machine.notes


def test_rocm_tables(folder: Path) -> None:
    path = str(folder / "rocm_two_pairs.txt")
    found = describe_file(path).to_json()
    assert found["link_pairs"] == {"XGMI": 2, "PCIE": 4}
    assert (found["weights"], found["hops"], found["numa"]) == ([15, 40], [1, 2], [0, 0, 1, 1])
    machine = read_topology(path)
    assert classes(machine) == ["nvlink", "socket", "socket"]
    assert rate_of(machine, "gpu2", "gpu3") == 48e9


@pytest.mark.parametrize("name", ["amd_smi_topology.txt", "amd_smi_topology.json"])
def test_amd_smi(name: str, folder: Path) -> None:
    found = describe_file(str(folder / name)).to_json()
    assert (found["gpus"], found["link_pairs"], found["hops"]) == (3, {"XGMI": 3}, [1])
    machine = read_topology(str(folder / name))
    assert classes(machine) == ["nvlink", "nvlink"]
    assert machine.device(1).details["busid"] == "0000:26:00.0"


def test_nccls_xml_of_two_hosts(folder: Path) -> None:
    machine = read_topology(str(folder / "nccl_two_hosts.xml"))
    assert [machine.names[int(rank)] for rank in machine.ranks] == ["host1/gpu0", "host0/gpu0"]  # by rank=
    assert list(machine.hosts) == ["host0", "host1"]
    assert rate_of(machine, "host0/gpu0", "nvswitch") == 18 * 20.6e9
    assert rate_of(machine, "host0/gpu0", "host0/cpu0") == 50e9
    assert rate_of(machine, "host0/switch0", "host0/nic0") == 12e9  # Gen4 x8
    assert rate_of(machine, "host0/nic0", "network") == 50e9
    assert rate_of(machine, "host1/cpu0", "host1/cpu1") == 22e9
    assert classes(machine) == ["nvlink"]
    assert next(device for device in machine.devices() if device.kind == "nvswitch").reduces


def test_nccls_xml_for_guests(folder: Path) -> None:
    found = describe_file(str(folder / "nccl_guest.xml")).to_json()
    assert (found["gpu_functions"], found["nic_functions"], found["gpu_elements"]) == (2, 1, 0)
    assert found["switch_groups_gpu_nic"] == [["ffff:ff:01.0", 2, 1]]
    machine = read_topology(str(folder / "nccl_guest.xml"))
    assert rate_of(machine, "gpu0", "switch0") == 12e9  # unknown: Gen3 x16
    assert rate_of(machine, "gpu1", "switch0") == 24e9
    assert rate_of(machine, "nic0", "switch0") == 6e9
    assert any("known by PCI class" in note for note in machine.notes)


def test_nccls_xml_with_odd_speeds_and_ends_that_disagree(folder: Path) -> None:
    found = describe_file(str(folder / "nccl_mesh.xml"))
    assert found.to_json()["asymmetric_pairs"] == [["0000:01:00.0", "0000:11:00.0"]]
    machine = found.topology()
    assert rate_of(machine, "gpu0", "gpu1") == 2 * 48e9
    assert rate_of(machine, "gpu0", "gpu2") == 48e9
    notes = " / ".join(machine.notes)
    assert "gpu0 and gpu1 disagree" in notes
    assert "big: speed 400000000 Mb/s is above 1600000" in notes
    assert "eth0: no speed, taken for 10 Gb/s" in notes


def test_nccls_graphs(folder: Path) -> None:
    found = describe_file(str(folder / "nccl_graph.xml"))
    graph = found.to_json()["graphs"][0]
    assert graph["orders"] == [[0, 2, 1], [1, 0, 2]]
    assert (graph["gpus_per_channel"], graph["nets_per_channel"], graph["speedintra"]) == ([3], [2], "20")
    assert "ring" in found.summary()[1]
    with pytest.raises(FileError, match="not the machine"):
        found.topology()


def test_nccls_log(folder: Path) -> None:
    found = describe_file(str(folder / "nccl_graph_lines.log"))
    assert isinstance(found, NcclLog)
    assert found.world_size == 4
    assert found.hosts == ("h0", "h1")
    assert {rank: (place.host, place.device) for rank, place in found.ranks.items()} == {
        0: ("h0", 0),
        1: ("h0", 1),
        2: ("h1", 0),
        3: ("h1", 1),
    }
    assert found.ring_lists[0] == (0, 1)  # cut, and completed from the lines of each rank
    assert found.rings() == {0: (0, 1, 2, 3), 1: (0, 1, 2, 3)}
    assert found.trees[0] == {0: -1, 1: 0, 2: 1, 3: 2}
    assert found.transports == {"P2P/CUMEM": 1, "NET/IB/n/GDRDMA": 2, "SHM/direct/direct": 1}
    assert found.choices["AllReduce", "RING/SIMPLE"] == {1048576: 1, 2097152: 1}
    assert (found.warn_lines, found.damaged_lines, found.connected_all_rings) == (1, 1, 1)
    machine = found.topology()
    assert [machine.names[int(rank)] for rank in machine.ranks] == [
        "host0/gpu0",
        "host0/gpu1",
        "host1/gpu0",
        "host1/gpu1",
    ]
    assert rate_of(machine, "host0/nic0", "network") == 50e9
    assert rate_of(machine, "host1/gpu1", "host1/nvswitch0") == 360e9
    assert classes(machine) == ["nvlink", "network", "network"]


BAD = {
    "nccl_fragment.xml": r"nccl_fragment.xml:3: not well-formed XML \(mismatched tag\).*NCCL_TOPO_DUMP_FILE",
}


@pytest.mark.parametrize("name", BAD)
def test_fragments_are_refused_with_line_and_reason(name: str, folder: Path) -> None:
    with pytest.raises(FileError, match=BAD[name]):
        read_topology(str(folder / name))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("\n \n", "the file is empty"),
        ("nothing of a machine\n", "not a description of a machine that is known here: .*nvidia-smi topo -m"),
        ("\x00\x01\x02" * 100, "a binary file"),
        ('<pci busid="0000:01:00.0"><gpu dev="0"/></pci>', "its root is <pci>, not <system>"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><system version="1"/>', "DOCTYPE"),
        ('<system version="1"><cpu numaid="0"/></system>', "without a GPU"),
        (
            '<system><cpu numaid="0"><pci busid="1" class="0x030200"/><pci busid="1" class="0x030200"/></cpu></system>',
            "busid '1' is there twice",
        ),
        ('<graphs version="1"/>', "without a <graph>"),
        ('<graphs><graph id="0"><channel><gpu dev="x"/></channel></graph></graphs>', "dev='x'"),
        ('[{"bdf": "a", "links": 3}]', "amd-smi topology --json"),
        ('[{"bdf": "a", "links": []}, {"bdf": "a", "links": []}]', "a GPU twice"),
        ("h0:1:2 [0] NCCL INFO Using network IB\n", "channels and transports.*NCCL_TOPO_DUMP_FILE"),
    ],
)
def test_what_is_no_topology_is_refused_with_the_reason(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(FileError, match=message) as caught:
        read_topology(str(path))
    assert "\n" not in str(caught.value)


PIECES = st.sampled_from(
    [
        "GPU0",
        "GPU1",
        "NIC0",
        "\t",
        " X ",
        "PIX",
        "NV4",
        "SYS",
        "CPU Affinity",
        "\n",
        "0-3",
        "N/A",
        "<system>",
        "</system>",
        '<cpu numaid="0">',
        "</cpu>",
        "</pci>",
        "</gpu>",
        '<pci busid="a" class="0x030200">',
        '<gpu dev="0" sm="80">',
        '<nvlink target="a" count="-2" tclass="0x068000"/>',
        "h:1:2 [0] NCCL INFO ",
        "Channel 00/02 : 0 1",
        "Ring 00 : 1 -> 0 -> 1",
        "=== System : maxBw",
        "CPU/0 (1/2)",
        "+ PCI[12.0] - GPU/1 (0)",
        "Link Type between two GPUs",
        "XGMI",
        "LINK TYPE TABLE:",
        "busbw_topology = 1",
        "devices = []",
        "[paths.pcie]",
        "via = 3",
        "{",
        "}",
        "=",
        "[",
        "]",
    ]
)


@pytest.mark.fuzz
@given(st.lists(PIECES, max_size=40).map(" ".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = describe_text(LogText(text.encode(), "any"))
        assert found.to_json()["format"]
        assert all(isinstance(line, str) for line in found.summary())
        machine = found.topology()
        assert np.isfinite(machine.forward_Bps).all()
    except BusbwError as error:
        assert "\n" not in str(error)
