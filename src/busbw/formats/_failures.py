"""Why a run ended: the lines by which launchers, NCCL, CUDA, MPI and shells say that something broke."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.core.log_text import LogText


@dataclass(frozen=True, slots=True)
class Failure:
    """A line that tells of a failure: its number, and a sentence with what it says."""

    line: int
    reason: str


_SIGNS: tuple[tuple[bytes, str], ...] = (
    (b"Test NCCL failure", "NCCL failed"),
    (b"Test CUDA failure", "CUDA failed"),
    (b"Test HIP failure", "HIP failed"),
    (b"Test RCCL failure", "RCCL failed"),
    (b"Test MPI failure", "MPI failed"),
    (b"DistBackendError", "torch.distributed failed"),
    (b"Watchdog caught collective operation timeout", "a collective timed out"),
    (b"CUDA error: ", "CUDA failed"),
    (b"CUDA failure", "CUDA failed"),
    (b"hipErrorNo", "HIP failed"),
    (b"no CUDA-capable device", "there is no GPU"),
    (b"No CUDA GPUs are available", "there is no GPU"),
    (b"MPI_ABORT was invoked", "a rank called MPI_Abort"),
    (b"MPICH ERROR", "MPI failed"),
    (b"Abort(", "MPI aborted"),
    (b"mpirun noticed that", "a rank died"),
    (b"mpiexec noticed that", "a rank died"),
    (b"prterun noticed that", "a rank died"),
    (b"BAD TERMINATION OF", "a rank died"),
    (b"unable to launch", "the launch failed"),
    (b"could not be launched", "the launch failed"),
    (b"There are not enough slots", "the launch failed"),
    (b"daemon died unexpectedly", "the launch failed"),
    (b"ChildFailedError", "a rank died"),
    (b"srun: error", "srun failed"),
    (b"slurmstepd: error", "Slurm ended the job"),
    (b"DUE TO TIME LIMIT", "the job's time limit was reached"),
    (b"oom-kill", "a process ran out of host memory"),
    (b"Out Of Memory", "a process ran out of host memory"),
    (b"Segmentation fault", "a process crashed"),
    (b"segfault", "a process crashed"),
    (b"Bus error", "a process crashed (often /dev/shm is too small)"),
    (b"core dumped", "a process crashed"),
    (b"command not found", "the program was not found"),
    (b"No such file or directory", "a file was not found"),
    (b"cannot open shared object file", "a library was not found"),
    (b"undefined symbol", "a library does not fit"),
    (b"Host key verification failed", "ssh could not log in"),
    (b"Permission denied", "permission was denied"),
    (b"Connection refused", "a host refused the connection"),
    (b"Invalid number of", "an option is wrong"),
    (b"Traceback (most recent call last)", "a Python program failed"),
    (b"terminate called after", "a process crashed"),
    (b"NCCL WARN", "NCCL warned"),
)
_NEEDLES = tuple(sign for sign, _ in _SIGNS)
_WEAK = {b"NCCL WARN", b"No such file or directory", b"Permission denied", b"Connection refused"}
_SECRET = re.compile(
    r"(?i)\b([\w.-]*(?:token|secret|passw|apikey|api_key|credential|authorization)[\w.-]*\s*[=:]\s*)\S+"
)


def find_failures(text: LogText) -> list[Failure]:
    """Every line that tells of a failure, in order; those that often mean nothing come last."""
    strong: list[Failure] = []
    weak: list[Failure] = []
    for number, line in text.find_lines(_NEEDLES):
        encoded = line.encode("utf-8", "replace")
        signs = [(sign, word) for sign, word in _SIGNS if sign in encoded]
        if signs:
            sign, word = signs[0]
            said = _SECRET.sub(r"\1***", " ".join(line.split()))[:200]
            (weak if sign in _WEAK else strong).append(Failure(number, f'{word} (line {number}: "{said}")'))
    return strong + weak


def failure_between(failures: Sequence[Failure], first: int, last: int) -> str | None:
    """What the first failure from line `first` to line `last` says."""
    return next((failure.reason for failure in failures if first <= failure.line <= last), None)
