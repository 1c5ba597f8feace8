"""`busbw sweep-buckets`: a real DDP step under each bucket limit, and what pricing predicts from the same machine."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from busbw.core.call import Call
from busbw.core.measurement import Measurement
from busbw.errors import LaunchError, UsageError
from busbw.pricing.buckets import bucket_curve
from busbw.pricing.mesh import make_mesh
from busbw.pricing.profile import Fitted, Profile
from busbw.pricing.readers import read_model
from busbw.pricing.timeline import Work

CAPS_MB = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0)


@dataclass(frozen=True, slots=True)
class SweepSettings:
    """What is measured: the model, the ranks, the limits, and how often."""

    world_size: int = 2
    backend: str = "gloo"
    layers: int = 6
    hidden: int = 384
    vocab: int = 8192
    tokens: int = 32
    caps_mb: tuple[float, ...] = CAPS_MB
    rounds: int = 3
    steps: int = 6
    timeout_s: float = 1800.0


@dataclass(frozen=True, slots=True)
class Swept:
    """One limit: measured seconds of a step (median, and the middle 95 % of samples), beside the prediction."""

    bucket_cap_mb: float
    buckets: int
    measured_s: float
    low_s: float
    high_s: float
    samples: int
    predicted_s: float

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary of the fields."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Sweep:
    """Every limit, and what the prediction rests on."""

    world_size: int
    parameters: int
    compute_s: float
    """The step without synchronisation, measured."""
    profile: str
    points: tuple[Swept, ...]
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Swept:
        """The limit with the shortest measured step."""
        return min(self.points, key=lambda point: point.measured_s)

    @property
    def predicted_best(self) -> Swept:
        """The limit with the shortest predicted step."""
        return min(self.points, key=lambda point: point.predicted_s)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {
            "world_size": self.world_size,
            "parameters": self.parameters,
            "compute_s": self.compute_s,
            "profile": self.profile,
            "points": [point.to_json() for point in self.points],
            "notes": list(self.notes),
        }


def sweep(
    settings: SweepSettings,
    profile: tuple[Profile, str] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Sweep:
    """Measure, and predict from `profile`, or from all-reduces that the same ranks measured."""
    _check(settings)
    found = run_ranks(settings, progress)
    os.environ["BUSBW_SWEEP"] = json.dumps(asdict(settings))
    model = read_model("busbw.pricing.modules.ddp_step:build")
    compute_s = statistics.median(found["compute_s"])
    chosen, words = profile or _own_profile(found)
    world = int(found["world_size"])
    curve = bucket_curve(model, make_mesh("ddp", world), chosen, Work(step_s=compute_s), None, settings.caps_mb)
    points = []
    for cap in curve:
        samples = sorted(found["caps"][str(cap.bucket_cap_mb)])
        cut = len(samples) // 40
        points.append(
            Swept(
                cap.bucket_cap_mb,
                cap.buckets,
                statistics.median(samples),
                samples[cut],
                samples[-1 - cut],
                len(samples),
                cap.step_s or 0.0,
            )
        )
    notes = []
    if settings.backend == "gloo":
        notes.append(
            "gloo reduces on the cores that also compute: what the prediction hides under computation still slows it down"
        )
    return Sweep(world, model.count, compute_s, words, tuple(points), tuple(notes))


def run_ranks(settings: SweepSettings, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Start the ranks on this host and return what rank 0 wrote; LaunchError says why they ended."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "times.json"
        words = json.dumps({**asdict(settings), "output": str(output)})
        environ = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
        environ |= {"WORLD_SIZE": str(settings.world_size), "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "busbw.pricing.modules.ddp_step", words]
        logs = [Path(folder) / f"rank{rank}.log" for rank in range(settings.world_size)]
        ranks = []
        for rank, log in enumerate(logs):
            with log.open("w") as errors:
                rank_environ = {**environ, "RANK": str(rank), "LOCAL_RANK": str(rank)}
                ranks.append(subprocess.Popen(command, env=rank_environ, stderr=errors, stdout=subprocess.DEVNULL))
        try:
            _wait(ranks, logs, settings.timeout_s, progress)
        finally:
            for process in ranks:
                if process.poll() is None:
                    process.kill()
                process.wait()
        found: dict[str, Any] = json.loads(output.read_text())
        return found


def _wait(
    ranks: Sequence[subprocess.Popen[bytes]],
    logs: Sequence[Path],
    timeout_s: float,
    progress: Callable[[int, int], None],
) -> None:
    end = time.monotonic() + timeout_s
    while True:
        running = any(process.poll() is None for process in ranks)
        for rank, process in enumerate(ranks):
            if process.poll():
                raise LaunchError(f"rank {rank} ended with status {process.returncode}: {_last_words(logs[rank])}")
        if not running:
            return
        if time.monotonic() > end:
            raise LaunchError(
                f"the ranks did not end within {timeout_s:.0f} s: fewer --rounds, --steps or --layers help"
            )
        for line in reversed(logs[0].read_text(errors="replace").splitlines()):
            if line.startswith("progress "):
                _, done, total = line.split()
                progress(int(done), int(total))
                break
        time.sleep(0.2)


def _last_words(log: Path) -> str:
    """The error that a rank ended with, or the last line that it wrote."""
    said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return next((line for line in reversed(said) if "Error" in line), said[-1] if said else "it said nothing")[:300]


def _own_profile(found: dict[str, Any]) -> tuple[Profile, str]:
    from busbw.costs import fit

    world = int(found["world_size"])
    rows = [
        Measurement(Call("all_reduce", int(size), world, "float32", "sum"), statistics.median(times))
        for size, times in found["all_reduce"].items()
    ]
    return Fitted(fit(rows).model), f"all-reduces of {len(rows)} sizes that the same ranks measured"


def _check(settings: SweepSettings) -> None:
    for name in ("world_size", "layers", "hidden", "vocab", "tokens", "rounds", "steps"):
        if getattr(settings, name) < 1:
            raise UsageError(f"{name} {getattr(settings, name)}: must be 1 or more")
    if settings.world_size < 2:
        raise UsageError("one rank synchronises nothing: --world 2 or more")
    if settings.hidden % max(settings.hidden // 64, 1):
        raise UsageError(f"hidden {settings.hidden}: must be a multiple of its heads (one for each 64)")
    if not settings.caps_mb or min(settings.caps_mb) <= 0:
        raise UsageError(f"limits {settings.caps_mb}: must be numbers of MiB above 0")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
