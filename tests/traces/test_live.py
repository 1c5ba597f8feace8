"""What a live capture sees of a job of four ranks: every operator, every way to train, worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.core.bill import Line
from busbw.core.trace import Trace
from busbw.traces import job_bills, read_traces

N = 4


def seen(trace: Trace) -> list[tuple[object, ...]]:
    """(collective, S, N, dtype, redop, root, sent) of each call."""
    return [
        (kind.call.collective, kind.call.size_bytes, kind.call.world_size, kind.call.dtype, kind.call.redop, kind.call.root,
         kind.sent_bytes)
        for kind in (call.kind for call in trace.calls)
    ]  # fmt: skip


def rank_of(job: Path, name: str, rank: int) -> Trace:
    return next(trace for trace in read_traces([job / name]) if trace.rank == rank)


def test_every_operator_has_its_whole_tensor_and_what_a_rank_sends(job: Path) -> None:
    """On rank 0. A ring of 4: all-reduce sends 2 x 3/4 S, gather and scatter as the root or not, and so on."""
    assert seen(rank_of(job, "collectives", 0)) == [
        ("all_reduce", 400, 4, "float32", "max", None, 600),
        ("broadcast", 24, 4, "int64", None, 1, 0),  # the last of the chain 1, 2, 3, 0
        ("reduce", 400, 4, "float32", "sum", 2, 400),
        ("all_gather", 80, 4, "float32", None, None, 60),
        ("all_gather", 112, 4, "float32", None, None, 84),
        ("reduce_scatter", 144, 4, "float32", "sum", None, 108),
        ("reduce_scatter", 176, 4, "float32", "sum", None, 132),
        ("all_to_all", 32, 4, "float32", None, None, 24),
        ("all_to_all_v", 16, 4, "float32", None, None, 12),  # rank r sends r + 1 elements to each, and keeps as many
        ("gather", 1600, 4, "float32", None, 1, 400),
        ("scatter", 1600, 4, "float32", None, 3, 0),
        ("all_reduce", 16, 4, "bfloat16", "sum", None, 24),
        ("all_reduce", 120, 4, "float32", "sum", None, 180),  # 10 + 20 elements, coalesced
        ("all_reduce", 24, 4, "float32", "sum", None, 36),  # sparse: 2 values of 4 B, 2 indices of 8 B
        ("all_reduce", 400, 4, "float32", "sum", None, 600),
        ("all_reduce", 200, 2, "float32", "sum", None, 200),  # ranks 0 and 2
        ("send_recv_one_way", 24, 2, "float32", None, None, 24),
        ("send_recv_one_way", 24, 2, "float32", None, None, 0),
        ("send_recv_one_way", 120, 2, "float32", None, None, 120),
        ("send_recv_one_way", 120, 2, "float32", None, None, 0),
        ("barrier", 0, 4, None, None, None, 0),
        ("barrier", 0, 4, None, None, None, 0),
        ("all_reduce", 48, 4, "float32", "sum", None, 72),  # functional collectives: once each
        ("all_gather", 32, 4, "float32", None, None, 24),
        ("all_reduce", 56, 4, "float32", "max", None, 84),  # as a compiled graph calls it
        ("all_gather", 32, 4, "int64", None, None, 24),  # all_gather_object: sizes, then bytes
        ("all_gather", 64, 4, "uint8", None, None, 48),
    ]


def test_roots_send_what_they_hand_out(job: Path) -> None:
    by_rank = {trace.rank: seen(trace) for trace in read_traces([job / "collectives"])}
    assert [row[-1] for row in by_rank[1] if row[0] == "gather"] == [0]
    assert [row[-1] for row in by_rank[3] if row[0] == "scatter"] == [1200]
    assert [row[-1] for row in by_rank[2] if row[0] == "reduce"] == [0]
    assert [(row[1], row[-1]) for row in by_rank[2] if row[0] == "all_to_all_v"] == [(48, 36)]


def test_a_subgroup_is_named_by_its_ranks_and_a_call_by_its_line(job: Path) -> None:
    trace = rank_of(job, "collectives", 2)
    pair = next(call.kind for call in trace.calls if call.kind.call.world_size == 2 and call.kind.op == "allreduce_")
    assert (pair.group.name, pair.group.ranks, pair.group.backend) == ("ranks 0,2", (0, 2), "gloo")
    assert all(
        "job.py:" in call.kind.call_site and call.kind.call_site.endswith(" collectives") for call in trace.calls
    )
    lines = [int(call.kind.call_site.split("job.py:")[1].split()[0]) for call in trace.calls]
    assert lines == sorted(lines)
    assert len(set(lines)) >= len(lines) - 3  # a batch and an object collective are several calls of one line


def test_peers_of_messages(job: Path) -> None:
    trace = rank_of(job, "collectives", 1)
    peers = [(call.kind.op, call.kind.notes["peer"]) for call in trace.calls if "peer" in call.kind.notes]
    assert peers == [("recv_", "0"), ("send", "0"), ("send", "2"), ("recv_", "0")]


def short(lines: tuple[Line, ...]) -> list[tuple[object, ...]]:
    return [(line.phase, line.call.collective, line.call.size_bytes, line.count, line.name) for line in lines]


def test_ddp_by_step(job: Path) -> None:
    """2 x (64 x 64 + 64) + 2 x 64 parameters of 4 B; batch norm's running mean and variance, and its counter."""
    steps = job_bills([job / "ddp"])[0].steps
    assert list(steps) == ["constructor", "first", "second", "steady"]
    buffers = [("forward", "broadcast", 512, 1, "DistributedDataParallel"),
               ("forward", "broadcast", 8, 1, "DistributedDataParallel")]  # fmt: skip
    bucket = ("backward", "all_reduce", 33792, 1, "bucket 0")
    assert short(steps["constructor"].lines) == [
        ("constructor", "all_gather", 32, 1, ""),
        ("constructor", "broadcast", 128, 1, ""),
        ("constructor", "broadcast", 33792 + 512, 1, ""),
        ("constructor", "broadcast", 8, 1, ""),
    ]
    assert short(steps["first"].lines) == [*buffers, bucket]
    rebuilt = [("forward", "broadcast", 28, 1, "DistributedDataParallel"),
               ("forward", "broadcast", 4, 1, "DistributedDataParallel")]  # fmt: skip
    assert short(steps["second"].lines) == [*rebuilt, *buffers, bucket]
    assert short(steps["steady"].lines) == [*buffers, bucket]
    all_reduce = steps["steady"].lines[-1]
    assert all_reduce.overlappable
    assert all_reduce.call.redop == "sum"
    assert all_reduce.sent_bytes_per_rank == 33792 * 6 // 4


