"""A whole run: its launches one after the other, each row turned into a Measurement and given to the sinks."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from busbw._version import __version__
from busbw.bench import processes
from busbw.bench.backends.base import LAUNCH_VARIABLE
from busbw.bench.environment import environment
from busbw.bench.rank import ADDRESS_VARIABLE, PARENT_VARIABLE
from busbw.bench.settings import Settings
from busbw.bench.supervisor import Supervisor
from busbw.core.call import Call
from busbw.core.measurement import Beside, Mark, Measurement, Run, Samples, Slowdown
from busbw.core.summary import Summary
from busbw.errors import BusbwError, LaunchError, UsageError


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of the ranks: how many, which repeat, and the variables that this launch sets (a sweep's)."""

    world_size: int
    repeat: int = 0
    variables: Mapping[str, str] = field(default_factory=dict)


def plan_launches(worlds: Sequence[int], repeats: int, sweep: Sequence[Mapping[str, str]]) -> list[Launch]:
    """All launches: repeats outermost, so that slow changes of the machine fall on all settings alike."""
    return [
        Launch(world, repeat, variables)
        for repeat, world, variables in itertools.product(range(repeats), worlds, sweep or ({},))
    ]


class Sink(Protocol):
    """Who takes what a run produces."""

    def launch(self, launch: Launch, ranks: list[dict[str, Any]]) -> None:
        """The ranks are there."""

    def plan(self, launch: Launch, labels: list[str], notes: list[str]) -> None:
        """The rows to come, and what was left out."""

    def at(self, index: int, phase: str) -> None:
        """The run has come to this row."""

    def row(self, measurement: Measurement) -> None:
        """A row was taken."""

    def note(self, text: str) -> None:
        """Something happened beside the rows."""


@dataclass
class Hub:
    """Passes what happens in one launch to all sinks, as Measurements."""

    launch: Launch
    settings: Settings
    sinks: Sequence[Sink]
    on_error: Any = None

    def started(self, ranks: list[dict[str, Any]]) -> None:
        """All ranks are there."""
        self._each("launch", self.launch, ranks)

    def plan(self, labels: list[str], notes: list[str]) -> None:
        """The rows that will be taken."""
        self._each("plan", self.launch, labels, notes)

    def at(self, item: int, phase: str) -> None:
        """Rank 0 has come to a row."""
        self._each("at", item, phase)

    def row(self, word: dict[str, Any]) -> None:
        """A row in the words of the rank that reports it."""
        self._each("row", to_measurement(word, self.launch, self.settings))

    def _each(self, what: str, *args: Any) -> None:
        for sink in self.sinks:
            try:
                getattr(sink, what)(*args)
            except BusbwError as error:
                if self.on_error is None:
                    raise
                self.on_error(error)


def to_measurement(word: Mapping[str, Any], launch: Launch, settings: Settings) -> Measurement:
    """A reported row as a Measurement, with the marks that its statistics call for."""
    from busbw.bench.statistics import marks

    call = Call.from_json(word["call"])
    summary = Summary.from_json(word["summary"])
    found: list[Mark] = []
    if word["wrong"]:
        found.append(Mark("wrong", f"{word['wrong']} elements are wrong"))
    if call.world_size == 1:
        found.append(Mark("world_of_one", "one rank: nothing moves between ranks, this is the cost of the call itself"))
    found.extend(
        marks(
            summary,
            word["precision"],
            sched=settings.sched,
            tick_s=None if word["is_gpu"] or settings.backend == "fake" else processes.tick_s(),
            calls_per_sample=word["calls_per_sample"],
        )
    )
    if settings.rank_time != "slowest":
        found.append(Mark("rank_time", f"the time is not the slowest rank's but: {settings.rank_time}"))
    beside = None if word["beside"] is None else Beside.from_json(word["beside"])
    if beside is not None:
        found.append(Mark("overlapped", beside_text(beside)))
    raw = word["per_rank_s"]
    return Measurement(
        call=call,
        time_s=summary.mean_s if summary.stopped == "fixed" else summary.median_s,
        summary=summary,
        samples=None if raw is None else Samples(word["calls_per_sample"], tuple(map(tuple, raw))),
        wrong=word["wrong"],
        marks=tuple(found),
        labels={**word["labels"], **launch.variables},
        repeat=launch.repeat,
        beside=beside,
    )


def beside_text(beside: Beside) -> str:
    """How much computation and calls slow each other, in words."""

    def times(slowdown: Slowdown | None) -> str:
        if slowdown is None:
            return "an unknown number of times as long"
        return f"{slowdown.ratio:.2f} times as long ({slowdown.low:.2f} to {slowdown.high:.2f})"

    return f"{beside.what} ran beside it: calls took {times(beside.calls)}, products {times(beside.products)}"


def describe_run(settings: Settings, worlds: Sequence[int], repeats: int, sweep: Sequence[Mapping[str, str]]) -> Run:
    """The run as it heads a results file."""
    return Run(
        version=__version__,
        started=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        environment=environment(),
        settings={
            **settings.to_json(),
            "worlds": list(worlds),
            "repeats": repeats,
            "sweep": [dict(variables) for variables in sweep],
        },
    )


