"""Without torch's word for it: the bytes that a network interface sent during captured DDP steps, against the bill's.

Each rank has a network namespace of its own, with a veth into a bridge, and reads the kernel's counters of its interface. They
count frames: from their bytes, 66 a packet are taken off (Ethernet 14, IPv4 20, TCP 32 with time stamps), which also takes
off acknowledgements, that hold nothing else. A frame that the kernel has not cut yet (segmentation offload) counts once in both.
gloo's all-reduce is a ring, so N ranks send 2(N-1)/N S each, which is what the bill says.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.traces import read_traces

from .conftest import child_environment

pytest.importorskip("torch", reason="capturing needs torch")

HEADERS = 14 + 20 + 32
WORLD = 3
JOB = Path(__file__).with_name("wire_job.py")


def ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True, timeout=20, check=False)


@pytest.fixture
def hosts() -> Iterator[list[str]]:
    """Namespaces that reach each other through a bridge, 10.87.3.1 and on; skipped where that is not allowed."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    tag = uuid.uuid4().hex[:6]
    switch, names = f"bb{tag}", [f"bb{tag}-{rank}" for rank in range(WORLD)]
    made = ip("netns", "add", names[0])
    if made.returncode:
        pytest.skip(f"no network namespace can be made here: {made.stderr.strip()}")
    try:
        commands = [f"netns add {name}" for name in names[1:]] + [
            f"link add {switch} type bridge",
            f"link set {switch} up",
        ]
        for rank, name in enumerate(names):
            near = f"{switch}{rank}"
            commands += [
                f"link add {near} type veth peer name wire netns {name}",
                f"link set {near} master {switch} up",
                f"-n {name} addr add 10.87.3.{rank + 1}/24 dev wire",
                f"-n {name} link set wire up",
                f"-n {name} link set lo up",
            ]
        for command in commands:
            done = ip(*command.split())
            if done.returncode:
                pytest.skip(f"ip {command}: {done.stderr.strip()}")
        yield names
    finally:
        for name in names:
            ip("netns", "del", name)
        ip("link", "del", switch)


def test_the_interface_sent_what_the_bill_says(hosts: list[str], tmp_path: Path) -> None:
    ranks = [
        subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, "-W", "ignore", str(JOB), str(rank), str(WORLD), "10.87.3.1", "wire", str(tmp_path)],
            env=child_environment(), stderr=subprocess.PIPE, text=True,
        )
        for rank, name in enumerate(hosts)
    ]  # fmt: skip
    try:
        errors = [process.communicate(timeout=120)[1] for process in ranks]
    finally:
        for process in ranks:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    assert [process.returncode for process in ranks] == [0] * WORLD, errors
    for trace in read_traces([tmp_path]):
        counted = json.loads((tmp_path / f"counters-{trace.rank}.json").read_text())
        billed = sum(call.kind.sent_bytes for call in trace.calls)
        assert billed == 10 * 4 * (512 * 512 + 512) * 4 * 4 // 3  # ten steps, four layers, 2 (N - 1) / N = 4/3
        payload = counted["bytes"] - HEADERS * counted["packets"]
        assert payload == pytest.approx(billed, rel=0.05), counted
