"""Our own TOML: what it says, that it reads back as written, and what is wrong with bad ones."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from busbw.core.topology import Costs, PathPolicy, Topology
from busbw.errors import BusbwError, FileError
from busbw.topologies import read_topology
from busbw.topologies.writing import to_toml, write_topology

TWO = """busbw_topology = 1
name = "two"
ranks = ["gpu1", "gpu0"]
devices = [
  {name = "gpu0", kind = "gpu", host = "host0"},
  {name = "gpu1", kind = "gpu", host = "host0", details = {model = "H100"}},
]
links = [
  {between = ["gpu0", "gpu1"], kind = "nvlink", forward = "50 GB/s", backward = 40e9, both_ways = "60 GB/s", latency = "1 us", basis = "measured"},
]
[paths.nvlink]
cap = "43 GB/s"
latency = "2 us"
[costs]
launch = "8 us"
reduce_s_per_byte = 1e-12
"""


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return tmp_path / "machine.toml"


def test_what_it_says(saved: Path) -> None:
    saved.write_text(TWO)
    machine = read_topology(str(saved))
    assert machine.ranks.tolist() == [1, 0]
    link = machine.link(0)
    assert (link.forward_Bps, link.backward_Bps, link.duplex_Bps, link.latency_s) == (50e9, 40e9, 60e9, 1e-6)
    assert link.basis == "measured"
    assert machine.device(1).details == {"model": "H100"}
    assert machine.policy("nvlink") == PathPolicy("direct", 43e9, 2e-6, "assumed")
    assert machine.costs == Costs(launch_s=8e-6, reduce_s_per_byte=1e-12)
    flow = machine.routes([0], [1])  # rank 0 is gpu1: against the link's direction
    assert flow.of(0).tolist() == [1, 2]
    assert flow.latency_s.tolist() == [3e-6]
    assert flow.cap_Bps.tolist() == [43e9]


def same(one: Topology, other: Topology) -> None:
    for field in dataclasses.fields(Topology):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == theirs.dtype, field.name
            assert np.array_equal(mine, theirs), field.name
        elif field.name in ("names", "hosts"):
            assert list(mine) == list(theirs)
        elif field.name == "details":
            assert dict(mine) == dict(theirs)
        elif field.name != "router":
            assert mine == theirs, field.name


def test_reads_back_to_the_last_bit(saved: Path) -> None:
    saved.write_text(TWO)
    first = read_topology(str(saved))
    odd = first.changed(
        forward_Bps=np.array([math.pi * 1e10]),
        duplex_Bps=np.array([1e-7]),
        latency_s=np.array([1.1e-200]),
        costs=Costs(message_s=math.e * 1e-6, half_rate_bytes=12345.678),
        name='with "quotes", \\ and \x7f',
        notes=("a\nline", "µ"),
    )
    for machine in (first, odd):
        write_topology(machine, str(saved))
        same(read_topology(str(saved)), machine)


@pytest.mark.parametrize("spec", ["pcie-8gpu", "switch(gpus=5, kind=nvlink, reduces=on)", "workstation(gpus=4)"])
def test_presets_read_back(spec: str, saved: Path) -> None:
    machine = read_topology(spec)
    write_topology(machine, str(saved))
    same(read_topology(str(saved)), machine)


def test_a_large_machine_is_written_as_its_expression(saved: Path) -> None:
    machine = read_topology("switch(gpus=30000)").changed(costs=Costs(launch_s=1e-6))
    write_topology(machine, str(saved))
    assert saved.stat().st_size < 1000
    same(read_topology(str(saved)), machine)
    changed = machine.changed(forward_Bps=machine.forward_Bps * 2)
    with pytest.raises(BusbwError, match="too many for a TOML file"):
        to_toml(changed)


def test_a_preset_with_other_paths(saved: Path) -> None:
    saved.write_text(
        'busbw_topology = 1\nmachine = "switch(gpus=4)"\nranks = ["gpu2", "gpu0"]\n[paths.network]\ncap = 1e9\n'
    )
    machine = read_topology(str(saved))
    assert machine.ranks.tolist() == [2, 0]
    assert machine.policy("network").cap_Bps == 1e9


def changed(old: str, new: str) -> str:
    assert old in TWO
    return TWO.replace(old, new)


LINK = TWO.splitlines()[8]
BAD = [
    (changed('name = "two"', 'nmae = "two"'), r":2: the file: unknown key 'nmae'.*did you mean name"),
    (changed("basis =", "base ="), r":9: links\[0\] \(?.*unknown key 'base'|:9: links\[0\]: unknown key 'base'"),
    (changed("[paths.nvlink]", "[paths.nvlnk]"), r"paths.nvlnk: choose from .*did you mean nvlink"),
    (changed('cap = "43 GB/s"', 'cap = "0 GB/s"'), r"paths.nvlink: cap = '0 GB/s': a bandwidth must be above 0"),
    (changed('"50 GB/s"', '"-50 GB/s"'), r"links\[0\] \(gpu0 - gpu1\): forward = '-50 GB/s': .*above 0"),
    (changed('"50 GB/s"', "nan"), r"forward = nan: a bandwidth must be above 0"),
    (changed('"50 GB/s"', '"50 GBs"'), r"unknown unit 'GBs'"),
    (changed("40e9", "0"), r"backward = 0: a bandwidth must be above 0"),
    (changed('latency = "1 us"', "latency = -1"), r"latency = -1: a time must be 0 or more"),
    (changed('"nvlink", forward', '"wire", forward'), r"is a 'wire'"),
    (changed('"gpu0", "gpu1"]', '"gpu0", "gpu7"]'), r"ends at 'gpu7', which is no device"),
    (changed('"gpu0", "gpu1"]', '"gpu0", "gpu0"]'), r"ends where it begins"),
    (changed('["gpu1", "gpu0"]', '["gpu1", "gpu1"]'), r"the GPU 'gpu1' has two ranks"),
    (changed('["gpu1", "gpu0"]', '["gpu1", "cpu"]'), r"'cpu', which is no GPU"),
    (changed('{name = "gpu1"', '{name = "gpu0"'), r"the device 'gpu0' is there twice"),
    (changed(LINK + "\n", LINK + "\n" + LINK + "\n"), r"links\[1\]: a second nvlink between gpu0 and gpu1"),
    (changed(LINK + "\n", ""), r"no links lead from 'gpu1' \(rank 0\) to 'gpu0' \(rank 1\)"),
    (changed("busbw_topology = 1", "busbw_topology = 2"), r":1: busbw_topology = 2: this program reads version 1"),
    (changed("launch =", "lunch ="), r":15: costs: unknown key 'lunch'.*did you mean launch"),
    (changed("1e-12", "-1"), r"toml: costs: reduce_s_per_byte must be a number of 0 or more"),
    (changed("1e-12", "true"), r"must be a number"),
    (changed("[costs]", "[costs"), r"not valid TOML: .*line 14"),
    ("busbw_topology = 1\nname = 'x'\n", r"has no GPU"),
    ('busbw_topology = 1\nmachine = "switc"\n', r"unknown topology 'switc'.*did you mean switch"),
    ('busbw_topology = 1\nmachine = "switch"\ndevices = []\n', r":3: machine = ... brings its own devices"),
    ('busbw_topology = 1\nmachine = "switch"\nranks = ["gpu9"]\n', r":3: ranks: 'gpu9' is no GPU of switch"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[str(i) for i in range(len(BAD))])
def test_bad_files_get_one_clear_line(text: str, message: str, saved: Path) -> None:
    saved.write_text(text)
    with pytest.raises(FileError, match=message) as caught:
        read_topology(str(saved))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(saved))


def test_version_1_keeps_loading(golden: Path) -> None:
    machine = read_topology(str(golden / "topologies" / "machine_1.toml"))
    assert [machine.names[int(rank)] for rank in machine.ranks] == ["gpu1", "gpu0"]
    assert machine.forward_Bps.tolist() == [450e9, 440e9, 50e9]
    assert machine.backward_Bps.tolist() == [450e9, 430e9, 50e9]
    assert machine.duplex_Bps.tolist() == [math.inf, 800e9, math.inf]
    assert machine.latency_s.tolist() == [0.25e-6, 0.0, 0.0]
    assert [link.basis for link in machine.links()] == ["nominal", "measured", "assumed"]
    assert machine.policy("nvlink") == PathPolicy("direct", 200e9, 2e-6, "measured")
    assert machine.costs == Costs(8e-6, 5e-7, 1e-12, 65536.0, "measured")
    assert machine.device(2).reduces
    routes = machine.routes([0], [1])
    assert routes.of(0).tolist() == [2, 1, 7]  # gpu1 -> sw, sw -> gpu0, gpu1 <-> sw
    assert routes.latency_s[0] == pytest.approx(2.25e-6)


def test_a_link_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TWO.replace('forward = "50 GB/s"', "forward = inf"))
    with pytest.raises(
        FileError, match=r"two.toml:\d+: links\[0\].*forward = inf: a link's bandwidth must be a number"
    ):
        read_topology(str(path))
    machine = read_topology("switch(gpus=2)")
    with pytest.raises(BusbwError, match="gpu0 - switch: its bandwidth a -> b is endless"):
        machine.changed(forward_Bps=np.full(machine.link_count, np.inf))
