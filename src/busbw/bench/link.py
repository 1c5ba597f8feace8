"""A rank's line to its supervisor: says every quarter of a second where it is, and carries out the verdict.

The heartbeat has a thread of its own. It reads `Progress`, which the timed loop writes, so a rank that hangs inside a
call still says in which call; a rank that is stopped says nothing at all.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
from typing import Any, NoReturn

from busbw.bench import processes
from busbw.bench.backends.base import Progress
from busbw.bench.wire import BEAT_S, Address, decode, encode
from busbw.errors import LaunchError

_VERDICT_WAIT_S = 12.0


class Link:
    """The connection of one rank. `ask` and friends are for the main thread."""

    def __init__(self, address: Address, progress: Progress, timeout_s: float) -> None:
        self.progress = progress
        self._socket = _connect(address, timeout_s)
        self._write_lock = threading.Lock()
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._gathers = 0
        self._signals, self._wakeup = socket.socketpair()
        self._thread = threading.Thread(target=self._beat, name="busbw-heartbeat", daemon=True)
        self._finished = threading.Event()

    def start(self) -> None:
        """Begin to beat; after the scheduling policy is set, so that it is inherited. For the main thread."""
        self._wakeup.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)  # the heartbeat reads the wake-up byte, even while this thread waits
        self._thread.start()

    def first_word(self) -> dict[str, Any]:
        """The supervisor's first word, the settings; read here because the heartbeat does not run yet."""
        data = b""  # settings are short
        while not data.endswith(b"\n"):
            more = self._socket.recv(1 << 16)
            if not more:
                raise LaunchError("the supervisor closed the connection before it said what to measure")
            data += more
        first, *rest = data.splitlines()
        for word in map(decode, rest):
            if word["say"] == "verdict":
                self._carry_out(word)
            self._answers.put(word)
        return decode(first)

    def say(self, say: str, **fields: Any) -> None:
        """Send one word."""
        with self._write_lock:
            self._socket.sendall(encode({"say": say, **fields}))

    def wait_for(self, say: str, timeout_s: float | None = None) -> dict[str, Any]:
        """The next word of the kind; others that come before it are dropped."""
        while True:
            try:
                word = self._answers.get(timeout=timeout_s)
            except queue.Empty:
                raise LaunchError(f"the supervisor did not answer with {say!r} within {timeout_s:.0f} s") from None
            if word["say"] == say:
                return word

    def publish(self, key: str, value: str) -> None:
        """Leave a value for the other ranks."""
        self.say("publish", key=key, value=value)

    def look_up(self, key: str) -> str:
        """Wait for a value that another rank publishes."""
        self.say("look_up", key=key)
        return str(self.wait_for("value")["value"])

    def gather(self, value: Any) -> list[Any]:
        """Exchange a JSON value with all ranks."""
        self._gathers += 1
        self.say("gather", turn=self._gathers, value=value)
        values: list[Any] = self.wait_for("gathered")["values"]
        return values

    def fail(self, text: str, kind: str) -> NoReturn:
        """Report an error of this rank, wait for the supervisor's verdict, and end with its status."""
        with contextlib.suppress(OSError):
            self.say("error", text=text, kind=kind)
        # The heartbeat thread ends the process when the verdict comes.
        self._finished.wait(_VERDICT_WAIT_S)
        os._exit(3)

    def finish(self) -> int:
        """Say that this rank is done; returns the run's exit status."""
        self.say("done")
        return int(self.wait_for("bye", timeout_s=60.0)["status"])

    def _beat(self) -> None:
        parts: list[bytes] = []
        next_beat = 0.0
        while not self._finished.is_set():
            now = time.monotonic()
            try:
                if now >= next_beat:
                    next_beat = now + BEAT_S
                    p = self.progress
                    self.say("beat", at=[p.item, p.phase, p.batch, p.call], limit_s=p.limit_s)
                lines_in = [self._socket, self._signals]
                readable, _, _ = select.select(lines_in, [], [], max(next_beat - time.monotonic(), 0.0))
                if self._signals in readable:
                    self._signalled(self._signals.recv(1)[0])
                if self._socket not in readable:
                    continue
                data = self._socket.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                self._lost()
            # Long lines come in many parts: they are put together once, not at each part.
            parts.append(data)
            if b"\n" not in data:
                continue
            *lines, rest = b"".join(parts).split(b"\n")
            parts = [rest]
            for line in lines:
                word = decode(line)
                if word["say"] == "verdict":
                    self._carry_out(word)
                if word["say"] == "bye":
                    self._finished.set()  # from here on a closed connection is the end, not a loss
                self._answers.put(word)

    def _signalled(self, number: int) -> None:
        """Ended from outside: say so, so that nobody takes this rank for the one that died first, and await the verdict."""
        kind = "interrupted" if number == signal.SIGINT else "terminated"
        self.say("error", text=f"signal {number}", kind=kind)
        threading.Timer(_VERDICT_WAIT_S, os._exit, (128 + number,)).start()

    def _lost(self) -> None:
        """The supervisor is gone, so is the run: leave at once rather than wait in a collective for ever."""
        if not self._finished.is_set():
            processes.remove_shared_memory(processes.shared_memory_of(os.getpid()))  # nobody else is left to do it
            os._exit(3)

    def _carry_out(self, word: dict[str, Any]) -> None:
        for host, pid in word["kill"]:
            if host == socket.gethostname() and pid != os.getpid():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(word["status"]))


def _connect(address: Address, timeout_s: float) -> socket.socket:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if address.unix:
                line = socket.socket(socket.AF_UNIX)
                line.connect("\0" + address.unix)
            else:
                line = socket.create_connection((address.host, address.port), timeout=5.0)
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.settimeout(None)
            return line
        except OSError as error:
            if time.monotonic() > deadline:
                where = "on this host" if address.unix else f"at {address.host}:{address.port}"
                raise LaunchError(
                    f"no supervisor answers {where} after {timeout_s:.0f} s ({error.strerror}): did rank 0 start?"
                ) from error
            time.sleep(0.05)
