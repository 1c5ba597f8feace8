"""Runs whose ranks a launcher has started: rank 0 starts a supervisor beside itself, and every rank joins it.

The supervisor is the same command line again, in a session of its own, so that it outlives whatever ends rank 0. On one
host the ranks find it by a name made from their common parent process; across hosts, through the launcher's own store
(torchrun's, or one that rank 0 opens at MASTER_ADDR:MASTER_PORT) or an MPI broadcast.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from busbw.bench import processes
from busbw.bench.launchers import Placement
from busbw.bench.rank import main
from busbw.bench.run import Hub, Launch, Sink
from busbw.bench.settings import Settings
from busbw.bench.supervisor import Supervisor
from busbw.bench.wire import Address
from busbw.errors import BusbwError, LaunchError


class ResumableSink(Sink, Protocol):
    """A sink that knows which rows are on disk."""

    def done(self) -> Mapping[tuple[int, int, str], Sequence[str]]:
        """Keys of those rows by (world size, repeat, variables as text)."""


_ROLE = "BUSBW_SUPERVISE"


@dataclass(frozen=True, slots=True)
class Role:
    """This process supervises `world_size` ranks; it says where it listens on a pipe."""

    world_size: int
    unix: str
    host: str
    pipe: int


def role() -> Role | None:
    """The supervisor's role, when rank 0 has started this process for it."""
    text = os.environ.pop(_ROLE, None)
    if text is None:
        return None
    world_size, pipe, unix, host = text.split(":", 3)
    return Role(int(world_size), unix, host, int(pipe))


def run_rank(settings: Settings, placement: Placement, words: Sequence[str]) -> int:
    """Run this rank; on rank 0, start the supervisor first. Returns the run's exit status."""
    processes.die_with_parent()
    address: Address | None = None
    if placement.on_one_host:
        name = f"busbw-{os.getuid()}-{os.getppid()}-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        address = Address(unix=name)
        if placement.rank == 0:
            _start_supervisor(placement, words, unix=name, host="")
    else:
        text = ""
        if placement.rank == 0:
            text = _start_supervisor(placement, words, unix="", host=_own_host()).to_text()
        address = Address.from_text(_share(settings, placement, text))
    status = main(placement, address, settings.digest())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # libraries' own exit handlers may wait for ranks that have left


def supervise(settings: Settings, role: Role, output: ResumableSink) -> int:
    """Be the supervisor of ranks that a launcher has started."""
    return asyncio.run(_supervise(settings, role, output))


def refuse(settings: Settings, role: Role, why: BusbwError) -> None:
    """Tell every rank that the run cannot begin, so that none waits for a supervisor that will not come."""
    with contextlib.suppress(BusbwError):
        asyncio.run(_supervise(settings, role, None, why))


async def _supervise(
    settings: Settings, role: Role, output: ResumableSink | None, refusal: BusbwError | None = None
) -> int:
    launch = Launch(role.world_size)
    hub = Hub(launch, settings, [] if output is None else [output])
    skip = [] if output is None else list(output.done().get((role.world_size, 0, ""), ()))
    supervisor = Supervisor(
        settings,
        role.world_size,
        hub,
        skip=skip,
        address=Address(unix=role.unix),
        run_budget_s=settings.time_budget_s,
    )
    supervisor.refusal = refusal
    hub.on_error = supervisor.decide
    try:
        address = await supervisor.listen(role.host or None)
    except LaunchError as error:
        os.write(role.pipe, f"error {error}\n".encode())
        raise
    os.write(role.pipe, f"{address.to_text()}\n".encode())
    os.close(role.pipe)
    return await supervisor.run()


def _start_supervisor(placement: Placement, words: Sequence[str], unix: str, host: str) -> Address:
    reader, writer = os.pipe()
    environ = {**os.environ, _ROLE: f"{placement.world_size}:{writer}:{unix}:{host}"}
    # The launcher's variables stay behind: the supervisor is no rank, and must not be taken for one.
    for name in list(environ):
        if name.startswith(("PMI_", "PMIX_", "OMPI_COMM_WORLD")) or name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            del environ[name]
    subprocess.Popen(
        [sys.executable, "-m", "busbw", *words],
        env=environ,
        stdin=subprocess.DEVNULL,
        pass_fds=(writer,),
        start_new_session=True,
    )
    os.close(writer)
    with os.fdopen(reader) as lines:
        line = lines.readline().strip()
    if line.startswith("error "):
        raise LaunchError(line.removeprefix("error "))
    if not line:
        sys.exit(2)  # it has said why: a bad output file, for one
    return Address.from_text(line)


def _own_host() -> str:
    """The address at which ranks on other hosts reach this one: MASTER_ADDR, or this host's name."""
    import socket

    name = os.environ.get("MASTER_ADDR") or socket.gethostname()
    try:
        host = socket.gethostbyname(name)
    except OSError as error:
        raise LaunchError(
            f"this host's address is not known ({name}: {error}): set MASTER_ADDR to it for all ranks"
        ) from error
    if host.startswith("127."):
        raise LaunchError(f"{name} is {host}, which other hosts cannot reach: set MASTER_ADDR to this host's address")
    return host


def _share(settings: Settings, placement: Placement, text: str) -> str:
    """Give rank 0's text to every rank, across hosts."""
    if settings.backend == "mpi":
        from busbw.bench.backends.mpi import broadcast_text

        return broadcast_text(text)
    if "MASTER_ADDR" not in os.environ:
        raise LaunchError(
            f"{placement.launcher} started ranks on several hosts: set MASTER_ADDR (and MASTER_PORT) to rank 0's host for all, "
            "or use torchrun"
        )
    from busbw.bench.backends.torch_distributed import share_through_store

    return share_through_store(placement.rank, placement.world_size, text, settings.init_timeout_s)
