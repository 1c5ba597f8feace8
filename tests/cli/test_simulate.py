from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from busbw.cli import main

SWITCH = "switch(gpus=512, bandwidth=50GiB/s, latency=0.5us)"


def words(*more: str) -> list[str]:
    return ["simulate", "--topology", SWITCH, *more]


def test_a_ring_of_512_is_one_row_of_3006_us(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words("--op", "all_reduce", "--algorithm", "ring", "--sizes", "64MiB", "--json")) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["time_s"] * 1e6 == pytest.approx(3006.1, abs=0.05)
    assert (row["collective"], row["size_bytes"], row["world_size"]) == ("all_reduce", 2**26, 512)
    assert row["origin"] == "simulated"
    assert row["labels"] == {
        "algorithm": "ring",
        "topology": SWITCH,
        "rung": "pattern",
        "binding": "gpu0 -> switch",
    }


def test_the_table_says_what_binds_and_what_would_change_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--topology", "pcie-8gpu", "-b", "64M", "-e", "256M", "-f", "4"]) == 0
    out = capsys.readouterr().out
    assert "# pcie-8gpu: ring, predicted (rung: pattern)" in out
    assert "# At 256 MiB: launch 6.60 us, latency 14.0 us, wires" in out
    assert "# Bound by switch0 -> cpu0 (63.0 GB/s), and 7 more that are as full" in out
    assert "#   flows on it: 0 -> 1, 1 -> 2" in out
    gains = [line for line in out.splitlines() if "with P2P everywhere, by the direct way: +100%" in line]
    assert len(gains) == 1  # a pair's two flows no longer meet on its uplink: twice as fast


def test_all_ranks_the_algorithms_and_draws_their_crossovers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = "switch(gpus=8, bandwidth=10GB/s, latency=10us)"
    options = ["--algorithm", "ring,recursive_doubling", "-b", "1K", "-e", "16M", "-f", "16", "-o", str(tmp_path)]
    assert main(["simulate", "--topology", machine, *options]) == 0
    out = capsys.readouterr().out
    # 3 (S/B + a) against 14 (S/(8 B) + a): S = 11 a B / 1.25 = 880 kB
    (line,) = (line for line in out.splitlines() if "instead of" in line)
    size = re.fullmatch(r"#   from about ([\d.]+) KiB: ring instead of recursive_doubling", line)
    assert size is not None
    assert float(size[1]) * 1024 == pytest.approx(880_000, rel=0.02)
    assert (tmp_path / "algorithms.svg").read_text().count("recursive_doubling") >= 1
    assert (tmp_path / "algorithms.dark.png").exists()


def test_a_trace_has_every_message(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    assert main(["simulate", "--topology", "switch(gpus=4)", "--sizes", "1MiB", "--trace", str(path)]) == 0
    events = json.loads(path.read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == 4 * 6
    assert {event["name"] for event in slices} >= {"reduce-scatter 0", "all-gather 2"}
    assert sum(event["dur"] for event in slices if event["pid"] == 2) == pytest.approx(6 * 2**18 / 50e9 * 1e6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--sizes", "64MiB", "--world", "600"], "has 512 GPUs; 600 ranks do not fit"),
        (["--algorithm", "rings"], "unknown algorithm 'rings': choose from"),
        (["--op", "all_to_all", "--algorithm", "ring"], "algorithm ring has no all_to_all"),
        (["--reduce-rate", "0GB/s"], "--reduce-rate 0GB/s: must be above 0"),
        (["--trace", "/nowhere/at/all.json", "--sizes", "1K"], "/nowhere/at/all.json: cannot be written"),
        (["--pieces", "0"], "pieces 0: must be at least 1"),
    ],
)
def test_what_cannot_be_done_is_one_line(options: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(*options)) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_nccls_opinion_is_labelled_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--topology", "pcie-8gpu", "--model", "nccl", "--sizes", "8,256MiB", "--json"]) == 0
    small, large = json.loads(capsys.readouterr().out)
    assert small["labels"]["protocol"] == "LL"
    assert large["labels"]["protocol"] == "Simple"
    assert all(row["marks"][0]["code"] == "nccl_opinion" for row in (small, large))


@pytest.mark.parametrize("model", ["flows", "nccl"])
def test_no_ranks_are_not_all_of_them(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words("-N", "0", "--sizes", "1MiB", "--model", model)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"busbw simulate: {SWITCH} has 512 GPUs; 0 ranks do not fit on it\n"


def test_a_numba_that_does_not_load_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    from busbw.sim.compiled import compiled

    monkeypatch.setattr("busbw.sim.compiled.has_numba", lambda: True)
    monkeypatch.setitem(sys.modules, "numba", None)  # importing it raises ImportError
    assert compiled(lambda a: 2 * a)(21) == 42
