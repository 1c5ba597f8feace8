from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.cli import main
from busbw.formats import post_csv
from busbw.sim import default_algorithm, simulate
from busbw.topologies import read_topology


@pytest.fixture
def results(tmp_path: Path) -> str:
    """A host of 4 GPUs with ports of 20 GB/s each way, 8 us a call and 3 us a message."""
    machine = read_topology("switch(gpus=4, bandwidth=20GB/s, latency=3us, kind=pcie)")
    machine = machine.changed(costs=replace(machine.costs, launch_s=8e-6))
    rows = []
    for n in (2, 4):
        for op in ("all_reduce", "all_gather", "scatter"):
            found = simulate(default_algorithm(op, n), machine, [4**k for k in range(6, 15)], op, world_size=n)
            rows += [each.measurement for each in found]
    path = tmp_path / "results.csv"
    path.write_text(post_csv.write(rows))
    return str(path)


def test_a_machine_is_found_and_written(results: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "machine.toml"
    shape = "switch(gpus=4, bandwidth=99GB/s, kind=pcie)"
    assert main(["calibrate", shape, results, "-o", str(out), "-v"]) == 0
    told = capsys.readouterr().out
    assert "# best: full-duplex-ports" in told
    assert "#   gpu -> pcie_switch: 20 GB/s (" in told
    assert "#   launch, a call: 8" in told
    assert "#   a message: 3" in told
    (line,) = (line for line in told.splitlines() if line.startswith("    half-duplex-ports"))
    assert "refuted" in line
    machine = read_topology(str(out))
    assert machine.costs.launch_s == pytest.approx(8e-6, rel=0.02)
    assert set(machine.link_basis.tolist()) == {2}  # measured
    assert main(["simulate", "--topology", str(out), "--sizes", "1GiB", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["busbw_GBps"] == pytest.approx(20, rel=0.02)


def test_what_cannot_be_done_is_one_line(results: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "there.toml"
    out.write_text("")
    for words, says in (
        (["switch(gpus=4)", results, "-o", str(out)], f"-o {out} exists: add --overwrite, or name another file"),
        (["switch(gpus=4)", results, "--rivals", "magic"], "unknown description 'magic'"),
        (["switch(gpus=1)", results], "0 rows can be used, and 8 are needed"),
        (["nowhere.toml", results], "nowhere.toml"),
    ):
        assert main(["calibrate", *words]) == 2
        err = capsys.readouterr().err
        assert says in err
        assert err.count("\n") == 1


def test_rivals_that_name_nothing(results: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "switch(gpus=4, kind=pcie)", results, "--rivals", ","]) == 2
    assert "no description of switch(gpus=4, kind=pcie) is named: choose from" in capsys.readouterr().err
