"""`busbw explain`: files, a number by hand, facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from busbw.cli import main

CSV = "op,world_size,bytes,time_ms,algbw_GBps,busbw_GBps\n"


def rows(op: str, n: int, rate: float, factor: float) -> str:
    found = []
    for size in (4096, 65536, 2**20, 2**24, 2**28, 2**30):
        time_ms = 0.012 + size * factor / rate * 1e3
        found.append(f"{op},{n},{size},{time_ms:.5f},,")
    return "\n".join(found) + "\n"


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    path = tmp_path / "pair.csv"
    path.write_text(
        CSV + rows("scatter", 2, 44e9, 0.5) + rows("all_gather", 2, 21e9, 0.5) + rows("all_reduce", 2, 21e9, 1.0)
    )
    return path


def told(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    assert main(["explain", "--json", *arguments]) == status
    return {finding["law"]: finding for finding in json.loads(capsys.readouterr().out)}


def test_a_file(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finding = told(capsys, str(pair))["one_way_two_way"]
    assert finding["verdict"] == "fails"
    assert {cause["code"] for cause in finding["causes"]} >= {"acs-redirect", "host-memory"}
    numbers = {number["name"]: number for number in finding["numbers"]}
    assert numbers["plateau of scatter N=2"]["value"] == pytest.approx(44e9, rel=0.01)
    assert numbers["plateau of scatter N=2"]["source"].startswith(f"{pair}:6")


@pytest.mark.parametrize(
    ("fact", "cleared"), [("acs=off", "acs-redirect"), ("p2p=on", "host-memory"), ("p2p=off", "acs-redirect")]
)
def test_a_fact_clears_a_cause(pair: Path, fact: str, cleared: str, capsys: pytest.CaptureFixture[str]) -> None:
    finding = told(capsys, str(pair), "--fact", fact)["one_way_two_way"]
    assert cleared not in {cause["code"] for cause in finding["causes"]}
    assert cleared in {cause["code"] for cause in finding["ruled_out"]}


def test_the_page_has_the_verdict_first(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(pair), "--peak", "50GB/s"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "18 rows: all_gather, all_reduce, scatter; N = 2."
    assert lines[1] == "Known: peak 50.0 GB/s."
    assert lines[3].startswith("Verdict: Low: all_reduce at N=2 reaches 21.0 GB/s busbw")
    assert "First of all: send and receive compete on one pair: 43.9 GB/s one way, 21.0 each way" in "\n".join(lines)
    assert max(map(len, lines)) <= 110
    assert "pair.csv:6" in "\n".join(lines)


def test_a_number_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    hand = ("--op", "all_reduce", "-N", "8", "--hosts", "1", "--size", "256MiB", "--machine", "dgx-h100")
    for words in (("--algbw", "250GB/s"), ("--busbw", "437.5GB/s"), ("--time", "1.073742ms")):
        findings = told(capsys, *hand, *words)
        assert findings["is_it_good"]["verdict"] == "holds"
        assert findings["is_it_good"]["numbers"][0]["value"] == pytest.approx(437.5e9, rel=1e-5)
        assert findings["in_switch_reduction"]["causes"][0]["code"] == "nvls-moves-less"


def test_a_log_tells_that_gpudirect_is_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nccl.log"
    path.write_text(
        "h0:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0\nh0:1:2 [0] NCCL INFO nNodes 2\n"
    )
    hand = ("--op", "all_reduce", "-N", "16", "--size", "8GiB", "--busbw", "33GB/s", "--nic", "200Gb/s", "--nics", "4")
    finding = told(capsys, *hand, "--nccl-log", str(path))["network_path"]
    assert [cause["code"] for cause in finding["causes"]] == ["gdr-off"]
    assert finding["needs"] == []
    cleared = told(capsys, *hand, "--nccl-log", str(path), "--fact", "gdr=on", "--fact", "acs=off")["network_path"]
    assert "gdr-off" not in {cause["code"] for cause in cleared["causes"]}


def test_a_topology(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "topo.txt"
    path.write_text("\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n")
    finding = told(capsys, "--topology", str(path), "--symptom", "all_reduce hangs, works with P2P disabled")[
        "failed_run"
    ]
    assert [cause["code"] for cause in finding["causes"]] == ["acs-enabled"]


def test_a_topology_that_is_none(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(pair), "--topology", str(pair)]) == 2
    assert "neither the matrix of nvidia-smi topo -m" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to explain"),
        (("--machine", "dgx-h1000"), "did you mean dgx-h100?"),
        (("--fact", "colour=red"), "write NAME=VALUE"),
        (("--nic", "fast"), "not a rate"),
        (("--op", "all_reduce", "--time", "1ms"), "--time needs"),
        (("--algbw", "1GB/s", "--time", "1ms"), "give one of"),
        (("-N", "0", "--busbw", "1GB/s"), "at least 1"),
        (("--hosts", "two"), "--hosts two: a number is expected"),
    ],
)
def test_what_cannot_be_understood(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_missing_file_does_not_hide_the_others(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "nowhere.csv", str(pair)]) == 2
    captured = capsys.readouterr()
    assert "send and receive compete" in captured.out
    assert "nowhere.csv: cannot be read" in captured.err
    assert main(["explain", "nowhere.csv"]) == 2


def test_what_the_doctor_saw(pair: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "host.json"
    report.write_text(json.dumps({"facts": {"acs": {"value": False, "as": "acs=off", "source": "lspci"}}}))
    finding = told(capsys, str(pair), "--doctor", str(report))["one_way_two_way"]
    assert "acs-redirect" in {cause["code"] for cause in finding["ruled_out"]}
    assert "acs-redirect" not in {cause["code"] for cause in finding["causes"]}
    report.write_text("{}")
    assert main(["explain", str(pair), "--doctor", str(report)]) == 2
    assert "not a report of busbw doctor --json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--peak", "0GB/s"], "--peak 0GB/s: a rate is above zero"),
        (["--nic", "0Gb/s"], "--nic 0Gb/s: a rate is above zero"),
        (["--hosts", "0"], "--hosts 0: at least 1"),
        (["--hosts", "2.5"], "--hosts 2.5: a number is expected"),
        (["--algbw", "1GB/s"], "--algbw: a number by hand stands alone"),
        (["--size", "1MiB", "--time", "1ms"], "--size, --time: a number by hand stands alone"),
    ],
)
def test_what_cannot_be_is_refused_beside_a_file(
    pair: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["explain", str(pair), *words]) == 2
    assert said in capsys.readouterr().err


def test_two_numbers_for_one_row_agree_or_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    row = ["explain", "--op", "all_reduce", "-N", "8", "--size", "256MiB", "--algbw", "250GB/s"]
    assert main([*row, "--busbw", "437.5GB/s"]) == 0
    assert "438 GB/s busbw" in capsys.readouterr().out
    assert main([*row, "--busbw", "250GB/s"]) == 2
    assert "--algbw and --busbw contradict each other: 256 MiB take 1.07 ms by one" in capsys.readouterr().err
    assert main([*row, "--time", "1s"]) == 2
    assert "--time and --algbw contradict each other" in capsys.readouterr().err
