"""What a backend is: it owns this rank's buffers, issues calls, and times a batch of them on this rank's clock."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from busbw.bench.load import Load, ProcessLoad
from busbw.bench.work import Item
from busbw.core.collective import Collective
from busbw.errors import UsageError

Issue = Callable[[], object]
"""Issues one call; on a CPU backend it returns when this rank's part is done."""

Post = tuple[Any, int]
"""A part of a buffer, and the rank in the group that it goes to or comes from."""

LAUNCH_VARIABLE = "BUSBW_LAUNCH"
"""The environment variable that tells a rank which launch of the same work it belongs to, from 0."""


class Progress:
    """Where this rank is; the timed loop stores its index here and the heartbeat reads it, so it costs no call."""

    __slots__ = ("batch", "call", "item", "limit_s", "phase")

    def __init__(self) -> None:
        self.item = -1
        self.phase = "start"
        self.batch = 0
        self.call = 0
        self.limit_s = 60.0


@dataclass(frozen=True, slots=True)
class Seat:
    """Where the launcher has put this rank, before the backend is started."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    publish: Callable[[str, str], None]
    """Leave a value for the other ranks with the supervisor."""
    look_up: Callable[[str], str]
    """Wait for a value that another rank publishes."""
    gather: Callable[[Any], list[Any]]
    """Exchange a JSON value with all ranks through the supervisor; slow, for set-up and for the fake backend."""


@dataclass(frozen=True, slots=True)
class Device:
    """What a rank computes and communicates on."""

    name: str
    """For people: `cpu`, `cuda:0 NVIDIA H100`."""
    identity: str
    """The same for two ranks only when they share one accelerator; empty on CPUs, which are shared by nature."""


@dataclass
class Group:
    """The ranks that run one collective together."""

    ranks: tuple[int, ...]
    index: int
    handle: Any = None
    rank: int = field(default=0)

    @property
    def size(self) -> int:
        """Ranks in the group."""
        return len(self.ranks)


class Backend(ABC):
    """One way to run collectives. Made on every rank; `start` joins the ranks."""

    name: str
    is_gpu = False

    def __init__(self, name: str, settings_text: str = "") -> None:
        self.name = name
        self.rank = 0
        self.world_size = 1

    @abstractmethod
    def locate(self, seat: Seat) -> Device:
        """Choose this rank's device, before the ranks are joined."""

    @abstractmethod
    def start(self, seat: Seat, timeout_s: float) -> None:
        """Join the other ranks."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Libraries that decide the speed, with versions."""

    @abstractmethod
    def supports(self, collective: Collective, dtype: str, redop: str | None, in_place: bool) -> str | None:
        """None when this backend can run it, otherwise the reason why not."""

    @abstractmethod
    def make_groups(self, groups: Sequence[Sequence[int]]) -> list[Group]:
        """Communicators of the given ranks; all ranks call it with the same list."""

    @abstractmethod
    def allocate(self, count: int, dtype: str) -> Any:
        """A buffer of `count` elements, touched, so that its pages exist."""

    @abstractmethod
    def fill(self, buffer: Any, period: NDArray[Any]) -> None:
        """Write one period of values over the buffer, again and again."""

    @abstractmethod
    def download(self, part: Any) -> NDArray[Any]:
        """The values of a buffer in numpy, exactly."""

    @abstractmethod
    def prepare(self, item: Item, send: Any, recv: Any, group: Group) -> Issue:
        """A function without arguments that issues one call of the item on these buffers."""

    def supports_schedule(self, collective: Collective, dtype: str, redop: str | None) -> str | None:
        """None when this backend can carry out a schedule of it as point-to-point calls, otherwise the reason why not."""
        return f"{self.name} has no point-to-point calls for a schedule"

    def prepare_schedule(self, item: Item, send: Any, recv: Any, group: Group) -> Issue:
        """As `prepare`, for an item with a schedule; `busbw.bench.point_to_point` has the form of most backends."""
        reason = self.supports_schedule(item.call.kind, item.call.dtype or "uint8", item.call.redop)
        raise UsageError(f"--algorithm {item.algorithm}: {reason}")

    @abstractmethod
    def barrier(self) -> None:
        """Return when every rank of the world has arrived and this rank's calls are done."""

    @abstractmethod
    def gather(self, values: Sequence[float]) -> NDArray[np.float64]:
        """Every rank's values, shape (world, len(values)); outside of timed code."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Memory that this rank may allocate for buffers."""

    def warning(self) -> str | None:
        """What is known to make this backend's numbers doubtful here; None when nothing is."""
        return None

    def time_batch(self, issue: Issue, calls: int, progress: Progress) -> float:
        """Seconds that `calls` back-to-back calls took on this rank."""
        clock = time.perf_counter
        start = clock()
        for progress.call in range(calls):
            issue()
        return clock() - start

    def time_isolated(self, issue: Issue, calls: int, progress: Progress) -> float:
        """Seconds that `calls` calls took, each after a barrier that is not counted."""
        clock = time.perf_counter
        total = 0.0
        for progress.call in range(calls):
            self.barrier()
            start = clock()
            issue()
            total += clock() - start
        return total

    def time_calls(self, issue: Issue, calls: int, progress: Progress) -> NDArray[np.float64] | None:
        """Seconds of each of `calls` back-to-back calls; None where a single call cannot be timed without a pause."""
        if self.is_gpu:
            return None
        clock = time.perf_counter
        marks = [clock()]
        for progress.call in range(calls):
            issue()
            marks.append(clock())
        return np.diff(marks)

    def aggregate(self, issue: Issue, calls: int, group: Group) -> Issue:
        """A function that issues `calls` calls as one group launch."""
        raise UsageError(f"-m {calls}: {self.name} has no group launches")

    def capture(self, issue: Issue, calls: int) -> Issue:
        """A function that replays `calls` calls as one CUDA graph."""
        raise UsageError(f"--cuda-graph {calls}: {self.name} has no CUDA graphs")

    def load(self, size: int) -> Load:
        """Matrix products of size x size that can run beside the calls."""
        return ProcessLoad(size)

    def synchronize(self) -> None:
        """Wait until this rank's issued calls are done."""
        return

    def close(self) -> None:
        """Leave the other ranks."""
        return


def tile(out: NDArray[Any], period: NDArray[Any]) -> None:
    """Write `period` over a one-dimensional numpy array, again and again."""
    whole = len(out) // len(period) * len(period)
    out[:whole].reshape(-1, len(period))[:] = period
    out[whole:] = period[: len(out) - whole]


def available_memory_bytes() -> int:
    """Memory that programs on this host may still take: MemAvailable, cut by the cgroup's limit."""
    available = 1 << 62
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    available = int(line.split()[1]) * 1024
    except OSError:
        return 1 << 30
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            with open(limit, encoding="ascii") as a, open(used, encoding="ascii") as b:
                available = min(available, int(a.read()) - int(b.read()))
        except (OSError, ValueError):
            continue
    return max(available, 0)
