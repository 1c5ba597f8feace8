"""Lines against a machine of which everything is known: 10 us a call and 1 GB/s."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.core.bill import Bill, Line
from busbw.core.call import Call
from busbw.core.cost_model import Estimate
from busbw.errors import UsageError
from busbw.traces.judging import advise, judge, size_class, sums


class Straight:
    """T = 10 us + S / (1 GB/s)."""

    def estimate(self, call: Call) -> Estimate:
        if call.collective == "gather":
            raise UsageError("not measured")
        wire = call.size_bytes / 1e9
        return Estimate(1e-5 + wire, 1e-5 + wire, 1e-5 + wire, 1e-5, wire)


def line(
    collective: str = "all_reduce",
    size: int = 1000,
    count: int = 1,
    name: str = "",
    seconds: float | None = None,
    **more: object,
) -> Line:
    estimate = None if seconds is None else Estimate(seconds, seconds, seconds, 0.0, seconds)
    call = Call(collective, size, 4, "float32", root=0 if collective == "broadcast" else None)
    plain = Line(call, "world", count, "backward", name, size, estimate=estimate)
    return replace(plain, **more)  # type: ignore[arg-type]


def step(*lines: Line) -> Bill:
    return Bill("steady", 0, lines)


def test_the_boundary_is_where_latency_and_wire_are_equal() -> None:
    """10 us at 1 GB/s are 10 000 B."""
    below, at, above, unknown = judge([line(size=9999), line(size=10000), line(size=10001), line("gather")], Straight())
    assert [each.below_boundary for each in (below, at, above, unknown)] == [True, True, False, None]
    assert judge([line()], None)[0].below_boundary is None


def test_share_of_the_machine() -> None:
    """20 us expected, 80 us taken."""
    (row,) = judge([line(size=10000, seconds=8e-5)], Straight())
    assert row.share_of_machine == pytest.approx(0.25)
    assert row.to_json()["expected_seconds"] == pytest.approx(2e-5)


def test_small_calls_joined_save_a_launch_each() -> None:
    """48 calls of 1 000 B: 48 x 11 us apart, 58 us together."""
    (advice,) = [each for each in advise(step(line(count=48, name="bucket 0")), Straight()) if "boundary" in each.text]
    assert advice.saved_s == pytest.approx(47 * 1e-5)
    assert "one call of 46.88 KiB takes 58.0 us instead of 528 us; raise bucket_cap_mb" in advice.text
    other = step(line(), line("all_gather"), line(group="dp"), line(phase="forward"))
    assert [each for each in advise(other, Straight()) if "boundary" in each.text] == []


def test_gradients_in_float32_could_be_halves() -> None:
    (advice,) = [each for each in advise(step(line(size=10**6)), Straight()) if "float32" in each.text]
    assert advice.saved_s == pytest.approx(5e-4)


def test_buffers_barriers_and_gathers_are_priced_as_they_were_measured() -> None:
    buffers = line("broadcast", name="DistributedDataParallel", phase="forward", seconds=3e-3, count=2)
    barrier = line("barrier", 0, seconds=2e-3, phase="other", notes={"call_site": "a.py:1 f"})
    gathers = [line("all_gather", name="one", phase=phase, seconds=1e-3) for phase in ("forward", "backward")]
    texts = {each.text.split(" ")[0]: each.saved_s for each in advise(step(buffers, barrier, *gathers), None)}
    assert texts == {"buffers": pytest.approx(6e-3), "1": pytest.approx(1e-3)} | {"1": pytest.approx(texts["1"])}
    assert sum(each.saved_s for each in advise(step(buffers, barrier, *gathers), None)) == pytest.approx(9e-3)


def test_waiting_is_not_the_networks() -> None:
    (advice,) = advise(step(line(notes={"wait_us": "1500"}, count=2)), None)
    assert advice.saved_s == pytest.approx(3e-3)
    assert advice.basis == "arrivals"


def test_lines_slower_than_the_machine() -> None:
    """20 us expected; 100 us taken, five times."""
    found = [each for each in advise(step(line(size=10000, count=5, seconds=1e-4)), Straight()) if "alone" in each.text]
    assert found[0].saved_s == pytest.approx(5 * 8e-5)
    assert "20 % of its rate" in found[0].text


def test_sums_and_size_classes() -> None:
    found = sums([line(size=100), line(size=300, count=2), line("all_gather", 50)], lambda each: each.call.collective)
    assert {name: (part.calls, part.size_bytes) for name, part in found.items()} == {
        "all_reduce": (3, 700),
        "all_gather": (1, 50),
    }
    assert [size_class(line(size=size)) for size in (1, 15, 16, 2**20, 0)] == [
        "1 B to 16 B", "1 B to 16 B", "16 B to 256 B", "1 MiB to 16 MiB", "no data",
    ]  # fmt: skip
