"""The host that is looked at: files under a root, and a few commands that only read. Nothing here can change anything."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from busbw.errors import UsageError

_SMI = "nvidia-smi"
_CLOCKS = "index,clocks.sm,clocks.max.sm,temperature.gpu,power.draw,power.limit,power.default_limit"
_CSV = "--format=csv,noheader,nounits"
COMMANDS: dict[str, tuple[str, ...]] = {
    "lspci": ("lspci", "-D", "-vvv"),
    "nvidia-smi-gpus": (_SMI, "--query-gpu=index,name,pci.bus_id,pstate,utilization.gpu", _CSV),
    "nvidia-smi-clocks": (_SMI, f"--query-gpu={_CLOCKS},clocks_throttle_reasons.active", _CSV),
    "nvidia-smi-events": (_SMI, f"--query-gpu={_CLOCKS},clocks_event_reasons.active", _CSV),
    "nvidia-smi-topo": (_SMI, "topo", "-m"),
    "nvidia-smi-p2p": (_SMI, "topo", "-p2p", "r"),
    "ethtool": ("ethtool",),
}
"""All that may run, by short name; `ethtool` takes the name of a device that stands in /sys/class/net."""

TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said; or, with `trouble`, why it said nothing."""

    text: str = ""
    trouble: str = ""


class Host:
    """One host, read-only.

    With another root than / it is a copy of some host's files: no command runs, and what they print is read from
    `ROOT/commands/NAME.txt` (names as in COMMANDS, `ethtool-DEVICE.txt`, and `env.txt` for the variables).
    """

    def __init__(self, root: str | Path = "/", environ: Mapping[str, str] | None = None) -> None:
        self.root = Path(root)
        if not self.root.is_dir():
            raise UsageError(f"--root {root}: not a directory; give / or a copy of a host's /sys, /proc and commands/")
        self.root = self.root.resolve()
        self.is_this = self.root == Path("/")
        self.denied: set[str] = set()
        """Paths that exist and need more rights."""
        self._environ = environ
        self._answers: dict[tuple[str, str], Answer] = {}

    def data(self, path: str) -> bytes | None:
        """The bytes of a file; None where there is none, or it cannot be read."""
        try:
            return self._place(path).read_bytes()
        except PermissionError:
            self.denied.add(path)
        except OSError:  # sysfs also answers EINVAL, for example for the speed of a port that is down
            pass
        return None

    def text(self, path: str) -> str:
        """The text of a file without outer white space; "" where there is none."""
        return (self.data(path) or b"").decode("utf-8", errors="replace").strip()

    def number(self, path: str) -> int | None:
        """The whole number that a file holds, decimal or 0x; None where it holds none."""
        try:
            return int(self.text(path), 0)
        except ValueError:
            return None

    def names(self, path: str) -> tuple[str, ...]:
        """What a directory holds, sorted; nothing where there is none."""
        try:
            return tuple(sorted(os.listdir(self._place(path))))
        except PermissionError:
            self.denied.add(path)
        except OSError:
            pass
        return ()

    def has(self, path: str) -> bool:
        """Whether the path exists."""
        try:
            return self._place(path).exists()
        except OSError:
            return False

    def target(self, path: str) -> str:
        """Where a path leads once links are followed, as a path of the host; "" where it does not exist."""
        try:
            real = self._place(path).resolve(strict=True)
        except (OSError, RuntimeError):
            return ""
        return f"/{real.relative_to(self.root)}" if real.is_relative_to(self.root) else ""

    def run(self, name: str, device: str = "") -> Answer:
        """What one of COMMANDS prints; `device` is for ethtool."""
        assert name in COMMANDS, name
        key = (name, device)
        if key not in self._answers:
            self._answers[key] = self._run(name, device) if self.is_this else self._saved(name, device)
        return self._answers[key]

    def variables(self) -> Mapping[str, str]:
        """The environment's variables; of a copy, those of `commands/env.txt`."""
        if self._environ is None:
            if self.is_this:
                self._environ = dict(os.environ)
            else:
                lines = (line.partition("=") for line in self.text("/commands/env.txt").splitlines())
                self._environ = {name.strip(): value for name, equals, value in lines if equals}
        return self._environ

    def space(self, path: str) -> tuple[int, int] | None:
        """Bytes of the file system mounted at `path`, and those free; None where that cannot be asked."""
        if not self.is_this:
            return None
        try:
            about = os.statvfs(path)
        except OSError:
            return None
        return about.f_blocks * about.f_frsize, about.f_bavail * about.f_frsize

    def _place(self, path: str) -> Path:
        assert path.startswith("/"), path
        return self.root / path.lstrip("/")

    def _saved(self, name: str, device: str) -> Answer:
        path = f"/commands/{name}{f'-{device}' if device else ''}.txt"
        if not self.has(path):
            return Answer(trouble=f"its output is not saved here ({path.lstrip('/')})")
        return Answer(self.text(path))

    def _run(self, name: str, device: str) -> Answer:
        words = [*COMMANDS[name], *([device] if device else [])]
        path = os.pathsep.join(filter(None, (os.environ.get("PATH", ""), "/usr/sbin", "/sbin")))
        try:
            done = subprocess.run(
                words,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=TIMEOUT_S,
                env={**os.environ, "LC_ALL": "C", "PATH": path},
                check=False,
            )
        except FileNotFoundError:
            return Answer(trouble=f"{words[0]} is not installed")
        except subprocess.TimeoutExpired:
            return Answer(trouble=f"{words[0]} did not answer within {TIMEOUT_S:.0f} s")
        except OSError as error:
            return Answer(trouble=f"{words[0]} did not start: {error.strerror}")
        text = done.stdout.decode("utf-8", errors="replace")
        if done.returncode:
            said = (done.stderr.decode("utf-8", errors="replace").strip() or text.strip()).splitlines()
            return Answer(trouble=f"{words[0]} failed: {said[0].strip() if said else f'status {done.returncode}'}")
        return Answer(text)
