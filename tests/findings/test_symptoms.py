"""What people say, in words that no test of ours was written from."""

from __future__ import annotations

import pytest

from busbw.core.finding import Facts
from busbw.findings import describe, explain
from busbw.findings._symptoms import says


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (
            "NCCL gets stuck in the first all_reduce on a dual A6000 box, NCCL_P2P_DISABLE=1 helps",
            ("hangs", "works-without-p2p"),
        ),
        ("job hung for an hour, then the watchdog timed out", ("hangs",)),
        (
            "ncclUnhandledSystemError: unhandled system error; disappears without GPUDirect",
            ("network-error", "works-without-gdr"),
        ),
        ("there is a dip around 512 KB", ("kink",)),
        ("bandwidth decreases above 2GB", ("drop-at-large",)),
        ("throughput is much lower beyond 256 MiB", ("drop-at-large",)),
        ("intermediate sizes get worse as I add hosts", ("middle-sizes-fall",)),
        ("inter-node speed depends on which GPUs I select", ("subsets-differ",)),
        ("only 12 GB/s between my nodes", ("low",)),
        ("the result is incorrect for bf16", ("wrong-values",)),
        ("Tree is much faster than Ring here", ("tree-against-ring",)),
        ("CUDA error: invalid device function, kernel launch failed", ("launch-failure",)),
    ],
)
def test_words_are_recognised(text: str, codes: tuple[str, ...]) -> None:
    facts = Facts(symptoms=(text,))
    assert [code for code in codes if says(facts, code)] == list(codes)


@pytest.mark.parametrize(
    "text", ["all_reduce is fine", "we run nightly benchmarks on 64 GPUs", "the curve looks smooth"]
)
def test_harmless_words_are_no_symptom(text: str) -> None:
    assert not says(
        Facts(symptoms=(text,)),
        "hangs",
        "network-error",
        "kink",
        "drop-at-large",
        "wrong-values",
        "subsets-differ",
        "launch-failure",
    )
    assert not [finding for finding in explain((), Facts(symptoms=(text,))) if finding.severity in ("wrong", "problem")]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("4 x 8 H200, InfiniBand", {"network": "infiniband", "gpu": "H200", "hosts": 4.0, "gpus_per_host": 8.0}),
        (
            "2x 8 A100, RoCE, one of four 200 Gb/s NICs used",
            {"hosts": 2.0, "nics": 1.0, "nic_rate": 25e9, "network": "roce"},
        ),
        ("8x RTX 4090 under two PCIe switches", {"pcie_switch": True, "link": "pcie", "gpu": "RTX 4090"}),
        ("dual RTX 5090, no PCIe switch", {"pcie_switch": False, "link": "pcie"}),
        ("DGX A100 with 8x 200 Gb/s NICs", {"nics": 8.0, "nic_rate": 25e9, "link": "nvlink"}),
        ("four nodes over TCP", {"hosts": 4.0, "network": "sockets"}),
        ("NCCL_PROTO=LL128", {"forced_protocol": "LL128"}),
        ("bandwidth drops above 6.3 GB", {"drop_at": 6.3e9}),
    ],
)
def test_descriptions_become_facts(text: str, facts: dict[str, object]) -> None:
    known = describe(text, "said").known
    assert {name: known[name].value for name in facts if name in known} == facts


def test_what_is_not_said_stays_unknown() -> None:
    assert describe("some GPUs in a box", "said").known == {}
