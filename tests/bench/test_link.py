from __future__ import annotations

import json
import mmap
import os
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

RANK = """
import mmap, os, sys, time
from busbw.bench.backends.base import Progress
from busbw.bench.link import Link
from busbw.bench.wire import Address

descriptor = os.open(sys.argv[2], os.O_RDWR)
segment = mmap.mmap(descriptor, mmap.PAGESIZE)
link = Link(Address(unix=sys.argv[1]), Progress(), timeout_s=10.0)
link.first_word()
link.start()
time.sleep(30)
"""


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no /dev/shm")
def test_a_rank_whose_supervisor_is_killed_ends_and_leaves_no_shared_memory() -> None:
    name = f"busbw-test-{uuid.uuid4().hex}"
    segment = Path("/dev/shm") / name
    segment.write_bytes(bytes(mmap.PAGESIZE))
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("\0" + name)
            server.listen()
            rank = subprocess.Popen([sys.executable, "-c", RANK, name, str(segment)], env=dict(os.environ))
            line, _ = server.accept()
            line.sendall(json.dumps({"say": "settings"}).encode() + b"\n")
            assert b"beat" in line.recv(1000)
            line.close()
            assert rank.wait(timeout=10) == 3
        assert not segment.exists()
    finally:
        segment.unlink(missing_ok=True)
