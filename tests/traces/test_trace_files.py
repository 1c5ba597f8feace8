"""Profiler traces and flight-recorder dumps: small ones in the real layouts, with our own numbers; and people's, where they lie."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.core.trace import Trace
from busbw.errors import BusbwError, FileError
from busbw.traces import bills_of_traces, read_file, read_traces
from busbw.traces.flight_recorder import read as read_dump
from busbw.traces.kineto import read as read_profile
from busbw.traces.waiting import align_by_ends, compare_ranks

INFO = {
    "backend": "nccl",
    "rank": 1,
    "world_size": 4,
    "pg_config": [{"pg_name": "0", "ranks": [0, 1, 2, 3]}, {"pg_name": "7", "ranks": [1, 3]}],
}


def event(name: str, ts: float, dur: float, cat: str = "cpu_op", tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": tid, "ts": ts, "dur": dur, "args": args}


def record(name: str, ts: float, given: int, taken: int, key: int, size: int = 4, **more: Any) -> dict[str, Any]:
    meta = {
        "Collective name": name, "In msg nelems": given, "Out msg nelems": taken, "dtype": "BFloat16", "Group size": size,
        "Process Group Name": "0" if size == 4 else "7", "Process Group Ranks": "[0, 1, 2, 3]" if size == 4 else "[1, 3]",
        "External id": key, "In split size": "[]", **more,
    }  # fmt: skip
    return event("record_param_comms", ts, 5, tid=more.pop("tid", 1), **meta)


def profile(*events: dict[str, Any], info: dict[str, Any] = INFO, **more: Any) -> bytes:
    return json.dumps(
        {"schemaVersion": 1, "distributedInfo": info, "host_name": "a", **more, "traceEvents": list(events)}, indent=1
    ).encode()


def rows(trace: Trace) -> list[tuple[object, ...]]:
    return [
        (call.kind.call.collective, call.kind.call.size_bytes, call.kind.call.world_size, call.kind.sent_bytes)
        for call in trace.calls
    ]


def test_sizes_are_the_larger_side_and_times_the_kernels() -> None:
    data = profile(
        event("ProfilerStep#10", 0, 100, "user_annotation"),
        event("ProfilerStep#11", 100, 100, "user_annotation"),
        record("allreduce", 10, 100, 100, 1),
        record("wait", 12, 0, 0, 2),
        record("_allgather_base", 20, 100, 400, 3),
        record("_reduce_scatter_base", 30, 400, 100, 4),
        record("broadcast", 110, 50, 50, 5, size=2, **{"Process Group Description": "mesh_tp"}),
        record("send 1->3", 120, 30, 30, 6, size=2, **{"Dst Rank": 3}),
        record("all_to_allv", 130, 80, 60, 7, **{"In split size": "[10, 20, 10, 40]"}),
        event("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)", 40, 6, "kernel", 70, **{"External id": 1}),
        event("ncclDevKernel_AllGather_RING_LL(...)", 50, 8, "kernel", 70, **{"External id": 3}),
        baseTimeNanoseconds=2_000_000_000,
    )
    trace = read_profile(data, "x")
    assert rows(trace) == [
        ("all_reduce", 200, 4, 300),
        ("all_gather", 800, 4, 600),
        ("reduce_scatter", 800, 4, 600),
        ("broadcast", 100, 2, 100),
        ("send_recv_one_way", 60, 2, 60),
        ("all_to_all_v", 160, 4, 120),  # the 20 elements for itself stay
    ]
    assert [call.segment for call in trace.calls] == [10, 10, 10, 11, 11, 11]
    assert (trace.calls[0].start_s, trace.calls[0].end_s) == (pytest.approx(2 + 40e-6), pytest.approx(2 + 46e-6))
    assert trace.calls[2].end_s is None
    assert [call.kind.group.name for call in trace.calls[3:5]] == ["tp", "ranks 1,3"]
    assert trace.notes == ("x: 4 of 6 calls have no kernel in this trace, and so no time",)
    assert list(bills_of_traces([trace])[1].steps) == ["11", "steady"]


def test_a_list_of_ranks_that_was_cut_comes_from_elsewhere() -> None:
    cut = {"Process Group Ranks": "[0, 1, ...]"}
    (call,) = read_profile(profile(record("allreduce", 1, 8, 8, 1, **cut)), "x").calls
    assert call.kind.group.ranks == (0, 1, 2, 3)
    stride = {**cut, "Process Group Name": "?", "Global rank start": 1, "Global rank stride": 2}
    (call,) = read_profile(profile(record("allreduce", 1, 8, 8, 1, size=2, **stride)), "x").calls
    assert call.kind.group.ranks == (1, 3)


def test_phases_from_threads_and_optimizers() -> None:
    data = profile(
        event("ProfilerStep#3", 0, 100, "user_annotation"),
        event("autograd::engine::evaluate_function: X", 20, 10, tid=2),
        event("Optimizer.step#SGD.step", 60, 10, "user_annotation"),
        record("allreduce", 5, 1, 1, 1),
        {**record("allreduce", 25, 1, 1, 2), "tid": 2},
        {**record("allreduce", 40, 1, 1, 3), "tid": 2},
        record("broadcast", 65, 1, 1, 4),
    )
    assert [call.kind.phase for call in read_profile(data, "x").calls] == ["other", "backward", "backward", "optimizer"]


def test_gloo_has_the_call_and_its_work_apart() -> None:
    shapes = {"Input Dims": [[[64, 2]], [], [], []], "Input type": ["TensorList", "", "", ""]}
    gathered = {"Input Dims": [[40], [10], []], "Input type": ["float", "float", ""]}
    data = profile(
        event("c10d::broadcast_", 10, 3, **{**shapes, "Concrete Inputs": ["", "", "2", "0"]}),
        event("c10d::_allgather_base_", 20, 3, **gathered),
        event("gloo:all_gather", 26, 4, "user_annotation", 8, **{"Input Dims": [[10]], "Input type": ["float"]}),
        event("gloo:broadcast", 11, 5, "user_annotation", 8, **{"Input Dims": [[64, 2]], "Input type": ["long int"]}),
        info={"backend": "gloo", "rank": 0, "world_size": 4},
    )
    trace = read_profile(data, "x")
    assert rows(trace) == [("broadcast", 1024, 4, 1024), ("all_gather", 160, 4, 120)]
    assert trace.calls[0].kind.call.root == 2
    assert [(call.start_s, call.end_s) for call in trace.calls] == [(10e-6, 16e-6), (20e-6, 30e-6)]


def test_a_call_without_a_size_says_so() -> None:
    kernel = event("ncclKernel_AllReduce_RING_LL_Sum_float(...)", 5, 2, "kernel", 70)
    trace = read_profile(profile(kernel, info={"rank": 0, "world_size": 8}), "x")
    assert trace.calls[0].kind.notes == {"size": "unknown"}
    assert trace.notes == ("x: 1 of 1 calls have no size in this trace, and count 0 bytes",)


def test_profilers_clocks_are_aligned_by_what_ends_together() -> None:
    """Rank 1's clock is 7 s behind; it arrives last by 3 us each time."""

    def of(rank: int, shift: float, late: float) -> Trace:
        events = [record("allreduce", 100 * k, 8, 8, k, size=2) for k in range(4)]
        kernels = [
            event("ncclDevKernel_AllReduce", 100 * k + 10 + late, 20 - late, "kernel", 70, **{"External id": k})
            for k in range(4)
        ]
        info = {"backend": "nccl", "rank": rank, "world_size": 2}
        both = {"Process Group Ranks": "[0, 1]"}
        for each in events:
            each["args"].update(both)
        return read_profile(profile(*events, *kernels, info=info, baseTimeNanoseconds=int((100 + shift) * 1e9)), "x")

    aligned = align_by_ends([of(0, 0, 0), of(1, -7, 3)])
    assert aligned[1].clock[0].offset_s == pytest.approx(7)
    found, notes = compare_ranks(aligned)
    assert notes == []
    assert [timing.wait_s for timing in found[0].values()] == [pytest.approx(3e-6, abs=1e-8)] * 4
    assert [timing.seconds for timing in found[0].values()] == [pytest.approx(17e-6, abs=1e-8)] * 4


