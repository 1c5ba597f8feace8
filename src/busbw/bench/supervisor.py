"""Watches the ranks of one launch, decides when one is lost, and takes the rows in. It is never a rank itself.

It runs in the process that the user started, or, when a launcher started the ranks, in a process beside rank 0 that
neither computes nor communicates. A rank is *dead* when its connection closes, *stopped* when it is silent for
SILENCE_S and the kernel agrees (or for longer), *hung* when it beats but has made no progress for as long as its operation may take. Only then is a verdict
given; it names the rank, and everyone ends by it. Survivors of a dead rank see errors of their own first: those wait
for the verdict, so that the rank that died is blamed and not the one that noticed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from busbw.bench import processes
from busbw.bench.settings import Settings
from busbw.bench.wire import MOST_LINE_BYTES, SILENCE_S, Address, decode, encode
from busbw.errors import BusbwError, Interrupted, LaunchError, MeasurementError, RankLost, RankMismatch, UsageError
from busbw.units import format_time

_ERROR_GRACE_S = SILENCE_S + 0.6
"""How long a rank's own error waits for news of a rank that died or stopped."""
_END_GRACE_S = 2.0
_BUSY_SILENCE_S = 8.0
"""A rank that the kernel does not call stopped may be quiet for this long: its host may be short of cores."""
_LOADING_SILENCE_S = 20.0
_OWN_LAG_S = 0.3
_DEATH_GRACE_S = 0.15
"""Deaths that are noticed within this time are looked at together: the first is blamed, or the one killed by hand."""

_KINDS: dict[str, type[BusbwError]] = {"usage": UsageError, "launch": LaunchError, "mismatch": RankMismatch}


class Observer(Protocol):
    """Who wants to know what happens: the record on disk, the table, the progress bar."""

    def plan(self, labels: list[str], notes: list[str]) -> None:
        """The rows that will be taken, in order, and what was left out."""

    def row(self, word: dict[str, Any]) -> None:
        """A row was taken."""

    def at(self, item: int, phase: str) -> None:
        """The run has come to this row."""

    def started(self, ranks: list[dict[str, Any]]) -> None:
        """All ranks are there: rank, host, pid, device."""


@dataclass
class Rank:
    """What is known of one rank."""

    rank: int
    host: str
    pid: int
    writer: asyncio.StreamWriter
    heard: float
    moved: float
    local: bool
    at: list[Any] = field(default_factory=lambda: [-1, "start", 0, 0])
    limit_s: float = 60.0
    device: dict[str, Any] | None = None
    done: bool = False
    gone: float | None = None
    error: tuple[float, str, str] | None = None

    def __str__(self) -> str:
        return f"rank {self.rank} (pid {self.pid} on {self.host})"


