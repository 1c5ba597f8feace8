"""Other people's files, with the right values that an independent reader noted down beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from busbw.core.topology import Topology
from busbw.errors import BusbwError, FileError
from busbw.topologies import describe_file, read_topology

LOGS = Path(__file__).resolve().parents[3] / "shared" / "data" / "logs"


def entries(kind: str) -> list[Any]:
    index = LOGS / kind / "index.jsonl"
    if not index.is_file():
        reason = f"the samples do not lie beside this checkout (../shared/data/logs/{kind})"
        return [pytest.param({}, id=kind, marks=pytest.mark.skip(reason=reason))]
    rows = [json.loads(line) for line in index.read_text().splitlines()]
    return [pytest.param({**row, "path": str(LOGS / kind / row["file"])}, id=row["file"]) for row in rows]


def routes_are_sound(machine: Topology) -> None:
    ranks = np.arange(machine.world_size)
    source, target = (axis.reshape(-1) for axis in np.meshgrid(ranks, ranks))
    routes = machine.routes(source, target)
    assert (np.diff(routes.offsets)[source != target] > 0).all()
    assert (machine.capacities()[routes.resources] > 0).all()


def per_gpu(value: Any, found: dict[str, int]) -> Any:
    """The index writes one number where every row has it."""
    return dict.fromkeys(found, value) if isinstance(value, int) else value


@pytest.mark.parametrize("entry", entries("smi-topo"))
def test_matrices_of_smi_tools(entry: dict[str, Any]) -> None:
    values = dict(entry["values"])
    if values.pop("topology", True) is False:
        with pytest.raises(FileError, match="topo") as caught:
            read_topology(entry["path"])
        assert "save" in str(caught.value)
        if "p2p" in values:
            return
    found = describe_file(entry["path"]).to_json()
    if "nic_names" in values:  # the index lists the first three
        values["nic_names"] = values["nic_names"][:3]
        found["nic_names"] = found["nic_names"][:3]
        if values["rows_present"] == "all":
            values["rows_present"] = [f"GPU{gpu}" for gpu in range(values["gpus"])]
        for key in ("nvlink_labels_sum_per_gpu", "links_per_gpu"):
            values[key] = per_gpu(values[key], found[key])
    assert {key: found[key] for key in values} == values
    if entry["values"].get("topology", True):
        machine = read_topology(entry["path"])
        assert machine.world_size == values["gpus"]
        assert {link.basis for link in machine.links()} == {"assumed"}
        routes_are_sound(machine)


@pytest.mark.parametrize("entry", entries("nccl-topo-xml"))
def test_nccls_xml(entry: dict[str, Any]) -> None:
    values = dict(entry["values"])
    assert values.pop("well_formed")
    found = describe_file(entry["path"]).to_json()
    for graph in found.get("graphs", []):
        del graph["orders"]
    assert {key: found[key] for key in values} == values
    if entry["kind"] == "graph":
        with pytest.raises(FileError, match=r"channels .*NCCL_TOPO_DUMP_FILE"):
            read_topology(entry["path"])
        return
    machine = read_topology(entry["path"])
    assert machine.world_size == values["gpu_functions"]
    routes_are_sound(machine)


@pytest.mark.parametrize("entry", entries("nccl-debug-log"))
def test_nccls_logs(entry: dict[str, Any]) -> None:
    values = dict(entry["values"])
    values["transports"] = {name: count for name, count in values["transports"].items() if "NCCL INFO" not in name}
    if entry["file"].startswith("08-"):
        del values["thread_thresholds"]  # the index has none; lines 469 to 481 have them in three parts
    found = describe_file(entry["path"]).to_json()
    assert {key: found[key] for key in values} == values
    if "patterns" in values:
        routes_are_sound(read_topology(entry["path"]))
    else:
        with pytest.raises(FileError, match="NCCL_TOPO_DUMP_FILE"):
            read_topology(entry["path"])


def test_a_ring_that_rccl_cuts_is_completed() -> None:
    path = LOGS / "nccl-debug-log" / "06-mi250-32rank-rccl-tagged.log"
    if not path.is_file():
        pytest.skip("the samples do not lie beside this checkout (../shared/data/logs/nccl-debug-log)")
    found = describe_file(str(path)).to_json()
    assert len(found["ring_00"]) == 20
    assert sorted(found["rings"]["0"]) == list(range(32))
    assert {host: len(ranks) for host, ranks in found["hosts"].items()} == {"host-000000": 16, "host-000001": 16}


@pytest.mark.parametrize("entry", entries("nccl-topo-xml") + entries("smi-topo"))
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_cut_files_are_read_or_refused_in_one_line(entry: dict[str, Any], share: float, tmp_path: Path) -> None:
    data = Path(entry["path"]).read_bytes()
    cut = tmp_path / "cut.txt"
    cut.write_bytes(data[: int(len(data) * share)])
    try:
        routes_are_sound(read_topology(str(cut)))
    except BusbwError as error:
        assert str(error).startswith(str(cut))
        assert "\n" not in str(error)
