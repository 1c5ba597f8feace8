"""Computation that runs beside the collectives: matrix products, one after the other, counted.

On CPUs each rank has a process of its own for it, so that Python's lock is not measured; it shares the rank's cores
and memory, as the threads of a training step do. On GPUs it is a stream of the rank's own process, made by the backend.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import subprocess
import sys
import time
from typing import Protocol

from busbw.errors import LaunchError

_WANTED, _COUNT, _BEGAN, _LAST, _RESTS = 0, 8, 16, 24, 32
_PAUSE, _COMPUTE, _END = 0, 1, 2
_NAP_S = 0.0002

# perf_counter is one clock for all processes of a Linux host. `began` is when this stretch of products started, `last`
# when its latest product ended; the count is written after it, so a reader that sees the count sees its time.
_PROGRAM = f"""
import mmap, os, struct, sys, time
from busbw.bench.processes import die_with_parent
die_with_parent()
import numpy
size, shared = int(sys.argv[1]), mmap.mmap(int(sys.argv[2]), 0)
a, b = numpy.full((size, size), 0.5, numpy.float32), numpy.full((size, size), 0.25, numpy.float32)
out = numpy.empty_like(a)
numpy.matmul(a, b, out=out)
print("ready", flush=True)
while True:
    wanted = struct.unpack_from("q", shared, {_WANTED})[0]
    if wanted == {_COMPUTE}:
        struct.pack_into("q", shared, {_RESTS}, 0)
        struct.pack_into("d", shared, {_BEGAN}, time.perf_counter())
        struct.pack_into("q", shared, {_COUNT}, 0)
        count = 0
        while struct.unpack_from("q", shared, {_WANTED})[0] == {_COMPUTE}:
            numpy.matmul(a, b, out=out)
            count += 1
            struct.pack_into("d", shared, {_LAST}, time.perf_counter())
            struct.pack_into("q", shared, {_COUNT}, count)
        struct.pack_into("q", shared, {_RESTS}, 1)
    elif wanted == {_END}:
        break
    else:
        struct.pack_into("q", shared, {_RESTS}, 1)
        time.sleep({_NAP_S})
"""


class Load(Protocol):
    """Computation that can be started and stopped."""

    what: str
    """What a product is: `GEMM 512 float32`."""

    def start(self) -> None:
        """Compute, again and again, until `stop`."""
        ...

    def rate(self) -> float:
        """Products a second since `start`, up to the last that is done; 0 when none is."""
        ...

    def stop(self) -> None:
        """Come to rest."""
        ...

    def rest(self, seconds: float) -> None:
        """Do nothing but compute for so long."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class ProcessLoad:
    """Products of float32 matrices of size x size in a process beside this one."""

    def __init__(self, size: int) -> None:
        self.what = f"GEMM {size} float32"
        memory = os.memfd_create("busbw-load")
        os.ftruncate(memory, mmap.PAGESIZE)
        self._shared = mmap.mmap(memory, mmap.PAGESIZE)
        # One thread of BLAS: more would run on the other ranks' cores.
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(size), str(memory)],
            pass_fds=[memory],
            env={**os.environ, **threads},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        os.close(memory)
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != b"ready":
            self.close()
            raise LaunchError(f"--with-compute {size}: the process for the matrix products ended before it began")

    def start(self) -> None:
        """Compute, again and again, until `stop`."""
        struct.pack_into("q", self._shared, _COUNT, 0)
        struct.pack_into("q", self._shared, _RESTS, 0)
        self._want(_COMPUTE)

    def rate(self) -> float:
        """Products a second since `start`, up to the last that is done; 0 when none is."""
        count = struct.unpack_from("q", self._shared, _COUNT)[0]
        began, last = struct.unpack_from("dd", self._shared, _BEGAN)
        return float(count / (last - began)) if count and last > began else 0.0

    def stop(self) -> None:
        """Come to rest: the product that was begun is finished."""
        self._want(_PAUSE)
        limit = time.monotonic() + 60.0
        while not struct.unpack_from("q", self._shared, _RESTS)[0] and time.monotonic() < limit:
            if self._process.poll() is not None:
                raise LaunchError(f"the process for {self.what} has ended (exit status {self._process.returncode})")
            time.sleep(_NAP_S)
        if not struct.unpack_from("q", self._shared, _RESTS)[0]:
            raise LaunchError(f"a product of {self.what} takes more than a minute: give --with-compute a smaller size")

    def rest(self, seconds: float) -> None:
        """Do nothing but compute for so long."""
        if self._process.poll() is not None:
            raise LaunchError(f"the process for {self.what} has ended (exit status {self._process.returncode})")
        time.sleep(seconds)

    def close(self) -> None:
        """End the process."""
        self._want(_END)
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _want(self, what: int) -> None:
        ctypes.c_longlong.from_buffer(self._shared, _WANTED).value = what
