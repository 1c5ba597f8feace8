"""SimGrid as an oracle: its programs are built, a schedule on a machine is handed over, and its time read back.

SimGrid gets the routes (as resources with a capacity each: both directions of a link, the budget of both together), the
latency and the cap of each connection, and the transfers of each round with their slots. It does not get our messages'
dependencies, nor any rate: these are what is compared.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from busbw.core.schedule import NETWORK, Schedule
from busbw.core.topology import Topology
from busbw.sim.patterns import Pattern
from busbw.sim.wires import Wires

HERE = Path(__file__).parent / "simgrid"


def build() -> str:
    """Build what is not built yet; the reason why that can't be done here, "" where it is done."""
    if shutil.which("make") is None or shutil.which("c++") is None:
        return "no C++ compiler and make (Debian: apt install g++ make)"
    found = subprocess.run(
        ["c++", "-std=c++17", "-fsyntax-only", "-x", "c++", "-"],
        input="#include <simgrid/s4u.hpp>",
        capture_output=True,
        text=True,
    )
    if found.returncode:
        return "SimGrid's library is not installed (Debian: apt install libsimgrid-dev)"
    made = subprocess.run(["make", "-C", str(HERE)], capture_output=True, text=True)
    return f"its programs could not be built: {made.stderr.strip()}" if made.returncode else ""


def replay(
    schedule: Schedule, machine: Topology, size_bytes: int, *, barrier: bool = False, latency_in_links: bool = False
) -> tuple[float, float]:
    """(simulated seconds without launch, seconds that SimGrid's simulation took)."""
    text = describe(schedule, machine, size_bytes, barrier=barrier, latency_in_links=latency_in_links)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "case")
        Path(path).write_text(text)
        done = subprocess.run([str(HERE / "build" / "replay"), path], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"replay: {done.stderr.strip()[-600:]}")
    simulated, took = map(float, done.stdout.split())
    return simulated, took


def ring(ranks: int, size_bytes: int, bandwidth: float, latency_s: float) -> float:
    """SimGrid's time of a ring all-reduce on one switch, by a program of its own."""
    command = [str(HERE / "build" / "ring"), str(ranks), str(size_bytes), repr(bandwidth), repr(latency_s)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def describe(
    schedule: Schedule, machine: Topology, size_bytes: int, *, barrier: bool = False, latency_in_links: bool = False
) -> str:
    """What `replay` reads."""
    wires = Wires(machine)
    parts = schedule.parts or ((1.0, schedule),)
    connections: dict[tuple[int, int, bool], int] = {}
    messages: list[tuple[int, int, str]] = []
    for channel, (share, part) in enumerate(parts):
        chunk = share * size_bytes / part.chunks
        for number, one in enumerate(part.rounds()):
            if (one.source == one.target).any() or (one.source == NETWORK).any() or (one.target == NETWORK).any():
                raise ValueError(f"{part.algorithm}: copies within a rank and switches that reduce are not replayed")
            by_pair: dict[tuple[int, int], list[int]] = {}
            for transfer, pair in enumerate(zip(one.source.tolist(), one.target.tolist(), strict=True)):
                by_pair.setdefault(pair, []).append(transfer)
            for (source, target), transfers in by_pair.items():
                sent = chunk * int(one.length[transfers].sum())
                added = chunk * int(one.length[transfers][one.reduces[transfers]].sum())
                key = (source, target, added > 0)
                connection = connections.setdefault(key, len(connections))
                runs = " ".join(
                    f"{one.source_slot[k]} {one.target_slot[k]} {one.length[k]} {int(one.reduces[k])}"
                    for k in transfers
                )
                loads = sent + machine.costs.half_rate_bytes
                messages.append(
                    (
                        channel,
                        number,
                        f"{channel} {number} {connection} {loads!r} {added!r} {len(transfers)} {runs}",
                    )
                )
    return "\n".join(
        [
            f"{'barrier' if barrier else 'dependencies'} {'links' if latency_in_links else 'program'}",
            repr(machine.costs.reduce_s_per_byte),
            *_platform(wires, machine, list(connections)),
            str(len(parts)),
            " ".join(str(part.slot_count) for _, part in parts),
            str(len(messages)),
            *(text for _, _, text in sorted(messages, key=lambda each: each[:2])),
            "",
        ]
    )


def _platform(wires: Wires, machine: Topology, connections: list[tuple[int, int, bool]]) -> list[str]:
    source, target = (np.array([key[side] for key in connections], np.int64) for side in (0, 1))
    adds = np.array([key[2] for key in connections], np.bool_)
    found = wires.capped(Pattern(source, target, np.zeros(len(source)), adds, 1, ""))
    used, local = np.unique(found.resources, return_inverse=True)
    lines = [str(len(used)), " ".join(repr(float(rate)) for rate in wires.capacities[used])]
    lines += [str(machine.world_size), str(len(connections))]
    for i in range(len(connections)):
        way = local[found.offsets[i] : found.offsets[i + 1]].tolist()
        cap = float(found.cap_Bps[i])
        hops = " ".join(map(str, way))
        lines.append(
            f"{source[i]} {target[i]} {float(found.latency_s[i])!r} {cap if np.isfinite(cap) else -1.0!r} {len(way)} {hops}"
        )
    return lines