def run_launches(
    settings: Settings,
    launches: Sequence[Launch],
    sinks: Sequence[Sink],
    done: Mapping[tuple[int, int, str], Sequence[str]] | None = None,
) -> int:
    """Run every launch on this host, with ranks that we start; returns 0, or 1 when a result was wrong.

    `done` has the keys of rows that are on disk, by (world size, repeat, variables as text). Raises the verdict when a
    launch ends badly; the rows before it are with the sinks.
    """
    status = 0
    began = time.monotonic()
    for index, launch in enumerate(launches):
        budget_s = None
        if settings.time_budget_s is not None:
            left = settings.time_budget_s - (time.monotonic() - began)
            budget_s = max(left / (len(launches) - index) - _launch_cost_s(settings.backend), 0.0)
        skip = list((done or {}).get((launch.world_size, launch.repeat, variables_text(launch.variables)), ()))
        status = max(status, asyncio.run(run_local(settings, launch, sinks, skip, budget_s)))
    return status


def variables_text(variables: Mapping[str, str]) -> str:
    """A sweep's setting as one word: `NCCL_ALGO=Ring,NCCL_PROTO=LL`."""
    return ",".join(f"{name}={value}" for name, value in variables.items())


def _launch_cost_s(backend: str) -> float:
    """What starting and ending the ranks takes of a launch's share of the time budget."""
    return {"fake": 0.3, "mpi": 1.0}.get(backend, 4.0)


async def run_local(
    settings: Settings,
    launch: Launch,
    sinks: Sequence[Sink],
    skip: list[str],
    budget_s: float | None,
) -> int:
    """One launch on this host."""
    hub = Hub(launch, settings, sinks)
    supervisor = Supervisor(settings, launch.world_size, hub, skip=skip, run_budget_s=budget_s)
    hub.on_error = supervisor.decide
    await supervisor.listen()
    output: deque[str] = deque(maxlen=200)
    supervisor.child_output = lambda: _tail(output)
    try:
        commands = _commands(settings, launch, supervisor.address.to_text())
        readers = []
        for number, (command, environ) in commands.items():
            child = await asyncio.create_subprocess_exec(
                *command,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
            supervisor.children[number] = child
            readers.append(asyncio.create_task(_collect(child, output)))
        status = await supervisor.run()
        await asyncio.wait(readers, timeout=1.0)
        return status
    finally:
        for child in supervisor.children.values():
            if child.returncode is None:
                for pid in (*processes.descendants(child.pid), child.pid):
                    processes.kill(pid)
                await child.wait()


async def _collect(child: asyncio.subprocess.Process, output: deque[str]) -> None:
    assert child.stdout is not None
    verbose = bool(os.environ.get("BUSBW_VERBOSE"))
    while line := await child.stdout.readline():
        text = line.decode(errors="replace").rstrip()
        output.append(text)
        if verbose:
            sys.stderr.write(f"{text}\n")


def _tail(output: deque[str]) -> str:
    lines = [line.strip() for line in output if line.strip()]
    return f": {lines[-1][:300]}" if lines else ""


def _commands(settings: Settings, launch: Launch, address: str) -> dict[int, tuple[list[str], dict[str, str]]]:
    """The processes to start, by rank; one launcher as -1 for MPI."""
    base = {name: value for name, value in os.environ.items() if not name.startswith(("PMI_", "PMIX_", "OMPI_COMM_"))}
    base.update(launch.variables)
    base[ADDRESS_VARIABLE] = address
    base[LAUNCH_VARIABLE] = str(launch.repeat)
    base.setdefault("OMP_NUM_THREADS", "1")
    if settings.register:
        base["TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"] = "1"
    program = [sys.executable, "-m", "busbw.bench.rank"]
    n = launch.world_size
    if settings.backend == "mpi":
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
            base.pop(name, None)
        return {-1: ([*find_mpiexec(), "-n", str(n), *program], base)}
    return {
        rank: (
            program,
            {
                **base,
                "RANK": str(rank),
                "WORLD_SIZE": str(n),
                "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(n),
                PARENT_VARIABLE: str(os.getpid()),
            },
        )
        for rank in range(n)
    }


def find_mpiexec() -> list[str]:
    """The mpiexec beside this Python (the mpich wheel's), or the first on PATH, with what it needs to be told."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise LaunchError("--backend mpi needs mpiexec and there is none: pip install mpich, or load your site's MPI")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    if "Open MPI" in version or "OpenRTE" in version:
        root = ["--allow-run-as-root"] if os.getuid() == 0 else []
        return [found, "--oversubscribe", *root]
    return [found]


def resolve_backend(backend: str) -> str:
    """`auto` becomes what suits this machine's devices."""
    if backend != "auto":
        return backend
    from busbw.bench.backends.torch_distributed import choose_backend

    return choose_backend()


def auto_worlds(backend: str) -> list[int]:
    """World sizes that suit this host: 2, 4, 8, ... and all of its accelerators; 2 and 4 on CPUs with fewer cores."""
    if backend in ("fake", "mpi"):
        most = max(os.cpu_count() or 2, 2) if backend == "mpi" else 8
    else:
        from busbw.bench.backends.torch_distributed import local_devices

        most = local_devices(resolve_backend(backend)) or min(max(os.cpu_count() or 2, 4), 8)
    worlds = [2**power for power in range(1, 20) if 2**power <= most]
    if most not in worlds and most > 1:
        worlds.append(most)
    return worlds or [1]


def parse_sweep(text: str | None) -> list[dict[str, str]]:
    """`NCCL_ALGO=Ring,Tree,NCCL_PROTO=LL,Simple` -> every combination as variables to set."""
    if not text:
        return []
    names: dict[str, list[str]] = {}
    current = ""
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals:
            current = name.strip()
            if not current.replace("_", "").isalnum() or current in names:
                raise UsageError(f"--sweep {text!r}: write NAME=value,value,NAME=value,value, each name once")
            names[current] = [value.strip()]
        elif current:
            names[current].append(part.strip())
        else:
            raise UsageError(f"--sweep {text!r}: must begin with NAME=")
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*names.values())]
