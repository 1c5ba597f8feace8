"""Every layout of nccl-tests, printed and read back; op and N concluded where the output does not name them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nccl_printer import LAYOUTS, OPS, Job, Printed, lines, torn_lines

from busbw.core.log_text import LogText
from busbw.core.measurement import Results
from busbw.formats import read_text

NAMES = {"alltoall": "all_to_all", "sendrecv": "send_recv", "hypercube": "all_gather"}
PREFIXES = {
    "plain": "{}",
    "mpirun": "[1,0]<stdout>:{}",
    "prterun": "[prterun-host-0-123@1,0]<stdout>: {}",
    "srun": " 0: {}",
    "srun and a time": "2026-11-30T05:00:00.123 0: {}",
    "kubectl": "2026-11-30T05:00:00.123456789Z {}",
    "host and rank": "[host-0:0]: {}",
    "torchrun": "[default0]:{}",
    "pdsh": "host-0: {}",
    "colour": "\x1b[32m{}\x1b[0m",
    "markdown": "    {}",
    "quoted": "> {}",
    "windows": "{}\r",
}


def exists(op: str, layout: str) -> bool:
    """Which tests a version had."""
    if layout == "1.0":
        return op in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
    if layout == "2.0":
        return op in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
    return not (layout == "2.8" and op in ("gather", "scatter", "hypercube"))


def read(text: str, **options: object) -> Results:
    return read_text(LogText(text.encode(), "log.txt"), **options)  # type: ignore[arg-type]


def check(results: Results, job: Job, said: list[Printed]) -> None:
    assert len(results.measurements) == len(said)
    for got, want in zip(results.measurements, said, strict=True):
        assert (got.call.size_bytes, got.call.in_place) == (want.size, want.in_place)
        assert got.time_s == pytest.approx(want.time_us * 1e-6, rel=1e-9)
        assert got.call.dtype == "float32"
        assert got.printed is not None
        assert got.printed.busbw_GBps == want.busbw
        if want.busbw > 5 and job.layout != "1.0":
            assert got.busbw_GBps == pytest.approx(want.busbw, rel=0.01)
    assert results.run.unreadable_count == 0
    assert results.run.complete is True
    assert results.run.average is not None
    assert results.run.average.of_rows_GBps == pytest.approx(results.run.average.reported_GBps, rel=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", OPS)
def test_what_each_version_prints_is_read_and_its_op_concluded(op: str, layout: str) -> None:
    if not exists(op, layout):
        pytest.skip(f"{layout} had no {op}")
    job = Job(op, 8, layout)
    printed, said = lines(job)
    results = read("\n".join(printed))
    check(results, job, said)
    run = results.run
    assert run.world_size == 8
    codes = {mark.code for row in results.measurements for mark in row.marks}
    ambiguous = next((mark.reason for mark in results.measurements[0].marks if mark.code == "op_ambiguous"), "")
    if op in ("gather", "scatter"):
        assert "gather, scatter" in ambiguous
    elif op == "broadcast" and layout != "1.0":
        assert ambiguous == ""  # its root and its factor 1 are unlike all others
    else:
        assert run.collective == NAMES.get(op, op)
    unexpected = codes - {"op_ambiguous", "not_in_place", "cpu_time"}
    assert not unexpected
    assert ("cpu_time" in codes) == (layout == "2.19-C")


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("layout", ["2.13", "2.19"])
def test_the_tools_own_title_settles_the_op(op: str, layout: str) -> None:
    job = Job(op, 4, layout, named=True)
    printed, said = lines(job)
    results = read("\n".join(printed))
    check(results, job, said)
    assert results.run.collective == NAMES.get(op, op)
    assert {mark.code for row in results.measurements for mark in row.marks} <= {"not_in_place"}
    if op == "hypercube":
        assert results.measurements[0].labels["algorithm"] == "hypercube"


@pytest.mark.parametrize("name", PREFIXES)
@pytest.mark.parametrize("op", ["all_reduce", "all_gather"])
def test_launchers_and_terminals_leave_their_marks(op: str, name: str) -> None:
    job = Job(op, 8)
    printed, said = lines(job)
    results = read("\n".join(PREFIXES[name].format(line) for line in printed))
    check(results, job, said)
    assert (results.run.collective, results.run.world_size) == (op, 8)


@pytest.mark.parametrize("change", ["tabs", "no hash", "commented rows", "fence", "utf-16", "log lines between"])
def test_what_people_do_to_logs(change: str) -> None:
    job = Job("all_reduce", 8)
    printed, said = lines(job)
    text = "\n".join(printed)
    data = text.encode()
    if change == "tabs":
        data = text.replace("  ", "\t").encode()
    elif change == "no hash":
        data = text.replace("# ", "  ").replace("#\n", "\n").encode()
    elif change == "commented rows":
        data = "\n".join(line if line.startswith("#") else "#" + line for line in printed).encode()
    elif change == "fence":
        data = f"Here it is:\n```bash\n{text}\n```\nIs it good?\n".encode()
    elif change == "utf-16":
        data = text.encode("utf-16")
    else:
        data = "\nhost-1:9:9 [1] NCCL INFO Connected all rings\n".join(printed).encode()
    check(read_text(LogText(data, "log.txt")), job, said)


@pytest.mark.parametrize("glued", [False, True])
@pytest.mark.parametrize("layout", ["2.0", "2.13", "2.19", "2.19-I", "2.19-S"])
@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "broadcast"])
def test_rows_torn_by_other_ranks_lines_are_put_together(op: str, layout: str, glued: bool) -> None:
    job = Job(op, 8, layout)
    printed, said = torn_lines(job, glued)
    results = read("\n".join(printed))
    check(results, job, said)
    assert results.run.collective == op
    if op == "all_reduce":
        assert results.measurements[0].labels["algorithm"] == "Ring"
        assert results.measurements[0].labels["protocol"] == "Simple"
        assert results.measurements[0].labels["transport"] == "P2P"


def test_two_runs_at_once_under_different_labels_stay_apart() -> None:
    first, said_first = lines(Job("all_reduce", 4))
    second, said_second = lines(Job("all_gather", 8))
    mixed = []
    for index in range(max(len(first), len(second))):
        mixed += [f"0: {line}" for line in first[index : index + 1]]
        mixed += [f"1: {line}" for line in second[index : index + 1]]
    results = read("\n".join(mixed))
    by_op = {part.run.collective: part for part in results.runs}
    check(by_op["all_reduce"], Job("all_reduce", 4), said_first)
    check(by_op["all_gather"], Job("all_gather", 8), said_second)


def test_the_same_run_twice_is_two_repeats() -> None:
    printed, said = lines(Job("all_reduce", 8))
    results = read("\n".join([*printed, *printed]))
    assert len(results.runs) == 2
    assert [row.repeat for row in results.measurements] == [0] * len(said) + [1] * len(said)
    assert results.run.collective == "all_reduce"
    assert results.run.complete is True


@pytest.mark.parametrize("n", [2, 3, 4, 6, 8, 12, 16, 72, 512])
@pytest.mark.parametrize("op", ["all_gather", "reduce_scatter", "alltoall"])
def test_n_follows_from_the_count_column(op: str, n: int) -> None:
    job = Job(op, n, devices=False, sizes=tuple(2**power for power in range(16, 31, 2)))
    results = read("\n".join(lines(job)[0]))
    assert (results.run.collective, results.run.world_size) == (NAMES.get(op, op), n)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 8, 16, 32])
def test_n_follows_from_the_factor_of_all_reduce(n: int) -> None:
    job = Job("all_reduce", n, devices=False, rate=300e9, sizes=tuple(2**power for power in range(20, 34)))
    results = read("\n".join(lines(job)[0]))
    assert (results.run.collective, results.run.world_size) == ("all_reduce", n)
    assert any("from sizes and rates" in note for note in results.run.notes)


def test_an_n_that_rounding_hides_is_said_to_be_one_of_several() -> None:
    job = Job("all_reduce", 96, devices=False, rate=2e9)
    results = read("\n".join(lines(job)[0]))
    reasons = [mark.reason for mark in results.measurements[0].marks if mark.code == "world_size_estimated"]
    assert reasons
    assert reasons[0].startswith("N is one of ")
    assert reasons[0].endswith("say which with -N")
    told = read("\n".join(lines(job)[0]), world_size=96)
    assert told.run.world_size == 96
    assert not told.measurements[0].marks


def test_factor_one_does_not_tell_n_and_it_is_said() -> None:
    results = read("\n".join(lines(Job("broadcast", 8, devices=False))[0]))
    assert results.run.collective == "broadcast"
    assert results.run.world_size is None
    assert {mark.code for mark in results.measurements[0].marks} == {"world_size_unknown"}
    assert results.measurements[-1].busbw_GBps is None
    assert read("\n".join(lines(Job("broadcast", 8, devices=False))[0]), world_size=8).measurements[-1].busbw_GBps


def test_two_ranks_without_a_check_leave_the_op_open() -> None:
    """2(N-1)/N = 1 at N = 2, and without a check nothing tells all_reduce from sendrecv."""
    text = "\n".join(lines(Job("all_reduce", 2, check=False))[0])
    results = read(text)
    reasons = [mark.reason for mark in results.measurements[0].marks if mark.code == "op_ambiguous"]
    assert "all_reduce, send_recv" in reasons[0]
    named = read(text, op="sendrecv")
    assert named.run.collective == "send_recv"
    assert not [mark for mark in named.measurements[0].marks if mark.code == "op_ambiguous"]
    with_command = read("mpirun -np 2 ./build/all_reduce_perf -b 8 -e 1G -f 4 -c 0\n" + text)
    assert with_command.run.collective == "all_reduce"
    assert not with_command.measurements[0].marks


def test_an_op_that_does_not_fit_is_taken_and_the_contradiction_said() -> None:
    results = read("\n".join(lines(Job("all_reduce", 8))[0]), op="all_gather")
    assert results.run.collective == "all_gather"
    assert "op_disagrees" in {mark.code for mark in results.measurements[0].marks}


def test_a_device_list_that_contradicts_the_rates_is_said() -> None:
    """As with NCCL_TESTS_SPLIT_MASK: 8 ranks are listed, groups of 4 were measured."""
    printed, said = lines(Job("all_gather", 4, devices=False))
    place = printed.index("# Using devices") + 1
    listed = [f"#  Rank {rank:2} Group  0 Pid 1 on host-0 device {rank:2} [0x0{rank}] NVIDIA H100" for rank in range(8)]
    results = read("\n".join([*printed[:place], *listed, *printed[place:]]))
    assert results.run.world_size == 4
    marks = {mark.code: mark.reason for mark in results.measurements[0].marks}
    assert marks["world_size_disagrees"] == "the device list has 8 ranks, but sizes and rates are those of 4"
    groups = [line.replace("Group  0", f"Group  {rank % 2}") for rank, line in enumerate(listed)]
    split = read("\n".join([*printed[:place], *groups, *printed[place:]]))
    assert split.run.world_size == 4
    assert not split.measurements[0].marks
    assert len(said) == len(split.measurements)


def test_names_in_a_script_before_the_output_do_not_mislead() -> None:
    script = "mpirun ./all_reduce_perf -g 8\nmpirun ./all_gather_perf -g 8\n"
    text = script + "\n".join([*lines(Job("all_reduce", 8))[0], *lines(Job("all_gather", 8))[0]])
    assert [part.run.collective for part in read(text).runs] == ["all_reduce", "all_gather"]


@given(
    op=st.sampled_from(OPS),
    layout=st.sampled_from(LAYOUTS),
    n=st.integers(2, 64),
    rate=st.floats(1e9, 900e9),
    launch=st.floats(3, 500),
    prefix=st.sampled_from(sorted(PREFIXES)),
)
def test_any_run_reads_back(op: str, layout: str, n: int, rate: float, launch: float, prefix: str) -> None:
    if not exists(op, layout):
        return
    job = Job(op, n, layout, rate=rate, launch_us=launch, named=True)
    printed, said = lines(job)
    results = read("\n".join(PREFIXES[prefix].format(line) for line in printed))
    assert [(row.call.size_bytes, row.call.in_place) for row in results.measurements] == [
        (each.size, each.in_place) for each in said
    ]
    assert [row.time_s for row in results.measurements] == pytest.approx([each.time_us * 1e-6 for each in said])
    assert (results.run.collective, results.run.world_size) == (NAMES.get(op, op), n)
    assert {mark.code for row in results.measurements for mark in row.marks} <= {"not_in_place", "cpu_time"}
