"""Rows against a description of the machine: the limit of each, those below it, and a description that is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.cli import main
from busbw.core.finding import Finding
from busbw.core.measurement import Measurement, Results, Run
from busbw.core.topology import Topology
from busbw.findings import explain
from busbw.formats import post_csv
from busbw.sim import default_algorithm, simulate
from busbw.topologies import read_topology


@pytest.fixture(scope="module")
def machine() -> Topology:
    return read_topology("switch(gpus=8, bandwidth=20GB/s, latency=3us, kind=pcie)")


def rows(machine: Topology, slower: dict[str, float]) -> list[Measurement]:
    """What the machine does, where some operations take longer."""
    found = []
    for op in ("all_reduce", "all_gather", "scatter"):
        for each in simulate(default_algorithm(op, 8), machine, [4**k for k in range(8, 16)], op):
            found.append(Measurement(each.call, each.time_s * slower.get(op, 1.0)))
    return found


def told(machine: Topology, slower: dict[str, float]) -> Finding:
    results = Results(Run(), tuple(rows(machine, slower)))
    (finding,) = (each for each in explain(results, machine=machine) if each.law == "machine_limit")
    return finding


def test_rows_at_the_machines_limits_hold_and_the_limits_are_named(machine: Topology) -> None:
    finding = told(machine, {})
    assert (finding.verdict, finding.severity) == ("holds", "fact")
    assert "At gpu0 -> switch: all_reduce N=8, all_gather N=8, scatter N=8" in finding.statement
    assert [number.value for number in finding.numbers] == pytest.approx([0, 0, 0], abs=1e-6)


def test_a_plateau_below_is_a_problem(machine: Topology) -> None:
    finding = told(machine, {"all_reduce": 1.25})
    assert (finding.verdict, finding.severity) == ("fails", "problem")
    assert finding.headline == "all_reduce N=8 is 20 % below what the machine can do"
    assert "allows 25 % more" in finding.statement


def test_a_plateau_above_puts_the_description_in_doubt(machine: Topology) -> None:
    finding = told(machine, {"scatter": 0.5})
    assert finding.verdict == "cannot_tell"
    assert "scatter N=8 is 100 % above it" in finding.statement


def test_a_machine_that_is_too_small_says_so(machine: Topology) -> None:
    results = Results(Run(), tuple(rows(machine, {})))
    found = {each.law: each for each in explain(results, machine=read_topology("switch(gpus=4)"))}
    assert found["machine_limit"].verdict == "cannot_tell"
    assert "has 4 GPUs; 8 ranks do not fit" in found["machine_limit"].statement
    assert "machine_limit" not in {each.law for each in explain(results)}


def test_the_command_takes_a_machine(machine: Topology, tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{tmp_path}/rows.csv"
    with open(path, "w") as out:
        out.write(post_csv.write([replace(row) for row in rows(machine, {"all_gather": 1.5})]))
    assert main(["explain", path, "--machine-file", machine.name]) == 0
    assert "below what" in capsys.readouterr().out
    assert main(["explain", path, "--machine-file", "nowhere.toml"]) == 2
    assert "nowhere.toml" in capsys.readouterr().err
