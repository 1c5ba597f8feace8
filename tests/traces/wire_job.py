"""One rank in a network namespace: captured DDP steps between two readings of its interface's counters.

Run as `wire_job.py RANK WORLD ADDRESS INTERFACE FOLDER`; writes counters-RANK.json into FOLDER.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import busbw

STEPS = 10


def counters(interface: str) -> tuple[int, int]:
    """Bytes and packets that this interface has sent, as the kernel counts them."""
    folder = Path("/sys/class/net") / interface / "statistics"
    return int((folder / "tx_bytes").read_text()), int((folder / "tx_packets").read_text())


def main() -> None:
    rank, world, address, interface, folder = (
        int(sys.argv[1]),
        int(sys.argv[2]),
        sys.argv[3],
        sys.argv[4],
        Path(sys.argv[5]),
    )
    os.environ["GLOO_SOCKET_IFNAME"] = interface
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://{address}:29400", rank=rank, world_size=world)
    net = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))  # 4 x (512 x 512 + 512) x 4 B = 4.2 MB
    model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(4, 512)).sum().backward()
        optimizer.step()

    for _ in range(3):
        step()
    dist.barrier()
    before = counters(interface)
    with busbw.capture(folder):
        for _ in range(STEPS):
            step()
    after = counters(interface)
    dist.barrier()
    sent = {"bytes": after[0] - before[0], "packets": after[1] - before[1]}
    (folder / f"counters-{rank}.json").write_text(json.dumps(sent))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
