"""How long large machines take to be made and routed, and what they weigh: each in a process of its own.

python benchmarks/topologies/large.py
"""

from __future__ import annotations

import json
import subprocess
import sys

SPECS = (
    "switch(gpus=131072)",
    "fat-tree(hosts=131072, levels=3)",
    "cluster(hosts=16384, levels=3)",
    "rail(hosts=16384, levels=3)",
    "torus(shape=64x64x32)",
    "dragonfly(groups=512, switches=16, gpus=16, global_links=32)",
)

ONE = """
import json, resource, sys, time
start = time.perf_counter()
import numpy as np
from busbw.topologies import read_topology
imported = time.perf_counter()
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
machine = read_topology(sys.argv[1])
made = time.perf_counter()
ranks = np.arange(machine.world_size)
machine.routes(ranks, np.roll(ranks, -1))
ring = time.perf_counter()
machine.routes(ranks, ranks ^ 1024)
far = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([machine.world_size, machine.link_count, imported - start, made - imported, ring - made, far - ring, (peak - base) / 1024]))
"""


def main() -> None:
    print(f"{'machine':<62} {'ranks':>7} {'links':>7} {'import':>7} {'make':>7} {'ring':>7} {'xor':>7}  more memory")
    for spec in SPECS:
        done = subprocess.run([sys.executable, "-c", ONE, spec], capture_output=True, text=True, check=True)
        ranks, links, *times, memory = json.loads(done.stdout)
        seconds = " ".join(f"{time:>6.3f}s" for time in times)
        print(f"{spec:<62} {ranks:>7} {links:>7} {seconds}  {memory:.0f} MiB")


if __name__ == "__main__":
    main()