DUMP = {
    "version": "2.10", "rank": 1, "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "entries": [
        {"collective_seq_id": 1, "profiling_name": "nccl:_all_gather_base", "input_sizes": [[10]], "output_sizes": [[20]],
         "input_dtypes": ["Float"], "output_dtypes": ["Float"], "process_group": ["0", "default_pg"], "state": "completed",
         "time_created_ns": 1_000, "time_discovered_started_ns": 2_000, "time_discovered_completed_ns": 5_000,
         "frames": [{"name": "all_gather", "filename": "/x/torch/distributed/c.py", "line": 1}, {"name": "main", "filename": "train.py", "line": 7}]},
        {"collective_seq_id": 2, "profiling_name": "nccl:all_reduce", "input_sizes": [[6]], "output_sizes": [[6]],
         "input_dtypes": ["Half"], "output_dtypes": ["Half"], "process_group": ["0", "default_pg"], "state": "started",
         "time_created_ns": 9_000, "time_discovered_started_ns": 0, "time_discovered_completed_ns": 0},
    ],
}  # fmt: skip


def test_a_flight_recorders_dump(tmp_path: Path) -> None:
    path = tmp_path / "dump_1.json"
    path.write_text(json.dumps(DUMP))
    (trace,) = read_file(path)
    assert rows(trace) == [("all_gather", 80, 2, 40), ("all_reduce", 12, 2, 12)]
    assert (trace.calls[0].start_s, trace.calls[0].end_s) == (2e-6, 5e-6)
    assert (trace.calls[1].start_s, trace.calls[1].end_s) == (9e-6, None)
    assert trace.calls[0].kind.call_site == "train.py:7 main"
    assert (trace.rank, trace.world_size) == (1, 2)
    assert trace.notes == (f"{path}: call 1 (nccl:all_reduce) had started and not ended",)


