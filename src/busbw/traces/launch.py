"""Runs a command so that every Python in it that imports torch is captured, without a change to the program.

Each such Python finds our `sitecustomize` first on PYTHONPATH; the folder is inherited by whatever the command starts
(torchrun, srun and mpiexec hand the environment on). `python -I`, `-E` and `-S` do not look there.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

import busbw
from busbw.errors import FileError, UsageError

INJECT = Path(__file__).resolve().parent / "inject"
SEEN = ".seen"


def environment(output: Path, steps: str | None, times: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the command runs with."""
    package = str(Path(busbw.__file__).resolve().parent)
    settings = {"output": str(output.resolve()), "steps": steps, "times": times, "busbw": package}
    path = os.pathsep.join(filter(None, [str(INJECT), environ.get("PYTHONPATH", "")]))
    return {**environ, "PYTHONPATH": path, "BUSBW_CAPTURE": json.dumps(settings)}


def blind_flag(command: Sequence[str]) -> str | None:
    """The flag with which a Python of the command ignores PYTHONPATH: -I, -E or -S, also within `-uI`."""
    for index, word in enumerate(command):
        name = os.path.basename(word)
        if not name.startswith(("python", "pypy")):
            continue
        for flag in command[index + 1 :]:
            if not flag.startswith("-") or flag in ("-", "-c", "-m"):
                break
            if not flag.startswith("--") and set(flag[1:].partition("W")[0].partition("X")[0]) & set("IES"):
                return flag
    return None


def prepare(output: Path) -> None:
    """The folder for the ranks' files; FileError where there are captures in it already, or it cannot be made."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        if any(output.glob("rank-*.jsonl")):
            raise FileError(f"{output}: holds a capture already: choose another folder with -o, or remove it")
        (output / SEEN).unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"{output}: the capture cannot be written there: {error.strerror}") from error


def run(command: Sequence[str], environ: Mapping[str, str], to_stderr: bool) -> int:
    """Run the command to its end, hand on signals, and return its exit status (128 + n for signal n).

    `to_stderr` sends its output there, so that our own standard output holds nothing else.
    """
    if shutil.which(command[0], path=environ.get("PATH")) is None:
        raise UsageError(f"{command[0]!r}: no such program; write the job's whole command behind --")
    try:
        process = subprocess.Popen(list(command), env=dict(environ), stdout=sys.stderr.fileno() if to_stderr else None)
    except OSError as error:  # executable, and neither a binary nor a script that says of what
        raise UsageError(
            f"{command[0]!r} cannot be started: {error.strerror}; write the job's whole command behind --"
        ) from error

    def hand_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    def leave_to_it(number: int, frame: FrameType | None) -> None:
        """Ctrl-C reaches the command from the terminal itself; we wait for what it leaves."""

    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, hand_on),
        signal.SIGINT: signal.signal(signal.SIGINT, leave_to_it),
    }
    try:
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 - status if status < 0 else status


def merge(folder: Path, file: Path) -> None:
    """Put the ranks' files into one, a rank after the other, and remove the folder; FileError where that fails."""
    try:
        with file.open("xb") as merged:
            for part in sorted(folder.glob("rank-*.jsonl")):
                with part.open("rb") as source:
                    shutil.copyfileobj(source, merged)
        shutil.rmtree(folder)
    except OSError as error:
        raise FileError(f"{file}: cannot be written: {error.strerror}; the ranks' files are in {folder}") from error
