"""What the kernel tells and does about processes on this host: parents, policies, shared memory, ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path

from busbw.errors import LaunchError

_PR_SET_PDEATHSIG = 1
_SHARED_MEMORY = Path("/dev/shm")


def die_with_parent() -> None:
    """Ask the kernel to end this process when its parent ends, so that none is left behind."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def set_policy(sched: str) -> None:
    """Set this process's scheduling policy; threads that are made later inherit it.

    batch may be set by any user; fifo needs the right to (root, CAP_SYS_NICE or an rtprio limit).
    """
    if sched == "default":
        return
    policy, priority = (os.SCHED_BATCH, 0) if sched == "batch" else (os.SCHED_FIFO, 1)
    try:
        os.sched_setscheduler(0, policy, os.sched_param(priority))
    except PermissionError as error:
        raise LaunchError(
            f"--sched {sched}: this user may not set it (root, CAP_SYS_NICE or an rtprio limit is needed): "
            "use --sched batch, which any user may"
        ) from error


def tick_s() -> float:
    """The scheduler's tick, from the kernel's configuration where it can be read; 4 ms (HZ=250) otherwise."""
    release = os.uname().release
    with contextlib.suppress(OSError):
        for line in Path(f"/boot/config-{release}").read_text().splitlines():
            if line.startswith("CONFIG_HZ="):
                return 1.0 / int(line.split("=")[1])
    return 0.004


def state(pid: int) -> str:
    """The kernel's letter for a process (R, S, D, T stopped, Z), or "" when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):
        return ""


def shared_memory_of(pid: int) -> set[Path]:
    """Files under /dev/shm that a process has mapped."""
    found = set()
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
            _, _, path = line.partition("/dev/shm/")
            if path:
                found.add(_SHARED_MEMORY / path.removesuffix(" (deleted)"))
    return found


def remove_shared_memory(paths: set[Path]) -> None:
    """Remove segments that killed ranks have left; only those that they had mapped, and only our own user's."""
    for path in paths:
        with contextlib.suppress(OSError):
            if path.is_file() and path.stat().st_uid == os.getuid():
                path.unlink()


def kill(pid: int) -> None:
    """End a process now, stopped or not."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> set[int]:
    """Processes below `pid` that are alive."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: set[int] = set()
    todo = [pid]
    while todo:
        for child in children.get(todo.pop(), []):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found