def test_a_dump_of_gloo_does_not_tell_its_groups() -> None:
    entries = [{**DUMP["entries"][1], "profiling_name": "gloo:all_reduce"}]  # type: ignore[index]
    trace = read_dump(json.dumps({"version": "2.10", "pg_config": {}, "entries": entries}).encode(), "trace_3")
    assert rows(trace) == [("all_reduce", 12, 0, 0)]
    assert trace.rank == 3
    assert "does not list the groups' ranks" in trace.notes[0]


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "trace_0"
    path.write_bytes(pickle.dumps(DUMP))
    with pytest.raises(FileError, match="a pickle, which can run code when it is loaded"):
        read_file(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"workload_graph": []}', "not a profiler trace"),
        (profile(), "holds no collective"),
        (b'{"entries": [{"profiling_name": 3}]}', "not a flight recorder's dump"),
        (b"\x1f\x8bnot gzip", "cannot be unpacked"),
        (b"[rank1]: Watchdog caught collective operation timeout", "not"),
    ],
)
def test_other_files_are_refused_in_one_line(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(FileError) as raised:
        read_file(path)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@given(st.data())
def test_a_damaged_trace_is_read_or_refused(data: st.DataObject) -> None:
    whole = profile(
        record("allreduce", 1, 8, 8, 1), event("ncclDevKernel_AllReduce", 3, 4, "kernel", 70, **{"External id": 1})
    )
    at = data.draw(st.integers(0, len(whole) - 1))
    cut = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + data.draw(st.integers(0, 40)) :]
    for read in (read_profile, read_dump):
        try:
            read(cut, "x")
        except BusbwError as error:
            assert str(error).startswith("x")


# --- people's files, where they lie ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def people(root: Path) -> dict[str, dict[str, Any]]:
    """What the index says of each file, by its path."""
    folder = root.parent / "shared" / "data" / "logs" / "traces"
    if not folder.is_dir():
        pytest.skip("other people's traces do not lie beside this checkout (../shared/data/logs/traces)")
    lines = (folder / "index.jsonl").read_text().splitlines()
    return {str(folder / entry["file"]): entry["values"] for entry in map(json.loads, lines)}


def test_peoples_traces_hold_what_their_index_says(people: dict[str, dict[str, Any]]) -> None:
    with_metadata = {path: values for path, values in people.items() if values.get("per_collective")}
    assert len(with_metadata) >= 2
    for path, values in with_metadata.items():
        (trace,) = read_file(path)
        for wanted in values["per_collective"]:
            of_size = [call for call in trace.calls if call.kind.call.size_bytes == wanted["size_bytes"]]
            assert len(of_size) == wanted["count"]
            times = [(call.end_s or 0.0) - call.start_s for call in of_size]
            assert min(times) * 1e6 == pytest.approx(wanted["min_us"], abs=0.5)
            assert {call.kind.call.world_size for call in of_size} == {wanted["group_size"]}


def test_transfer_apart_from_waiting_on_eight_gpus(people: dict[str, dict[str, Any]]) -> None:
    """The index has each call's shortest duration over ranks, and who came last."""
    paths = [path for path in people if "dlrm-8rank" in path]
    wanted = next(values["cross_rank"] for path, values in people.items() if "cross_rank" in values)
    traces = align_by_ends(read_traces(paths))
    assert [trace.rank for trace in traces] == list(range(8))
    assert all(abs(trace.clock[0].offset_s) < 5e-6 for trace in traces)
    found, notes = compare_ranks(traces)
    assert notes == []
    for number, call in enumerate(wanted):
        waits = {rank: found[rank][number].wait_s or 0.0 for rank in found}
        assert min(waits, key=lambda rank: waits[rank]) == call["last_to_start"]
        assert max(waits.values()) * 1e6 == pytest.approx(call["start_spread_us"], abs=5)
        assert (found[0][number].seconds or 0.0) * 1e6 == pytest.approx(call["min_dur_us"], abs=6)


def test_gzip_or_not_is_the_same(people: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    path = next(path for path in people if "b200" in path)
    plain = tmp_path / "plain.json"
    plain.write_bytes(gzip.decompress(Path(path).read_bytes()))
    assert rows(read_file(plain)[0]) == rows(read_file(path)[0])
