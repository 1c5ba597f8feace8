"""Which calls are timed, and times on a GPU's streams, with a GPU that is a clock."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from busbw.traces.live._times import CudaTimes, Sampling


def test_the_first_steps_and_then_each_32nd() -> None:
    timed = [segment for segment in range(1, 100) if Sampling("sampled").timed(segment, 10**6)]
    assert timed == [1, 2, 3, 4, 32, 64, 96]


def test_without_steps_blocks_of_calls() -> None:
    blocks = {sequence // 64 for sequence in range(64 * 70) if Sampling("sampled").timed(0, sequence)}
    assert blocks == {0, 32, 64}
    assert all(Sampling("all").timed(segment, 7) and not Sampling("none").timed(segment, 7) for segment in (0, 9))


class Cuda:
    """A device whose clock runs 50 s behind the host's; a stream is the time at which it will be done, in ms."""

    def __init__(self) -> None:
        self.now_ms = (time.perf_counter_ns() - 50_000_000_000) / 1e6
        self.capturing = False
        self.streams: dict[str, float] = {"program": self.now_ms}
        self.current = "program"

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def current_stream(self, device: int) -> str:
        return self.current

    def Stream(self, device: int) -> str:  # noqa: N802
        name = f"ours {len(self.streams)}"
        self.streams[name] = self.now_ms
        return name

    @contextlib.contextmanager
    def stream(self, name: str) -> Iterator[None]:
        before, self.current = self.current, name
        yield
        self.current = before

    def Event(self, enable_timing: bool) -> Any:  # noqa: N802
        cuda = self

        class Event:
            at = 0.0

            def record(self, stream: str) -> None:
                self.at = max(cuda.streams[stream], cuda.now_ms)

            def query(self) -> bool:
                return self.at <= cuda.now_ms

            def synchronize(self) -> None:
                assert self.query(), "only a stream without work is waited for"

            def elapsed_time(self, other: Any) -> float:
                return float(other.at - self.at)

        return Event()


class Work:
    """NCCL's: waiting for it makes the current stream wait."""

    def __init__(self, cuda: Cuda, done_ms: float) -> None:
        self.cuda, self.done_ms = cuda, done_ms

    def wait(self) -> None:
        streams, name = self.cuda.streams, self.cuda.current
        streams[name] = max(streams[name], self.done_ms)


def test_a_gpus_times_are_on_the_hosts_clock_and_are_never_waited_for() -> None:
    """The program's stream is busy for 3 ms more, so the call can start only then; NCCL is done 5 ms later."""
    cuda = Cuda()
    times = CudaTimes(cuda, lambda work: work)
    cuda.streams["program"] = cuda.now_ms + 3
    record: list[Any] = [0, 0, 0, time.perf_counter_ns(), None]
    begin = times.arrived(0)
    host_ns = time.perf_counter_ns()
    times.issued(record, Work(cuda, cuda.now_ms + 8), 0, begin)
    assert cuda.current == "program"
    assert cuda.streams["program"] == pytest.approx(cuda.now_ms + 3)  # the program's stream does not wait
    assert times.collect() == []
    cuda.now_ms += 8
    assert times.collect() == [record]
    assert record[3] - host_ns == pytest.approx(3e6, abs=1e6)
    assert record[4] - record[3] == pytest.approx(5e6, abs=10)
    assert times.collect() == []


def test_calls_in_a_cuda_graph_are_not_timed() -> None:
    cuda = Cuda()
    cuda.capturing = True
    assert CudaTimes(cuda, lambda work: work).arrived(0) is None


def test_steps_that_are_asked_for_are_timed_from_their_first() -> None:
    sampling = Sampling("sampled", 10)
    assert [step for step in range(1, 40) if sampling.timed(step, 1000)] == [10, 11, 12, 13, 14, 32]
    assert [step for step in range(1, 40) if Sampling("sampled").timed(step, 1000)] == [1, 2, 3, 4, 32]
