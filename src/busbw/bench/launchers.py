"""Who started this process: a launcher whose ranks we join, or nobody, and we start ranks ourselves."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from busbw.errors import LaunchError


@dataclass(frozen=True, slots=True)
class Placement:
    """What the launcher says of this rank."""

    launcher: str
    rank: int
    world_size: int
    local_rank: int
    local_world_size: int

    @property
    def on_one_host(self) -> bool:
        """All ranks are on this host."""
        return self.local_world_size == self.world_size


@dataclass(frozen=True, slots=True)
class Launcher:
    """The names under which a launcher leaves a rank's place in the environment."""

    name: str
    rank: str
    world_size: str
    local_rank: str
    local_world_size: str
    only_with: str = ""
    """A variable that must be there too."""


LAUNCHERS = (
    Launcher("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    Launcher(
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    Launcher("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "", only_with="SLURM_STEP_ID"),
    Launcher("mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    Launcher("PMIx", "PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE"),
)
"""In the order in which they are believed: torchrun under srun is torchrun. Ray Train and most schedulers set torchrun's."""

_LAUNCHER_PROCESSES = ("mpiexec", "mpirun", "hydra_pmi_proxy", "prted", "orted", "slurmstepd", "prun")


def find_placement(environ: Mapping[str, str] = os.environ) -> Placement | None:
    """This rank's place as its launcher tells, or None when no launcher started it.

    Raises LaunchError when the place is incomplete or contradicts itself, and when a launcher is the parent but left no
    place: then every process would believe that it is rank 0 of 1.
    """
    for launcher in LAUNCHERS:
        if launcher.rank in environ and launcher.world_size in environ:
            if launcher.only_with and launcher.only_with not in environ:
                continue
            return _read(launcher, environ)
    parent = _parent_name()
    if parent in _LAUNCHER_PROCESSES:
        known = ", ".join(launcher.rank for launcher in LAUNCHERS)
        raise LaunchError(
            f"started by {parent}, but none of {known} is set: every process would believe that it is rank 0 of 1 (a split "
            "world); use the launcher of the backend's own library, or torchrun"
        )
    return None


def _read(launcher: Launcher, environ: Mapping[str, str]) -> Placement:
    def number(name: str, default: int | None) -> int:
        text = environ.get(name, "")
        if not text and default is not None:
            return default
        # Slurm writes "4(x2),2" for tasks per host; the first number is not ours in general, so it is not read here.
        if not re.fullmatch(r"\d+", text):
            raise LaunchError(f"{launcher.name} left {name}={text!r}, which is not a number")
        return int(text)

    rank, world_size = number(launcher.rank, None), number(launcher.world_size, None)
    if launcher.name == "srun":
        hosts = number("SLURM_STEP_NUM_NODES", number("SLURM_NNODES", 1))
        local_default = world_size if hosts == 1 else _slurm_local_size(environ)
    else:
        local_default = (
            world_size if environ.get("MASTER_ADDR", "127.0.0.1") in ("127.0.0.1", "localhost", "::1") else 1
        )
    local_rank = number(launcher.local_rank, rank if local_default == world_size else 0)
    local_world_size = number(launcher.local_world_size, local_default) if launcher.local_world_size else local_default
    if not 0 <= rank < world_size or not 0 <= local_rank < max(local_world_size, 1):
        raise LaunchError(
            f"{launcher.name} says rank {rank} of {world_size}, local rank {local_rank} of {local_world_size}: a rank must be "
            "below its number of ranks"
        )
    return Placement(launcher.name, rank, world_size, local_rank, local_world_size)


def _slurm_local_size(environ: Mapping[str, str]) -> int:
    """Tasks on this host from SLURM_STEP_TASKS_PER_NODE, such as `4(x2),2`, and SLURM_NODEID."""
    sizes: list[int] = []
    for part in environ.get("SLURM_STEP_TASKS_PER_NODE", "1").split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if match:
            sizes.extend([int(match[1])] * int(match[2] or 1))
    host = int(environ.get("SLURM_NODEID", "0"))
    return sizes[host] if host < len(sizes) else 1


def _parent_name() -> str:
    try:
        return Path(f"/proc/{os.getppid()}/comm").read_text().strip()
    except OSError:
        return ""
