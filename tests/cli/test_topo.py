"""`busbw topo`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from busbw.cli import main
from busbw.topologies import TOPOLOGY_FORMATS, all_presets, read_topology
from busbw.topologies.page import link_groups, page, to_json


def test_a_preset_as_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topo", "pcie-8gpu"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("pcie-8gpu: 8 ranks on 1 host, 16 devices, 15 links\n")
    assert "gpu0 - switch0  pcie, 63.0 GB/s each way (nominal)" in text
    assert "cpu0 - cpu1     socket, 96.0 GB/s each way (assumed)" in text
    assert "   gpu0  [0]     -  pcie  host  host  sock  sock  sock  sock" in text
    assert re.search(r"pcie +through the CPU \(root port\), 1.00 us a message \(assumed\)", text)
    assert "note: " in text
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_one_flow_alone_gets_half_of_a_budget_that_it_passes_twice() -> None:
    machine = read_topology("pcie-8gpu(memory=60GB/s)")
    assert to_json(machine)["alone_GBps"][0][2] == 30.0  # down to memory and up again


def test_hundreds_of_gpus_are_summarised(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topo", "cluster(hosts=64, host=dgx-h100, nic=400Gb/s, oversubscription=2)"]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) < 50
    assert "512 x gpu - nvswitch" in text
    assert re.search(r"7 nvlink +one flow alone 450 GB/s", text)
    assert re.search(r"504 network +one flow alone 50.0 GB/s", text)


def test_links_that_are_alike_are_one_group() -> None:
    groups = link_groups(read_topology("dgx-a100"))
    assert {group.ends: group.count for group in groups}["gpu", "nvswitch"] == 8
    assert sum(group.count for group in groups) == read_topology("dgx-a100").link_count


def test_json_has_the_keys_of_its_page(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    assert main(["topo", "workstation", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["world_size"] == 2
    assert data["path_classes"] == [["local", "host_bridge"], ["host_bridge", "local"]]
    assert data["link_list"][0]["between"] == ["cpu0", "memory0"]
    table = (root / "docs" / "topologies.md").read_text().partition("## JSON")[2]
    cells = re.findall(r"^\|([^|]*)\|", table, re.MULTILINE)
    assert {key for cell in cells for key in re.findall(r"`(\w+)`", cell)} == set(data)


def test_large_machines_as_json_leave_lists_out() -> None:
    data = to_json(read_topology("switch(gpus=3000)"))
    assert (data["device_list"], data["path_classes"]) == (None, None)
    assert len(data["link_list"]) == 3000
    assert to_json(read_topology("switch(gpus=9000)"))["link_list"] is None


def test_toml_is_saved_and_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "machine.toml"
    assert main(["topo", "dgx-h100", "-o", str(path)]) == 0
    capsys.readouterr()
    assert main(["topo", str(path), "--toml"]) == 0
    assert capsys.readouterr().out == path.read_text()


def test_a_file_says_what_it_said(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(golden / "topologies" / "smi_pairs_ansi.txt")
    assert main(["topo", path]) == 0
    assert "4 GPUs, pairs: 2 PIX, 4 SYS; 2 NICs" in capsys.readouterr().out
    assert main(["topo", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["said"]["gpu_pairs"] == {"PIX": 2, "SYS": 4}


def test_graphs_are_shown_though_they_are_no_machine(
    golden: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = str(golden / "topologies" / "nccl_graph.xml")
    assert main(["topo", path]) == 0
    out = capsys.readouterr().out
    assert "channel 1: 1 0 2" in out
    assert "no machine: " in out
    assert main(["topo", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["said"]["graphs"][0]["channels"] == 2
    assert main(["topo", path, "-o", str(tmp_path / "m.toml")]) == 2
    assert "not the machine" in capsys.readouterr().err
    assert not (tmp_path / "m.toml").exists()


@pytest.mark.parametrize("name", ["smi_p2p.txt", "smi_pcie_cut.txt", "nccl_fragment.xml"])
def test_what_is_no_machine_ends_with_2_and_one_line(
    name: str, golden: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topo", str(golden / "topologies" / name)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dgx-h10"], "did you mean dgx-h100"),
        (["no/such/file"], "no/such/file: cannot be read: No such file"),
        (["dgx-h100", "-o", "/no/such/place/m.toml"], "cannot be written"),
        (["switch(gpus=30000)", "--toml", "--json"], "not allowed with"),
    ],
)
def test_mistakes(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        assert main(["topo", *words]) == 2
    except SystemExit as stop:
        assert stop.code == 2
    assert message in capsys.readouterr().err


def test_this_machine_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topo"]) == 0
    assert capsys.readouterr().out.startswith("this: ")


def test_a_single_gpu_has_a_page() -> None:
    assert "1 ranks" in page(read_topology("gpu"))


def test_every_preset_and_format_is_in_the_page(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    text = (root / "docs" / "topologies.md").read_text()
    assert main(["topo", "--list"]) == 0
    listed = capsys.readouterr().out
    for preset in all_presets().values():
        assert f"\n{preset.name}: " in f"\n{listed}"
        row = next(line for line in text.splitlines() if line.startswith(f"| `{preset.name}` | {preset.summary} |"))
        for parameter in preset.parameters:
            assert f"`{parameter.name}" in row
    for name in TOPOLOGY_FORMATS.names():
        assert f"\n| `{name}` |" in text
