"""`with busbw.capture() as bill:` in a program of one rank, and what it leaves behind: nothing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import busbw
from busbw.errors import UsageError
from busbw.traces import read_traces

torch = pytest.importorskip("torch", reason="capturing needs torch")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A process group of this process alone."""
    import torch.distributed as dist

    meet = tmp_path_factory.mktemp("meet") / "file"
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def reduce(size: int) -> None:
    torch.distributed.all_reduce(torch.ones(size))


@pytest.mark.usefixtures("world")
class TestCapture:
    def test_lines_after_the_end_and_nothing_is_seen_before_or_after(self) -> None:
        wait = torch._C._distributed_c10d.Work.wait
        reduce(1)
        with busbw.capture(times="all") as bill:
            reduce(2)
            reduce(2)
            reduce(3)
        reduce(4)
        assert [(line.call.size_bytes, line.count, line.call.redop) for line in bill.lines] == [
            (8, 2, "sum"),
            (12, 1, "sum"),
        ]
        assert bill.bills.steady.totals().calls == 3
        assert all(line.seconds is not None and 0 < line.seconds < 5 for line in bill.lines)
        assert torch._C._distributed_c10d.Work.wait is wait

    def test_one_inside_the_other(self) -> None:
        with busbw.capture() as outer:
            reduce(2)
            with busbw.capture() as inner:
                reduce(3)
            reduce(4)
        assert [line.call.size_bytes for line in outer.lines] == [8, 12, 16]
        assert [line.call.size_bytes for line in inner.lines] == [12]

    def test_steps_that_the_program_marks(self) -> None:
        with busbw.capture() as bill:
            reduce(9)
            for size in (1, 2, 3, 3):
                bill.step()
                reduce(size)
        assert {name: [line.call.size_bytes for line in step.lines] for name, step in bill.bills.steps.items()} == {
            "constructor": [36],
            "first": [4],
            "second": [8],
            "steady": [12],
        }

    def test_an_error_in_the_program_passes_through_and_the_file_has_what_came_before(self, tmp_path: Path) -> None:
        def fail() -> None:
            with busbw.capture(tmp_path):
                reduce(5)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        (trace,) = read_traces([tmp_path])
        assert [call.kind.call.size_bytes for call in trace.calls] == [20]
        assert trace.complete

    def test_a_call_that_fails_in_torch_fails_as_ever(self) -> None:
        with busbw.capture() as bill, pytest.raises(RuntimeError):
            torch.distributed.broadcast(torch.ones(2), 5)
        reduce(1)
        assert bill.trace.lost == 0

    def test_many_calls_are_written_as_they_happen(self, tmp_path: Path) -> None:
        """512 calls fill the buffer, so of 600 most are in the file before the end."""
        with busbw.capture(tmp_path, times="none") as bill:
            for _ in range(600):
                reduce(7)
            (path,) = tmp_path.glob("rank-*.jsonl")
            early = sum(line.startswith("[") for line in path.read_text().splitlines())
        assert 512 <= early < 600
        assert len(bill.trace.calls) == 600

    def test_lines_are_written_when_they_are_a_second_old(self, tmp_path: Path) -> None:
        with busbw.capture(tmp_path):
            reduce(7)
            until = time.monotonic() + 10
            while time.monotonic() < until and not any(
                line.startswith("[") for path in tmp_path.glob("rank-*.jsonl") for line in path.read_text().splitlines()
            ):
                time.sleep(0.05)
            assert time.monotonic() < until

    def test_a_forked_child_does_not_write_into_its_parents_file(self, tmp_path: Path) -> None:
        with busbw.capture(tmp_path) as bill:
            reduce(1)
            child = os.fork()
            if child == 0:
                bill.stop()
                os._exit(0)
            os.waitpid(child, 0)
            reduce(2)
        (path,) = tmp_path.glob("rank-*.jsonl")
        assert path.read_text().count('"type":"end"') == 1
        assert len(bill.trace.calls) == 2

    def test_the_reduction_is_of_the_call_and_not_of_the_line(self) -> None:
        operators = torch.distributed.ReduceOp
        with busbw.capture() as bill:
            for _ in range(3):
                for operator in (operators.SUM, operators.MAX, operators.PRODUCT):
                    torch.distributed.all_reduce(torch.ones(4), op=operator)
        assert [line.call.redop for line in bill.lines] == ["sum", "max", "prod"] * 3

    def test_modules_are_told_apart_even_where_steps_do_not_repeat(self) -> None:
        """Layers are left out at random, so what followed a call last time says nothing of what follows it now."""

        class Layer(torch.nn.Module):
            def forward(self, x: object) -> object:
                reduce(6)
                return x

        layers = torch.nn.ModuleList(Layer() for _ in range(4))

        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = layers

            def forward(self, which: list[int]) -> None:
                for index in which:
                    self.layers[index](None)

        net, orders = Net(), [[0, 1, 2, 3], [0, 2, 3], [0, 1, 3], [1, 2], [0, 3]]
        with busbw.capture(times="none") as bill:
            for which in orders:
                bill.step()
                net(which)
        names = [call.kind.module for call in bill.trace.calls]
        assert names == [f"layers.{index}" for which in orders for index in which]

    def test_sizes_that_never_repeat_are_one_kind(self, tmp_path: Path) -> None:
        """Sequences of any length, experts' uneven loads: a line of the file stays short, and each call has its own bytes."""
        sizes = [17 * number % 1009 + 1 for number in range(300)]
        with busbw.capture(tmp_path) as bill:
            for size in sizes:
                reduce(size)
        assert [call.kind.call.size_bytes for call in bill.trace.calls] == [4 * size for size in sizes]
        (path,) = tmp_path.glob("rank-*.jsonl")
        assert path.read_text().count('"type":"kind"') == 1
        with busbw.capture() as bill:
            for size in sizes:
                reduce(size)
        assert [call.kind.call.size_bytes for call in bill.trace.calls] == [4 * size for size in sizes]

    def test_settings_that_break_a_rule(self) -> None:
        with pytest.raises(UsageError, match="choose from sampled, all, none"):
            busbw.capture(times="often").start()
        with pytest.raises(UsageError, match="must be FIRST:END"):
            busbw.capture(steps="x")
        bill = busbw.capture().start()
        with pytest.raises(UsageError, match="running already"):
            bill.start()
        bill.stop()


def test_clocks_through_a_store() -> None:
    """Rank 0's clock is 5 s ahead: found to within the round trip."""
    from busbw.traces.live._clocks import answer, ask

    store = torch.distributed.TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=20), wait_for_workers=False)
    other = torch.distributed.TCPStore(
        "127.0.0.1", store.port, None, False, timedelta(seconds=20), wait_for_workers=False
    )
    stop = threading.Event()

    def serve() -> None:
        number = 1
        while not stop.wait(0.01):
            number = answer(store, lambda: time.perf_counter_ns() + 5_000_000_000, number)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        found = ask(other, time.perf_counter_ns)
    finally:
        stop.set()
        thread.join()
    assert found is not None
    _, offset, uncertainty = found
    assert abs(offset - 5_000_000_000) <= uncertainty < 1_000_000_000
    assert ask(other, time.perf_counter_ns, rounds=1) is None  # nobody answers any more