class Supervisor:
    """One launch of `world_size` ranks."""

    def __init__(
        self,
        settings: Settings,
        world_size: int,
        observer: Observer,
        *,
        skip: list[str] | None = None,
        address: Address | None = None,
        run_budget_s: float | None = None,
    ) -> None:
        self.settings, self.world_size, self.observer = settings, world_size, observer
        self.skip = skip or []
        self.address = address or Address.fresh()
        self.run_budget_s = run_budget_s
        self.ranks: dict[int, Rank] = {}
        self.children: dict[int, asyncio.subprocess.Process] = {}
        """Processes that this supervisor has started, by rank (or -1 for a launcher)."""
        self.child_output: Callable[[], str] = lambda: ""
        self.labels: list[str] = []
        self.verdict: BusbwError | None = None
        self.refusal: BusbwError | None = None
        """Why the run cannot begin: the verdict as soon as every rank is there to hear it."""
        self._rows: list[dict[str, Any]] = []
        self._values: dict[str, str] = {}
        self._waiting: dict[str, list[Rank]] = {}
        self._gathers: dict[int, dict[int, Any]] = {}
        self._mapped: set[Path] = set()
        self._ended = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._status = 0
        self._began = time.monotonic()

    async def listen(self, host: str | None = None) -> Address:
        """Open the socket; with `host`, a TCP one on that address for ranks on other hosts."""
        if host is None:
            try:
                self._server = await asyncio.start_unix_server(
                    self._serve, path="\0" + self.address.unix, limit=MOST_LINE_BYTES
                )
            except OSError as error:
                raise LaunchError(
                    f"two processes of this launch believe that they are rank 0 of {self.world_size}: a split world; "
                    "start the ranks with the launcher of the backend that you measure"
                ) from error
        else:
            token = secrets.token_hex(16)
            self._server = await asyncio.start_server(self._serve, host=host, port=0, limit=MOST_LINE_BYTES)
            self.address = Address(host=host, port=self._server.sockets[0].getsockname()[1], token=token)
        return self.address

    async def run(self) -> int:
        """Watch until the ranks are done or a verdict is given; returns the exit status or raises the verdict."""
        self._began = time.monotonic()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError, RuntimeError):  # only the main thread may
                loop.add_signal_handler(number, self._interrupt)
        watch = asyncio.create_task(self._watch())
        try:
            await self._ended.wait()
            await self._end()
        finally:
            watch.cancel()
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(ValueError, RuntimeError):
                    loop.remove_signal_handler(number)
            if self._server is not None:
                self._server.close()
        if self.verdict is not None:
            raise self.verdict
        return self._status

    def decide(self, error: BusbwError) -> None:
        """Give the verdict; the first one stands."""
        if self.verdict is None and not self._ended.is_set():
            self.verdict = error
            self._ended.set()

    # --- what ranks say -------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rank: Rank | None = None
        try:
            if not _is_own_user(writer):
                writer.close()
                return
            while line := await reader.readline():
                word = decode(line)
                if rank is None:
                    rank = self._hello(word, writer)
                    if rank is None:
                        return
                    continue
                rank.heard = time.monotonic()
                try:
                    self._hear(rank, word)
                except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
                    # A fault of ours, in what takes the rows: the rank that spoke must not be blamed for it.
                    self.decide(MeasurementError(f"{word['say']!r} of {rank} could not be taken: {error!r}"))
        except (ValueError, KeyError, TypeError, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # not a word of ours, a broken line, or the end of the run: the connection is over
        finally:
            if rank is not None and not rank.done and rank.gone is None:
                rank.gone = time.monotonic()
            writer.close()

    def _hello(self, word: dict[str, Any], writer: asyncio.StreamWriter) -> Rank | None:
        if word["say"] != "hello" or not secrets.compare_digest(str(word.get("token", "")), self.address.token):
            writer.close()
            return None
        now = time.monotonic()
        number, host, pid = int(word["rank"]), str(word["host"]), int(word["pid"])
        rank = Rank(number, host, pid, writer, now, now, host == socket.gethostname())
        other = self.ranks.get(number)
        if other is not None:
            self.decide(LaunchError(f"{other} and {rank} both say that they are rank {number}: a split world"))
            return rank
        self.ranks[number] = rank
        if word["digest"] and word["digest"] != self.settings.digest():
            self.decide(
                RankMismatch(
                    f"{rank} was started with other arguments than rank 0: give every rank the same command line"
                )
            )
        if int(word["world_size"]) != self.world_size:
            self.decide(RankMismatch(f"{rank} believes in {word['world_size']} ranks, rank 0 in {self.world_size}"))
        self._say(rank, "settings", settings=self.settings.to_json(), skip=self.skip, budget_s=self.run_budget_s)
        if self.refusal is not None and len(self.ranks) == self.world_size:
            self.decide(self.refusal)
        return rank

    def _hear(self, rank: Rank, word: dict[str, Any]) -> None:
        say = word["say"]
        if say == "beat":
            if word["at"] != rank.at:
                rank.moved = rank.heard
                if rank.local and word["at"][1] != rank.at[1]:
                    self._mapped |= processes.shared_memory_of(rank.pid)
                if rank.rank == 0:
                    self.observer.at(word["at"][0], word["at"][1])
            rank.at, rank.limit_s = word["at"], float(word["limit_s"])
        elif say == "gather":
            self._gather(rank, int(word["turn"]), word["value"])
        elif say == "publish":
            self._values[word["key"]] = word["value"]
            for waiting in self._waiting.pop(word["key"], []):
                self._say(waiting, "value", value=word["value"])
        elif say == "look_up":
            if word["key"] in self._values:
                self._say(rank, "value", value=self._values[word["key"]])
            else:
                self._waiting.setdefault(word["key"], []).append(rank)
        elif say == "located":
            rank.device = word["device"]
            if len(self.ranks) == self.world_size and all(r.device is not None for r in self.ranks.values()):
                self._all_located()
        elif say == "plan":
            self.labels = list(word["labels"])
            self.observer.plan(self.labels, list(word["notes"]))
        elif say == "row":
            self._row(word)
        elif say == "error":
            rank.error = (rank.heard, str(word["text"]), str(word["kind"]))
        elif say == "done":
            rank.done = True
            if len(self.ranks) == self.world_size and all(r.done for r in self.ranks.values()):
                self._ended.set()

    def _row(self, word: dict[str, Any]) -> None:
        """Hand a row on when those of all groups are in, in the groups' order."""
        if word["wrong"]:
            self._status = 1
        self._rows.append(word)
        if len(self._rows) == word["groups"]:
            self._hand_on_rows()

    def _hand_on_rows(self) -> None:
        for word in sorted(self._rows, key=lambda word: (word["index"], word["group"])):
            self.observer.row(word)
        self._rows.clear()

    def _gather(self, rank: Rank, turn: int, value: Any) -> None:
        values = self._gathers.setdefault(turn, {})
        values[rank.rank] = value
        if len(values) == self.world_size:
            del self._gathers[turn]
            word = encode({"say": "gathered", "values": [values[r] for r in range(self.world_size)]})
            for each in self.ranks.values():
                with contextlib.suppress(OSError):
                    each.writer.write(word)

    def _all_located(self) -> None:
        """Every rank has arrived and chosen its device: refuse what would give a wrong number, then let them go."""
        by_device: dict[tuple[str, str], Rank] = {}
        for _, rank in sorted(self.ranks.items()):
            assert rank.device is not None
            identity = (rank.host, rank.device["identity"])
            if rank.device["identity"] and identity in by_device:
                self.decide(
                    LaunchError(
                        f"{by_device[identity]} and {rank} use the same device, {rank.device['name']}: start one rank per "
                        "accelerator, or set CUDA_VISIBLE_DEVICES for each"
                    )
                )
                return
            by_device[identity] = rank
        ranks = [self.ranks[r] for r in range(self.world_size)]
        self.observer.started(
            [{"rank": r.rank, "host": r.host, "pid": r.pid, "device": (r.device or {})["name"]} for r in ranks]
        )
        for rank in ranks:
            self._say(rank, "go")

    def _say(self, rank: Rank, say: str, **fields: Any) -> None:
        with contextlib.suppress(OSError):
            rank.writer.write(encode({"say": say, **fields}))

    # --- who is lost ----------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        last = quiet_until = time.monotonic()
        while not self._ended.is_set():
            await asyncio.sleep(0.05)
            now = time.monotonic()
            if now - last > _OWN_LAG_S:  # this process did not run: what the ranks said is still in the sockets
                quiet_until = now + _OWN_LAG_S
            last = now
            if now < quiet_until:
                continue
            self._look_at_arrivals(now)
            self._look_at_deaths(now)
            self._look_at_silence(now)
            self._look_at_errors(now)
            self._look_at_progress(now)

    def _look_at_arrivals(self, now: float) -> None:
        missing = [r for r in range(self.world_size) if r not in self.ranks]
        if missing:
            for number, child in self.children.items():
                if child.returncode is not None and (number < 0 or number in missing):
                    who = f"rank {number}" if number >= 0 else "the launcher"
                    tail = self.child_output()
                    self.decide(LaunchError(f"{who} ended with status {child.returncode} before it arrived{tail}"))
        if now - self._began <= self.settings.init_timeout_s:
            return
        if missing:
            names = ", ".join(map(str, missing))
            self.decide(
                LaunchError(
                    f"rank {names} of {self.world_size} did not arrive within {self.settings.init_timeout_s:.0f} s: start "
                    "all ranks, or allow more time with --init-timeout"
                )
            )
        for rank in self.ranks.values():
            if rank.at[1] == "start":
                self.decide(
                    LaunchError(
                        f"{rank} did not finish its set-up within {self.settings.init_timeout_s:.0f} s (--init-timeout)"
                    )
                )

    def _look_at_deaths(self, now: float) -> None:
        gone = sorted((r for r in self.ranks.values() if r.gone is not None), key=lambda r: r.gone or 0.0)
        if not gone or now - (gone[0].gone or now) < _DEATH_GRACE_S:
            return
        # A rank that is ended by its launcher as a consequence reports that before it goes.
        victims = [r for r in gone if r.error is None or r.error[2] != "terminated"] or gone
        rank = victims[0]
        if rank.error is not None:
            self._blame_error(rank)
            return
        self.decide(RankLost(f"{rank} died {self._where(rank)}"))

    def _look_at_silence(self, now: float) -> None:
        silent = [r for r in self.ranks.values() if not r.done and r.gone is None and self._is_silent(r, now)]
        if not silent:
            return
        what = "was stopped" if all(processes.state(r.pid) in "Tt" for r in silent if r.local) else "stopped answering"
        names = " and ".join(str(r) for r in silent)
        self.decide(RankLost(f"{names} {what} {self._where(silent[0])}"))

    def _is_silent(self, rank: Rank, now: float) -> bool:
        """Quiet for too long: at once when the kernel says that it is stopped, later when it may only lack a core."""
        quiet_s = now - rank.heard
        if quiet_s <= SILENCE_S:
            return False
        if rank.local and processes.state(rank.pid) in ("T", "t", "", "Z"):
            return True
        # While libraries load, imports hold Python's lock, and the heartbeat with it.
        return quiet_s > (_LOADING_SILENCE_S if rank.at[1] == "start" else _BUSY_SILENCE_S)

    def _look_at_errors(self, now: float) -> None:
        for rank in self.ranks.values():
            if rank.error is not None:
                at, _, kind = rank.error
                if kind in _KINDS or now - at > _ERROR_GRACE_S:
                    self._blame_error(rank)

    def _blame_error(self, rank: Rank) -> None:
        assert rank.error is not None
        _, text, kind = rank.error
        if kind in _KINDS:
            self.decide(_KINDS[kind](text))
        elif kind == "interrupted":
            self._interrupt()
        elif kind == "terminated":
            self.decide(MeasurementError(f"{rank} was ended by its launcher {self._where(rank)}"))
        else:
            self.decide(MeasurementError(f"{rank} failed {self._where(rank)}: {text}"))

    def _look_at_progress(self, now: float) -> None:
        alive = [r for r in self.ranks.values() if not r.done and r.gone is None]
        if len(self.ranks) < self.world_size or not alive or any(r.at[1] == "start" or r.error for r in alive):
            return
        if all(now - r.moved > r.limit_s for r in alive):
            behind = min(alive, key=_order)
            limit = f"no progress for {format_time(behind.limit_s)}"
            if _order(behind) == _order(max(alive, key=_order)):
                self.decide(RankLost(f"all ranks hang {self._where(behind)} ({limit}): the transport is stuck"))
            else:
                self.decide(RankLost(f"{behind} hangs {self._where(behind)} ({limit}) while the others wait for it"))

    def _where(self, rank: Rank) -> str:
        item, phase, batch, call = rank.at
        if not 0 <= item < len(self.labels):
            return "during set-up" if item < 0 else "between rows"
        return f"in {self.labels[item]} ({phase}, batch {batch}, call {call})"

    # --- the end --------------------------------------------------------------------------------------------------

    def _interrupt(self) -> None:
        self.decide(Interrupted("interrupted; every finished row is kept"))

    async def _end(self) -> None:
        """Tell every rank, give them a moment, and end whoever is left, with what they leave behind."""
        self._hand_on_rows()
        local = [r for r in self.ranks.values() if r.local]
        for rank in local:
            self._mapped |= processes.shared_memory_of(rank.pid)
        if self.verdict is None:
            for rank in self.ranks.values():
                self._say(rank, "bye", status=self._status)
            await self._wait_for_children(30.0)
            return
        silent = [r for r in self.ranks.values() if r.gone is None and time.monotonic() - r.heard > SILENCE_S]
        doomed = [[r.host, r.pid] for r in silent]
        for rank in self.ranks.values():
            self._say(rank, "verdict", status=self.verdict.exit_status, kill=doomed)
        for rank in silent:
            if rank.local:
                processes.kill(rank.pid)
        deadline = time.monotonic() + _END_GRACE_S
        while time.monotonic() < deadline and any(processes.state(r.pid) not in ("", "Z") for r in local):
            await asyncio.sleep(0.02)
        for rank in local:
            processes.kill(rank.pid)
        for child in self.children.values():
            if child.returncode is None:
                for pid in processes.descendants(child.pid):
                    self._mapped |= processes.shared_memory_of(pid)
                    processes.kill(pid)
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
        await self._wait_for_children(5.0)
        processes.remove_shared_memory(self._mapped)

    async def _wait_for_children(self, limit_s: float) -> None:
        waits = [asyncio.create_task(child.wait()) for child in self.children.values()]
        if waits:
            _, late = await asyncio.wait(waits, timeout=limit_s)
            for child in self.children.values():
                if late and child.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        child.kill()


_PHASES = ("start", "prepare", "check", "warm-up", "timing", "report")


def _order(rank: Rank) -> tuple[int, int, int, int]:
    """How far a rank has come: row, phase, batch, call."""
    item, phase, batch, call = rank.at
    return item, _PHASES.index(phase) if phase in _PHASES else 0, batch, call


def _is_own_user(writer: asyncio.StreamWriter) -> bool:
    """On a Unix socket the other end must be a process of this user."""
    line = writer.get_extra_info("socket")
    if line.family != socket.AF_UNIX:
        return True
    _, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return bool(uid == os.getuid())
