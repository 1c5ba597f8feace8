"""The host that is looked at: read-only, within its root."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.doctor import COMMANDS, Host, examine
from busbw.doctor._nvidia import matrix
from busbw.doctor.numa_placement import cpus
from busbw.errors import UsageError
from busbw.host.pci import control_of_config


def test_a_copy_runs_no_command_and_reads_what_was_saved(tmp_path: Path) -> None:
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands" / "lspci.txt").write_text("00:00.0 Host bridge\n")
    host = Host(tmp_path)
    assert host.run("lspci").text == "00:00.0 Host bridge"
    assert host.run("ethtool", "eth0").trouble == "its output is not saved here (commands/ethtool-eth0.txt)"
    assert host.variables() == {}


def test_a_link_that_leads_out_of_the_root_is_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "out").symlink_to(tmp_path)
    (root / "loop").symlink_to("loop")
    assert Host(root).target("/out") == ""
    assert Host(root).target("/loop") == ""


def test_a_path_without_rights_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)  # root may read everything
    host = Host(tmp_path)
    assert host.data("/file") is None
    assert host.denied == {"/file"}


def test_no_root_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a directory"):
        Host(tmp_path / "none")


def test_commands_only_read() -> None:
    words = {word for command in COMMANDS.values() for word in command}
    assert {command[0] for command in COMMANDS.values()} == {"lspci", "nvidia-smi", "ethtool"}
    assert not words & {"-s", "-r", "-pl", "-pm", "-lgc", "-rac", "--change", "--gpu-reset"}


def test_nothing_is_written_to_a_copy(machine: Callable[..., Host]) -> None:
    host = machine("acs_on", "variables")
    before = {path: path.lstat().st_mtime_ns for path in host.root.rglob("*")}
    for folder, _, files in os.walk(host.root):
        for name in files:
            os.chmod(os.path.join(folder, name), 0o444)
    examine(host)
    assert {path: path.lstat().st_mtime_ns for path in host.root.rglob("*")} == before


def test_this_machine_is_examined_without_a_traceback() -> None:
    found = examine(Host())
    assert any(finding.law == "inventory" for finding in found.findings)


@given(st.binary(max_size=512))
def test_any_configuration_space_ends(config: bytes) -> None:
    bits = control_of_config(b"\0" * 256 + config)
    assert bits is None or len(bits) <= 7


def test_a_capability_chain_in_a_circle_ends() -> None:
    config = bytearray(4096)
    config[0x100:0x104] = bytes.fromhex("01000210")  # next: 0x100
    assert control_of_config(bytes(config)) == frozenset()


@given(st.text(max_size=200))
def test_any_matrix_and_any_cpu_list_ends(text: str) -> None:
    assert all(isinstance(entry, str) for entry in matrix(text).values())
    assert all(cpu >= 0 for cpu in cpus(text.replace("9", "")))


def test_a_matrix_with_underlined_head_and_nics() -> None:
    table = matrix(
        "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\x1b[0m\nGPU0\t X \tNV18\tPXB\t0-3\nGPU1\tNV18\t X \tSYS\t0-3\n"
    )
    assert table["GPU0", "GPU1"] == "NV18"
    assert table["GPU1", "NIC0"] == "SYS"
