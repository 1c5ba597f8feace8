"""A backend of its own clock: no wires, a cost model, noise, and faults on request. For tests and demonstrations.

Time does not pass; the clock advances by what the model says, alpha + S f(N)/B with noise. Data really moves, through
the supervisor, whenever the input was filled anew since the last call, so that checking is real.

`--fake "alpha=5us,bandwidth=20GB/s,jitter=0.05,fault=swap"` sets it up; the keys are those of FakeOptions, and those of
the noise (see fake_noise), where each launch of `--repeats` draws its own and `seed` tells two runs apart. Faults: swap (two shards change places), drop (one contribution is left out), stale (the last
call's output again), hang=R (rank R stops answering at its 100th timed call), die=R, raise=R. beside=1.4:1.2 says how many
times as long calls and matrix products take beside each other (--with-compute).
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from busbw.bench.backends.base import LAUNCH_VARIABLE, Backend, Device, Group, Issue, Progress, Seat, tile
from busbw.bench.backends.fake_noise import NoiseModel, parse_noise
from busbw.bench.check import numpy_dtype
from busbw.bench.point_to_point import COMBINERS, modelled_s, run_together
from busbw.bench.work import Item
from busbw.core.collective import Collective, Place
from busbw.errors import UsageError
from busbw.units import parse_rate, parse_time

FAULTS = ("swap", "drop", "stale", "hang", "die", "raise")


@dataclass
class FakeOptions:
    """What the fake machine is like."""

    alpha_s: float = 5e-6
    bandwidth_Bps: float = 20e9  # noqa: N815
    slow_rank: int = -1
    slow_factor: float = 1.0
    fault: str = ""
    fault_rank: int = -1
    one_device: bool = False
    """All ranks say that they use the same accelerator."""
    noise: str = ""
    beside: tuple[float, float] = (1.0, 1.0)
    """How many times as long calls and matrix products take beside each other."""

    @classmethod
    def parse(cls, text: str) -> FakeOptions:
        """Read `key=value,key=value`; keys that are not the machine's own are the noise's."""
        options = cls()
        noise: list[str] = []
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            key, _, value = part.partition("=")
            try:
                if key == "alpha":
                    options.alpha_s = parse_time(value)
                elif key == "bandwidth":
                    options.bandwidth_Bps = parse_rate(value)
                elif key == "slow":
                    rank, _, factor = value.partition(":")
                    options.slow_rank, options.slow_factor = int(rank), float(factor)
                elif key == "beside":
                    calls, _, products = value.partition(":")
                    options.beside = float(calls), float(products or 1.0)
                elif key == "one_device":
                    options.one_device = value in ("", "1", "yes")
                elif key == "fault":
                    options.fault, _, rank = value.partition(":")
                    if options.fault not in FAULTS:
                        raise UsageError(f"fault {options.fault!r}: choose from {', '.join(FAULTS)}")
                    options.fault_rank = int(rank or 0)
                else:
                    noise.append(part)
            except ValueError as error:
                raise UsageError(f"--fake {part!r}: {error}") from error
        options.noise = ",".join(noise)
        parse_noise(options.noise)
        return options


class FakeBackend(Backend):
    """Collectives on a clock of their own."""

    def __init__(self, name: str = "fake", settings_text: str = "") -> None:
        super().__init__(name, settings_text)
        self.options = FakeOptions.parse(settings_text)
        self.now_s = 0.0
        self._fresh: set[int] = set()
        self._last: dict[int, NDArray[Any]] = {}
        self._issued = 0
        self.is_computing = False

    def locate(self, seat: Seat) -> Device:
        """No device."""
        return Device("fake:0", "GPU-0") if self.options.one_device else Device("fake", "")

    def start(self, seat: Seat, timeout_s: float) -> None:
        """Join the other ranks: they meet at the supervisor."""
        self.rank, self.world_size, self._seat = seat.rank, seat.world_size, seat
        self.noise: NoiseModel = parse_noise(
            self.options.noise, rank=seat.rank, launch=int(os.environ.get(LAUNCH_VARIABLE, "0"))
        )

    def versions(self) -> dict[str, str]:
        """Nothing that decides the speed."""
        return {}

    def supports(self, collective: Collective, dtype: str, redop: str | None, in_place: bool) -> str | None:
        """Everything that numpy has a type for."""
        return f"fake has no {dtype}" if numpy_dtype(dtype) is None else None

    def make_groups(self, groups: Sequence[Sequence[int]]) -> list[Group]:
        """Groups need no communicators here."""
        return [Group(tuple(ranks), index) for index, ranks in enumerate(groups)]

    def allocate(self, count: int, dtype: str) -> NDArray[Any]:
        """A numpy array."""
        return np.ones(count, numpy_dtype(dtype))

    def fill(self, buffer: NDArray[Any], period: NDArray[Any]) -> None:
        """Write the values, and remember that the next call has to move data."""
        tile(buffer, period)
        self._moves_next = True

    def download(self, part: NDArray[Any]) -> NDArray[Any]:
        """The array itself."""
        return part

    def prepare(self, item: Item, send: Any, recv: Any, group: Group) -> Issue:
        """Advance the clock by the model's cost; move data when the input is fresh."""
        call = item.call
        alpha_s, rate = self.options.alpha_s, self.options.bandwidth_Bps
        carried = call.size_bytes * call.kind.bus_factor(group.size) if group.size > 1 else 0.0
        base_s = alpha_s + carried / rate
        if item.schedule is not None:
            base_s = modelled_s(item.schedule, call.size_bytes, alpha_s, rate)
        if self.rank == self.options.slow_rank:
            base_s *= self.options.slow_factor
        self._base_s = base_s
        self._moves_next = True
        self.noise.begin_row()

        def issue() -> None:
            if self._moves_next:
                self._moves_next = False
                self._move(item, send, recv, group)
            self.now_s += base_s
            self._issued += 1

        return issue

    def supports_schedule(self, collective: Collective, dtype: str, redop: str | None) -> str | None:
        """What numpy can add."""
        if redop is not None and redop not in COMBINERS:
            return f"a schedule has no {redop} reduction"
        return self.supports(collective, dtype, redop, False)

    def prepare_schedule(self, item: Item, send: Any, recv: Any, group: Group) -> Issue:
        """The same, but the data is moved by the schedule's scripts, and each round costs alpha and its bytes."""
        return self.prepare(item, send, recv, group)

    def time_batch(self, issue: Issue, calls: int, progress: Progress) -> float:
        """The model's cost with the noise of `calls` consecutive calls; each call is still issued."""
        start = self.now_s
        for progress.call in range(calls):
            issue()
        self._maybe_fail(progress)
        base_s = self._base_s * (self.options.beside[0] if self.is_computing else 1.0)
        taken = float(self.noise.draw(base_s, calls).sum()) if self.options.noise else base_s * calls
        self.now_s = start + taken
        return taken

    def time_isolated(self, issue: Issue, calls: int, progress: Progress) -> float:
        """As time_batch: nothing overlaps here."""
        return self.time_batch(issue, calls, progress)

    def time_calls(self, issue: Issue, calls: int, progress: Progress) -> NDArray[np.float64]:
        """Single calls of the noise model."""
        for progress.call in range(calls):
            issue()
        base = np.full(calls, self._base_s)
        return self.noise.draw(self._base_s, calls) if self.options.noise else base

    def load(self, size: int) -> FakeLoad:
        """Products on the same clock, 1 ms each when alone."""
        return FakeLoad(self, size)

    def issued(self) -> int:
        """Calls so far."""
        return self._issued

    def barrier(self) -> None:
        """Meet at the supervisor."""
        self._seat.gather(None)

    def gather(self, values: Sequence[float]) -> NDArray[np.float64]:
        """Every rank's values, through the supervisor."""
        if self.world_size == 1:
            return np.array([list(values)])
        return np.array(self._seat.gather(list(values)), dtype=np.float64)

    def free_bytes(self) -> int:
        """A fixed gibibyte, the same on every machine."""
        return 1 << 30

    def _maybe_fail(self, progress: Progress) -> None:
        options = self.options
        if self.rank != options.fault_rank or self._issued < 100 or not options.fault:
            return
        if options.fault == "die":
            os._exit(9)
        if options.fault == "hang":
            time.sleep(3600)
        if options.fault == "raise":
            raise RuntimeError("the fake backend was asked to fail")

    def _move(self, item: Item, send: Any, recv: Any, group: Group) -> None:
        """Do what the postcondition says, on real data, with the fault that was asked for."""
        collective, size = item.call.kind, group.size
        if collective.moves_data is False:
            self.barrier()
            return
        mine = "" if send is None else base64.b64encode(send.tobytes()).decode()
        kind = numpy_dtype(item.call.dtype or "uint8")
        inputs = {
            rank: np.frombuffer(base64.b64decode(data), kind)
            for rank, data in enumerate(self._seat.gather(mine))
            if rank in group.ranks
        }
        if item.schedule is not None:
            self._move_by_schedule(item, [inputs[rank] for rank in group.ranks], recv, group)
            return
        place = Place(item.count, size, group.rank, item.call.root or 0)
        faulty = self.rank == max(self.options.fault_rank, 0)
        before = None if recv is None else recv.copy()
        combine = {"prod": np.multiply, "min": np.minimum, "max": np.maximum}.get(item.call.redop or "", np.add)
        for piece in collective.postcondition(place):
            sources = piece.sources
            if self.options.fault == "drop" and faulty and len(sources) > 1:
                sources = sources[1:]
            total: Any = None
            for rank, first in sources:
                data = inputs[group.ranks[rank]][first : first + piece.length]
                total = data if total is None else combine(total, data)
            if item.call.redop == "avg":
                total = (total / size).astype(recv.dtype)
            recv[piece.start : piece.start + piece.length] = total
        if recv is not None:
            self._spoil(recv, before, faulty)

    def _move_by_schedule(self, item: Item, inputs: list[NDArray[Any]], recv: Any, group: Group) -> None:
        """Carry out every rank's script here, and take this rank's output."""
        assert item.schedule is not None
        given = [data if len(data) else None for data in inputs]
        before = None if recv is None else recv.copy()
        outputs = run_together(item.schedule, item.count, item.call.root or 0, given, item.call.redop or "sum")
        if recv is not None:
            recv[:] = outputs[group.rank]
            self._spoil(recv, before, self.rank == max(self.options.fault_rank, 0))

    def _spoil(self, recv: Any, before: Any, faulty: bool) -> None:
        """Do to the output what the fault that was asked for does."""
        if self.options.fault == "swap" and faulty and len(recv) > 1:
            half = len(recv) // 2
            recv[:half], recv[half : 2 * half] = recv[half : 2 * half].copy(), recv[:half].copy()
        if self.options.fault == "stale" and faulty:
            last = self._last.get(len(recv))
            self._last[len(recv)] = recv.copy()
            recv[:] = before if last is None else last


class FakeLoad:
    """Matrix products on the fake backend's clock: slower while calls are issued beside them."""

    def __init__(self, backend: FakeBackend, size: int) -> None:
        self.what = f"GEMM {size} fake"
        self._backend, self._issued = backend, 0

    def start(self) -> None:
        """Calls from now on are beside products."""
        self._backend.is_computing = True
        self._issued = self._backend.issued()

    def rate(self) -> float:
        """A thousand products a second, alone."""
        has_company = self._backend.issued() > self._issued
        return 1000.0 / (self._backend.options.beside[1] if has_company else 1.0)

    def stop(self) -> None:
        """Calls from now on are alone."""
        self._backend.is_computing = False

    def rest(self, seconds: float) -> None:
        """Let the clock run."""
        self._backend.now_s += seconds

    def close(self) -> None:
        """Nothing to end."""
