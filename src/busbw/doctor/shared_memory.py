"""Is /dev/shm large enough for NCCL, and free of what dead jobs left?"""

from __future__ import annotations

import re

from busbw.core.finding import Cause, Finding, Number
from busbw.doctor._probe import Probe, Seen
from busbw.host.files import Host
from busbw.units import format_size

NAME = "shared_memory"
SOURCE = "/dev/shm"
ENOUGH_BYTES = 512 * 2**20
"""Docker's default is 64 MiB; NVIDIA asks for 1 GiB."""


def look(host: Host) -> Seen:
    """Size and free space, and files that NCCL makes there."""
    space = host.space("/dev/shm")
    total, free = space if space is not None else (_mounted(host), None)
    if not total:
        return Seen(nothing="/dev/shm is not mounted here")
    left = [name for name in host.names("/dev/shm") if name.startswith("nccl-")]
    numbers = [Number("size", total, "B", SOURCE)]
    numbers += [Number("free", free, "B", SOURCE)] if free is not None else []
    numbers += [Number("nccl-* files", len(left), "", SOURCE)] if left else []
    room = total if free is None else free
    if room < ENOUGH_BYTES:
        text = f"/dev/shm has {format_size(room)} {'free of ' + format_size(total) if free is not None else 'in all'}"
        found = Finding(
            NAME,
            f"{text}: NCCL's segments, and those of data loaders, may not fit (a bus error, or 'unable to create shared memory')",
            "fails",
            "problem",
            tuple(numbers),
            (Cause("small-shm", "a container's default, or files that dead jobs left"),),
            advice=(f"Remove the {len(left)} nccl-* files if no job runs. " if left else "")
            + "docker run --shm-size=1g (or --ipc=host); in Kubernetes an emptyDir with medium: Memory on /dev/shm",
            weight=0.3,
            headline="/dev/shm is small",
        )
        return Seen((found,))
    text = f"/dev/shm has {format_size(total)}{f', {format_size(free)} of it free' if free is not None else ''}"
    text += f"; {len(left)} nccl-* files lie there, left by dead jobs if none runs now" if left else ""
    return Seen((Finding(NAME, text, "holds", "fact", tuple(numbers)),))


def _mounted(host: Host) -> int:
    """The size in /proc/mounts; half of the memory where it names none, as tmpfs does."""
    sizes = 0
    for line in host.text("/proc/mounts").splitlines():
        words = line.split()
        if len(words) > 3 and words[1] == "/dev/shm":
            size = re.search(r"\bsize=(\d+)k", words[3])
            memory = re.search(r"^MemTotal:\s+(\d+) kB", host.text("/proc/meminfo"), re.MULTILINE)
            sizes = int(size[1]) * 1024 if size else int(memory[1]) * 512 if memory else 0
    return sizes


PROBE = Probe(NAME, "Is /dev/shm large enough for NCCL?", "/dev/shm, /proc/mounts", look)
