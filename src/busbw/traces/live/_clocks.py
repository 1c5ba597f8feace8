"""Ranks' clocks on one time, through the job's store: what a rank has to add to its clock to have rank 0's.

Processes of one host read the same monotonic clock, so only one rank of each other host asks: it writes a question
into the store, rank 0 answers with its clock, and half of the fastest round trip is how far the result can be off.
Clocks drift by some microseconds a second, so it is asked again every few seconds. All of it runs in a thread with a
connection of its own, and nothing of it may disturb the job: whatever fails only leaves times that are not compared.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol

ROUNDS = 16
_EVERY_S = 5.0
_IDLE_S = 0.25
_PREFIX = "busbw/clock"


class Store(Protocol):
    """What is used of torch's stores."""

    def set(self, key: str, value: str) -> Any: ...
    def get(self, key: str) -> bytes: ...
    def add(self, key: str, amount: int) -> int: ...
    def check(self, keys: list[str]) -> bool: ...


def ask(store: Store, clock: Callable[[], int], rounds: int = ROUNDS) -> tuple[int, int, int] | None:
    """(own clock, offset to rank 0's, how far it can be off), in nanoseconds: from the fastest of some round trips.

    None when rank 0 does not answer within a second. Nothing here waits inside the store, because a thread that still
    does when Python ends takes the process down.
    """
    best: tuple[int, int, int] | None = None
    for _ in range(rounds):
        number = store.add(f"{_PREFIX}/asked", 1)
        key = f"{_PREFIX}/answer/{number}"
        before = clock()
        store.set(f"{_PREFIX}/ask/{number}", "1")
        until = time.monotonic() + 1.0
        while not store.check([key]):
            if time.monotonic() > until:
                return None
        after = clock()
        theirs = int(store.get(key))
        if best is None or after - before < 2 * best[2]:
            best = ((before + after) // 2, theirs - (before + after) // 2, (after - before + 1) // 2)
    return best


def answer(store: Store, clock: Callable[[], int], number: int) -> int:
    """Answer questions from `number` on as long as they follow each other; returns the number of the next one."""
    while store.check([f"{_PREFIX}/ask/{number}"]):
        store.set(f"{_PREFIX}/answer/{number}", str(clock()))
        number += 1
        until = time.monotonic() + 0.02
        while time.monotonic() < until and not store.check([f"{_PREFIX}/ask/{number}"]):
            pass  # a round of questions: look without a pause, for what waits is the asker's clock
    return number


def align(
    rank: int, world_size: int, boot_id: str, write: Callable[[int, int, int], None], stop: threading.Event
) -> None:
    """Keep this rank's offset known until `stop`; `write(own clock, offset, uncertainty)` gets each, in nanoseconds.

    To be run in a thread. Returns at once where all ranks are of one host.
    """
    if world_size < 2 or os.environ.get("LOCAL_WORLD_SIZE") == str(world_size):
        return
    with contextlib.suppress(Exception):
        store = connect()
        if store is not None:
            _serve(store, boot_id, stop) if rank == 0 else _follow(store, boot_id, write, stop)


def _serve(store: Any, boot_id: str, stop: threading.Event) -> None:
    store.set(f"{_PREFIX}/host", boot_id)
    number = 1
    while not stop.wait(_IDLE_S):
        number = answer(store, time.perf_counter_ns, number)


def _follow(store: Any, boot_id: str, write: Callable[[int, int, int], None], stop: threading.Event) -> None:
    while not store.check([f"{_PREFIX}/host"]):
        if stop.wait(_IDLE_S):
            return
    if store.get(f"{_PREFIX}/host").decode() == boot_id:
        return
    leads = store.add(f"{_PREFIX}/rank of {boot_id}", 1) == 1
    turn = 0
    while True:
        key = f"{_PREFIX}/offset of {boot_id}/{turn}"
        if leads and (found := ask(store, time.perf_counter_ns)) is not None:
            store.set(key, ",".join(map(str, found)))
        elif not leads and store.check([key]):
            found = _three(store.get(key).decode())
        else:
            if stop.wait(_IDLE_S):
                return
            continue
        write(*found)
        turn += 1
        if stop.wait(_EVERY_S if leads else _IDLE_S):
            return


def _three(text: str) -> tuple[int, int, int]:
    at, offset, uncertainty = map(int, text.split(","))
    return at, offset, uncertainty


def connect() -> Any:
    """A connection of our own to the store of the job; None where its kind has no second one."""
    import torch.distributed as dist

    store = dist.distributed_c10d._get_default_store()
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    limit = timedelta(seconds=60)
    if isinstance(store, dist.TCPStore):
        own: Any = dist.TCPStore(store.host, store.port, None, False, limit, wait_for_workers=False)
        return dist.PrefixStore("busbw-capture", own)
    return None
