"""Facts that NCCL's own lines and nvidia-smi's matrix tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.findings import facts_of_log
from busbw.findings import facts_of_topology as facts_of_matrix

INFO = "h0:1:2 [0] NCCL INFO "


def log(*lines: str) -> str:
    return "\n".join(INFO + line for line in lines)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        (log("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA"), "gdr", True),
        (log("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0"), "gdr", False),
        (
            log(
                "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0",
                "Channel 00 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
            ),
            "gdr",
            None,
        ),
        (log("GPU Direct RDMA Disabled for GPU 1000 / HCA 0 (distance 7 > 5)"), "gdr", False),
        (log("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC"), "p2p", True),
        (log("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct"), "p2p", False),
        (log("comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8"), "hosts", 2.0),
        (log("AllReduce: 8388608 Bytes -> Algo 1 proto 2 time 61.5"), "algorithm", "Ring"),
        (log("AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}"), "protocol", "Simple"),
        (log("NCCL_PROTO set by environment to LL128"), "forced_protocol", "LL128"),
        (log("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:1.2.3.4<0>", "nNodes 2"), "nics", 2.0),
        (log("Using network Socket", "Channel 0 : 0 -> 1 [send] via NET/Socket/0"), "network", "sockets"),
        (log("NVLS multicast support is not available on dev 0"), "nvls", False),
        (log("NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)"), "nvls", None),
        ("NCCL version 2.27.5+cuda12.9", "nccl_version", "2.27.5+cuda12.9"),
        ("nothing of NCCL's", "gdr", None),
    ],
)
def test_lines(text: str, name: str, value: object) -> None:
    fact = facts_of_log(text, "x.log").known.get(name)
    assert (None if fact is None else fact.value) == value


def test_a_variable_that_one_host_has_not_got() -> None:
    done = [f"{host}:1:2 [0] NCCL INFO Connected all rings" for host in ("h0", "h1")]
    line = "NCCL INFO NCCL_NET_GDR_LEVEL set by environment to SYS"
    alone = facts_of_log("\n".join([f"h0:1:2 [0] {line}", *done]), "x.log")
    assert alone.flag("same_environment") is False
    assert alone.source("same_environment").endswith("set on 1 of 2 hosts")
    assert (
        facts_of_log("\n".join([f"h0:1:2 [0] {line}", f"h1:1:2 [0] {line}", *done]), "x.log").flag("same_environment")
        is True
    )


PAIRS = """\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity
GPU0\t X \tPIX\tSYS\tSYS\tPIX\t0-31
GPU1\tPIX\t X \tSYS\tSYS\tPIX\t0-31
GPU2\tSYS\tSYS\t X \tPIX\tSYS\t32-63
GPU3\tSYS\tSYS\tPIX\t X \tSYS\t32-63
NIC0\tPIX\tPIX\tSYS\tSYS\t X
"""


def test_a_matrix_of_pairs() -> None:
    facts = facts_of_matrix(PAIRS, "topo.txt")
    assert facts.flag("pairs") is True
    assert facts.flag("pcie_switch") is True
    assert facts.text("link") == "pcie"
    assert facts.flag("near_nics") is False
    assert facts.text("gdr_distance") == "SYS"
    assert facts.number("sockets") is None


def test_a_matrix_without_a_switch() -> None:
    facts = facts_of_matrix("\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n", "topo.txt")
    assert facts.flag("pcie_switch") is False
    assert facts.number("sockets") == 1


XML = """<system version="1"><cpu numaid="0"><pci busid="0000:01:00.0"><gpu dev="0" sm="80"><nvlink target="0000:05:00.0" count="12"/></gpu>
<nic><net name="mlx5_0" dev="0" speed="200000" port="1"/></nic></pci><pci busid="0000:02:00.0"><gpu dev="1" sm="80"/>
<nic><net name="mlx5_1" dev="1" speed="200000" port="1"/></nic></pci></cpu></system>"""


def test_nccls_own_topology() -> None:
    facts = facts_of_matrix(XML, "topo.xml")
    assert facts.number("gpus_per_host") == 2
    assert facts.text("link") == "nvlink"
    assert facts.number("nics") == 2
    assert facts.number("nic_rate") == 25e9


SAMPLES = {
    "01-h100-2gpu-ring-forced.log": {
        "hosts": 1.0,
        "p2p": True,
        "channels": 24.0,
        "algorithm": "Ring",
        "protocol": "Simple",
        "gdr": None,
    },
    "08-efa-16rank-old-2.9-tagged.log": {
        "hosts": 2.0,
        "gdr": True,
        "p2p": True,
        "network": "efa",
        "gpus_per_host": 8.0,
    },
    "09-infiniband-2node-gdr-on.txt": {
        "hosts": 2.0,
        "gdr": True,
        "network": "infiniband",
        "nics": 1.0,
        "nic_rate": 25e9,
        "gdr_distance": "SYS",
    },
    "11-one-node-local.txt": {"hosts": 1.0, "gdr": None, "p2p": True},
    "14-old-ring-lines-16rank.log": {"gdr": False, "p2p": True},
}


@pytest.mark.parametrize("name", SAMPLES)
def test_real_logs(name: str, root: Path) -> None:
    path = root.parent / "shared" / "data" / "logs" / "nccl-debug-log" / name
    if not path.is_file():
        pytest.skip("the samples do not lie beside this checkout")
    known = facts_of_log(path.read_text(errors="replace"), name).known
    found = {key: known[key].value if key in known else None for key in SAMPLES[name]}
    assert found == SAMPLES[name]