def test_every_call_is_timed_and_waiting_is_apart(job: Path) -> None:
    bills = job_bills([job / "ddp"])
    for rank in range(N):
        for line in bills[rank].steady.lines:
            assert float(line.notes["wait_us"]) >= 0
            if line.call.collective == "all_reduce":
                assert line.estimate is not None
                assert 0 < line.estimate.low <= line.estimate.seconds <= line.estimate.high < 5
    assert bills[0].notes == ()


def test_a_python_hook_of_ddp_names_its_bucket_and_the_wires_type(job: Path) -> None:
    line = job_bills([job / "ddp_hook"])[1].steady.lines[-1]
    assert (line.call.dtype, line.call.size_bytes, line.name, line.phase) == ("float16", 8320, "bucket 0", "backward")


def test_fsdp2_gathers_and_scatters_what_its_modules_hold(job: Path) -> None:
    """(64 x 64 + 64) x 4 B in each layer, 2 x 64 x 4 B in the root."""
    layer, root = 16640, 512
    lines = job_bills([job / "fsdp2"])[0].steady.lines
    assert [(line.phase, line.call.collective, line.call.size_bytes) for line in lines].count(
        ("forward", "all_gather", layer)
    ) == 2
    scattered = {line.name: line.call.size_bytes for line in lines if line.call.collective == "reduce_scatter"}
    assert scattered == {"one": layer, "two": layer, "root": root}
    assert all(line.call.redop in ("sum", "avg") for line in lines if line.call.collective == "reduce_scatter")


def test_fsdp1_names_modules_in_backward_too(job: Path) -> None:
    lines = job_bills([job / "fsdp1"])[0].steady.lines
    assert short(lines) == [
        ("forward", "all_gather", 512, 1, "Net"),
        ("forward", "all_gather", 16640, 1, "one"),
        ("forward", "all_gather", 16640, 1, "two"),
        ("backward", "all_gather", 16640, 1, "two"),
        ("backward", "all_gather", 16640, 1, "one"),
        ("backward", "reduce_scatter", 16640, 1, "two"),
        ("backward", "reduce_scatter", 16640, 1, "one"),
        ("backward", "reduce_scatter", 512, 1, "Net"),
    ]


