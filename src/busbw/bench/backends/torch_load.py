"""Matrix products on a GPU's own stream, beside the collectives of the same process."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

_IN_FLIGHT = 3


class StreamLoad:
    """Products of bfloat16 matrices of size x size, issued by a thread that keeps three of them in flight.

    A product counts when its event has been seen to be done, so its time is late by as much as the thread wakes late.
    """

    def __init__(self, torch: Any, device: Any, size: int) -> None:
        self.what = f"GEMM {size} bfloat16"
        self._torch, self._device = torch, device
        self._a = torch.full((size, size), 0.5, dtype=torch.bfloat16, device=device)
        self._b = torch.full((size, size), 0.25, dtype=torch.bfloat16, device=device)
        self._out = torch.empty_like(self._a)
        self._stream = torch.cuda.Stream(device=device)
        self._wanted, self._ended = threading.Event(), False
        self._rests = threading.Event()
        self._count, self._began, self._last = 0, 0.0, 0.0
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._rests.set()
        torch.matmul(self._a, self._b, out=self._out)
        torch.cuda.synchronize(device)
        self._thread.start()

    def start(self) -> None:
        """Compute, again and again, until `stop`."""
        self._count = 0
        self._rests.clear()
        self._wanted.set()

    def rate(self) -> float:
        """Products a second since `start`, up to the last that is done; 0 when none is."""
        count, last = self._count, self._last
        return count / (last - self._began) if count and last > self._began else 0.0

    def stop(self) -> None:
        """Come to rest: the products in flight are finished."""
        self._wanted.clear()
        self._rests.wait(60.0)

    def rest(self, seconds: float) -> None:
        """Do nothing but compute for so long."""
        time.sleep(seconds)

    def close(self) -> None:
        """End the thread."""
        self._ended = True
        self._wanted.set()
        self._thread.join(60.0)

    def _work(self) -> None:
        torch = self._torch
        torch.cuda.set_device(self._device)
        while True:
            self._wanted.wait()
            if self._ended:
                return
            self._began = time.perf_counter()
            flying: deque[Any] = deque()
            while self._wanted.is_set() and not self._ended:
                with torch.cuda.stream(self._stream):
                    torch.matmul(self._a, self._b, out=self._out)
                    event = torch.cuda.Event(blocking=True)
                    event.record(self._stream)
                flying.append(event)
                if len(flying) >= _IN_FLIGHT:
                    self._done(flying.popleft())
            while flying:
                flying.popleft().synchronize()
            self._rests.set()

    def _done(self, event: Any) -> None:
        event.synchronize()
        self._last = time.perf_counter()
        self._count += 1