def test_tensor_parallel_on_an_axis_of_a_mesh(job: Path) -> None:
    """The row-parallel layer's output: 4 x 64 elements of 4 B."""
    bills = job_bills([job / "hsdp_tp"])
    (line,) = bills[3].steady.lines
    assert (line.group, line.group_ranks, line.call.world_size) == ("tp", (2, 3), 2)
    assert short((line,)) == [("forward", "all_reduce", 1024, 1, "2")]


def test_hsdp_scatters_over_one_axis_and_reduces_over_the_other(job: Path) -> None:
    """4 160 parameters: bf16 gathered, fp32 scattered over two ranks, the half of it reduced over two others."""
    lines = job_bills([job / "hsdp"])[1].steady.lines
    assert [
        (line.call.collective, line.group, line.group_ranks, line.call.dtype, line.call.size_bytes) for line in lines
    ] == [
        ("all_gather", "shard", (0, 1), "bfloat16", 8320),
        ("reduce_scatter", "shard", (0, 1), "float32", 16640),
        ("all_reduce", "replicate", (1, 3), "float32", 8320),
    ]


def test_interleaved_messages_have_phases(job: Path) -> None:
    """Rank 1 holds stages 1 and 5 of 8: each receives and sends four activations and four gradients of 8 elements."""
    lines = job_bills([job / "interleaved"])[1].steady.lines
    count = {
        name: sum(line.count for line in lines if line.name == name)
        for name in ("fwd_recv", "fwd_send", "bwd_recv", "bwd_send")
    }
    assert count == {"fwd_recv": 8, "fwd_send": 8, "bwd_recv": 8, "bwd_send": 8}
    assert {(line.call.size_bytes, line.phase) for line in lines} == {(32, "forward"), (32, "backward")}


def test_pipeline_messages_have_phases_and_steps_begin_with_the_schedule(job: Path) -> None:
    """2 x 64 elements of 4 B a micro-batch; a middle stage receives and sends three, forward and backward."""
    steady = job_bills([job / "pipeline"])[1].steady
    assert [(line.phase, line.name, line.sent_bytes_per_rank) for line in steady.lines] == [
        *[("forward", "fwd_recv", 0), ("forward", "fwd_send", 512)] * 3,
        *[("backward", "bwd_recv", 0), ("backward", "bwd_send", 512)] * 3,
    ]
    assert {line.call.size_bytes for line in steady.lines} == {512}
    assert [line.notes["peer"] for line in steady.lines[:2]] == ["0", "2"]


def test_an_optimizer_inside_an_optimizer_is_one_step(job: Path) -> None:
    bills = job_bills([job / "zero"])[0]
    assert bills.facts["steps"] == 3
    assert short(bills.steady.lines) == [
        ("backward", "all_reduce", 16640, 1, "bucket 0"),
        ("optimizer", "broadcast", 16384, 1, ""),
        ("optimizer", "broadcast", 256, 1, ""),
    ]


def test_two_optimizers_with_forward_passes_between_are_one_step(job: Path) -> None:
    bills = job_bills([job / "two_optimizers"])[0]
    assert bills.facts["steps"] == 4
    assert [(line.call.size_bytes, line.name) for line in bills.steady.lines] == [
        ((64 * 8 + 8) * 4, "bucket 0"),
        ((64 * 16 + 16) * 4, "bucket 0"),
    ]


def test_ddp_steps_on_four_ranks_come_to_an_end(job: Path) -> None:
    """A kernel at the CPU key would hang in most runs; the campaign of 10 x 200 steps is in tests/chaos."""
    trace = rank_of(job, "many", 0)
    assert trace.complete
    assert trace.lost == 0
    assert len([mark for mark in trace.marks if mark.what == "optimizer"]) == 25
    buckets = [call for call in trace.calls if call.kind.module.startswith("bucket") and call.segment == 24]
    assert sum(call.kind.call.size_bytes for call in buckets) == 12 * (64 * 64 + 64) * 4


@pytest.mark.parametrize("rank", range(N))
def test_every_rank_ends_its_file(job: Path, rank: int) -> None:
    assert all(rank_of(job, name, rank).complete for name in ("collectives", "ddp", "pipeline"))
