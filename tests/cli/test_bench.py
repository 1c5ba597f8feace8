from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.errors import NoRows
from busbw.formats import read_results

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def rows_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, object]] = json.loads(done.stdout)
    return rows


def test_the_table_looks_like_nccl_tests(fake: Run) -> None:
    done = fake("--op", "all_reduce,all_gather")
    lines = [line.split() for line in done.stdout.splitlines() if line and not line.startswith("#")]
    # 4 KiB at N=2: 5 us + 4096 B / 20 GB/s = 5.2 us; busbw factor 1. all_gather: factor 1/2, 5.1 us.
    assert lines[0] == ["4096", "1024", "float32", "sum", "-1", "out", "5.20", "0.79", "0.79", "0", "0.0"]
    assert lines[1] == ["4096", "1024", "float32", "none", "-1", "out", "5.10", "0.80", "0.40", "0", "0.0"]
    assert "# all_reduce  N=2  on fake" in done.stdout


def test_json_rows_have_the_documented_keys_and_nothing_else_is_on_standard_output(fake: Run) -> None:
    (row,) = rows_of(fake("--json"))
    assert row["collective"] == "all_reduce"
    assert (row["world_size"], row["size_bytes"], row["dtype"], row["redop"]) == (2, 4096, "float32", "sum")
    assert row["time_s"] == pytest.approx(5.2048e-6)
    assert row["busbw_GBps"] == pytest.approx(0.78697, rel=1e-4)
    assert (row["root"], row["in_place"], row["wrong"], row["source"]) == (None, False, 0, None)


def test_words_of_nccl_tests(fake: Run) -> None:
    rows = rows_of(
        fake("--json", "--sizes=4,8", "-d", "half", "-o", "max", "-n", "20", "-w", "5", "-c", "1", "-a", "1")
    )
    assert [row["size_bytes"] for row in rows] == [4, 8]
    assert {row["dtype"] for row in rows} == {"float16"}
    assert {row["redop"] for row in rows} == {"max"}
    assert {row["stopped"] for row in rows} == {"fixed"}


def test_ranges_of_sizes(busbw: Run) -> None:
    base = ("bench", "--backend", "fake", "--world", "2", "--op", "all_reduce", "--row-budget", "0.05s", "--json")
    assert [row["size_bytes"] for row in rows_of(busbw(*base, "-b", "1K", "-e", "16K", "-f", "4"))] == [
        1024,
        4096,
        16384,
    ]
    assert [row["size_bytes"] for row in rows_of(busbw(*base, "-b", "1K", "-e", "3K", "-i", "1K"))] == [
        1024,
        2048,
        3072,
    ]


@pytest.mark.parametrize("fault", ["swap", "drop", "stale"])
def test_wrong_data_is_caught_and_makes_the_exit_status_1(fake: Run, fault: str) -> None:
    done = fake("--fake", f"fault={fault}", "--json")
    assert done.returncode == 1, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["wrong"] > 0
    assert row["marks"][0]["code"] == "wrong"


def test_one_rank_is_named_and_has_no_busbw(fake: Run) -> None:
    done = fake("--world", "1")
    assert "N=1: nothing moves between ranks" in done.stdout
    assert re.search(r"4096 .* 5\.00 +0\.82 +n/a +0 .*world_of_one", done.stdout)


def test_groups_run_at_the_same_time_and_give_a_row_each(fake: Run) -> None:
    rows = rows_of(fake("--world", "4", "--split", "mod 2", "--json"))
    assert [row["labels"]["group"] for row in rows] == ["0,2", "1,3"]  # type: ignore[index]
    assert [row["world_size"] for row in rows] == [2, 2]


def test_a_sweep_sets_its_variables_for_each_launch_and_labels_the_rows(fake: Run) -> None:
    rows = rows_of(fake("--sweep", "NCCL_ALGO=Ring,Tree", "--json"))
    assert [row["labels"]["NCCL_ALGO"] for row in rows] == ["Ring", "Tree"]  # type: ignore[index]


def test_repeats_are_launches(fake: Run) -> None:
    assert [row["repeat"] for row in rows_of(fake("--repeats", "2", "--json"))] == [0, 1]


def test_a_slow_rank_decides_the_time_and_is_named(fake: Run) -> None:
    (row,) = rows_of(fake("--fake", "slow=1:2", "--json"))
    assert row["time_s"] == pytest.approx(2 * 5.2048e-6)
    assert "rank 1 is the slowest" in str(row["marks"])
    (row,) = rows_of(fake("--fake", "slow=1:2", "--rank-time", "rank0", "--json"))
    assert row["time_s"] == pytest.approx(5.2048e-6)


def test_results_file_csv_and_resume(fake: Run, tmp_path: Path) -> None:
    out, csv = str(tmp_path / "r.jsonl"), tmp_path / "r.csv"
    assert fake("-o", out, "--csv", str(csv)).returncode == 0
    header, row = csv.read_text().splitlines()
    assert header == "op,world_size,bytes,time_ms,algbw_GBps,busbw_GBps"
    assert row == "all_reduce,2,4096,0.0052,0.79,0.79"

    again = fake("-o", out)
    assert again.returncode == 2
    assert "add --resume" in again.stderr
    more = fake("-o", out, "--resume", "--op", "all_reduce,all_gather")
    assert more.returncode == 0, more.stderr
    results = read_results(out)
    assert [m.call.collective for m in results.measurements] == ["all_reduce", "all_gather"]
    assert results.measurements[0].samples is not None
    assert len(results.measurements[0].samples.per_rank_s) == 2
    other = fake("-o", out, "--resume", "--mode", "isolated")
    assert other.returncode == 2
    assert "was taken with mode='pipelined'" in other.stderr


def test_resume_goes_on_behind_a_line_that_a_crash_has_cut(fake: Run, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    assert fake("-o", str(out)).returncode == 0
    whole = out.read_text()
    out.write_text(whole[: len(whole) - 40])  # cuts the only row
    assert fake("-o", str(out), "--resume").returncode == 0
    assert [m.call.collective for m in read_results(str(out)).measurements] == ["all_reduce"]


def test_a_directory_that_is_not_there_and_a_full_disk_are_found_before_measuring(fake: Run, tmp_path: Path) -> None:
    missing = fake("-o", str(tmp_path / "no" / "r.jsonl"))
    assert missing.returncode == 2
    assert "there is no directory" in missing.stderr
    if Path("/dev/full").exists():
        full = fake("-o", "/dev/full")
        assert full.returncode == 2
        assert "No space left" in full.stderr


def test_the_post_method(fake: Run) -> None:
    (row,) = rows_of(fake("--method", "post", "-d", "float32", "--json"))
    assert (row["samples"], row["stopped"]) == (1, "fixed")
    assert row["labels"] == {
        "backend": "fake",
        "method": "post",
        "mode": "pipelined",
        "rank_time": "rank0",
        "sched": "default",
    }
    text = fake("--method", "post", "-d", "float32").stdout
    assert "all_reduce      N=2 S=    0.004MiB  t=    0.005ms  algbw=   0.79GB/s  busbw=   0.79GB/s" in text


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--op", "all_reduse"], "did you mean all_reduce"),
        (["--sizes", "4X"], "unknown unit 'X' in size '4X'"),
        (["--world", "0"], "--world '0': must be one or more numbers of ranks"),
        (["-d", "f12"], "unknown dtype 'f12': choose from"),
        (["--precision", "2"], "--precision 2.0: must be a share between 0 and 1"),
        (["-n", "0"], "--iters 0: must be at least 1"),
        (["-o", "sum,foo"], "'foo' is no reduction: choose from"),
        (["--redop", "xor"], "--redop 'xor': choose from"),
        (["--split", "every"], "--split 'every'"),
        (["--root", "x"], "--root 'x'"),
        (["--fake", "fault=fire"], "fault 'fire': choose from"),
        (["--time-budget", "0s"], "must be longer than 0"),
        (["--backend", "mpj"], "invalid choice: 'mpj'"),
        (["--resume"], "--resume needs the results file"),
    ],
)
def test_a_bad_argument_gets_one_line_with_the_value_and_the_rule(fake: Run, words: list[str], rule: str) -> None:
    done = fake(*words)
    assert done.returncode == 2
    assert rule in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("die:1", r"rank 1 \(pid \d+ on .*\) died"),
        ("hang:1", r"rank 1 \(pid \d+ on .*\) hangs in all_reduce .* while the others wait for it"),
        ("raise:0", r"rank 0 \(pid \d+ on .*\) failed .*RuntimeError"),
    ],
)
def test_a_lost_rank_is_named_and_the_status_is_3(fake: Run, tmp_path: Path, fault: str, words: str) -> None:
    out = tmp_path / "r.jsonl"
    done = fake("--fake", f"fault={fault}", "--timeout", "1.5s", "-o", str(out))
    assert done.returncode == 3
    assert re.search(words, done.stderr), done.stderr
    with pytest.raises(NoRows, match="has no row: ended early: rank"):
        read_results(str(out))


def test_two_ranks_on_one_accelerator_are_refused_before_timing(fake: Run) -> None:
    done = fake("--fake", "one_device")
    assert done.returncode == 3
    assert re.search(
        r"rank 0 .* and rank 1 .* use the same device, fake:0: start one rank per accelerator", done.stderr
    )


def test_ranks_of_any_launcher_that_sets_rank_and_world_size_find_each_other(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    words = ["bench", "--backend", "fake", "--op", "all_reduce", "--sizes", "4KiB", "-n", "3", "-o", str(out)]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "busbw", *words],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    assert [rank.communicate(timeout=60)[1] for rank in ranks] == ["", ""]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert [(row.call.world_size, row.wrong) for row in read_results(str(out)).measurements] == [(2, 0)]


def test_a_rank_that_never_arrives_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "bench", "--backend", "fake", "--op", "all_reduce", "--init-timeout", "1s"],
        env={**os.environ, "RANK": "0", "WORLD_SIZE": "3"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert "rank 1, 2 of 3 did not arrive within 1 s" in done.stderr


@pytest.mark.parametrize("option", [["-m", "4"], ["-R", "1"], ["--cuda-graph", "2"]])
def test_options_of_nccl_are_refused_elsewhere(fake: Run, option: list[str]) -> None:
    done = fake(*option)
    assert done.returncode == 2
    assert "means something with --backend nccl only, and this run uses fake" in done.stderr


def until_the_first_line(words: list[str], stdout: int = subprocess.PIPE) -> tuple[int, str]:
    """Run `busbw bench` as `| head -1` would: read one line, and leave."""
    base = ["bench", "--backend", "fake", "--world", "2", "--op", "all_reduce", "--sizes", "8,4KiB"]
    with subprocess.Popen(
        [sys.executable, "-m", "busbw", *base, *words], stdout=stdout, stderr=subprocess.PIPE, text=True
    ) as process:
        if process.stdout is not None:
            process.stdout.readline()
            process.stdout.close()
        assert process.stderr is not None
        said = process.stderr.read()
    return process.returncode, said


def test_a_reader_that_leaves_costs_no_row_and_no_rank_is_blamed(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    status, said = until_the_first_line(["-o", str(out)])
    assert status == 0
    assert said == f"busbw bench: standard output: Broken pipe; the run goes on, its rows are in {out}\n"
    results = read_results(str(out))
    assert [row.call.size_bytes for row in results.measurements] == [8, 4096]
    assert results.run.notes == ()


def test_a_reader_that_leaves_ends_a_run_whose_rows_nobody_keeps() -> None:
    status, said = until_the_first_line([])
    assert status == 130
    assert "standard output cannot be written any more: Broken pipe; -o FILE keeps the rows" in said
    assert "rank" not in said


def test_standard_output_on_a_full_disk_is_named() -> None:
    with Path("/dev/full").open("w") as full:
        status, said = until_the_first_line([], stdout=full.fileno())
    assert status == 2
    assert "standard output cannot be written any more: No space left on device" in said


def test_one_file_cannot_be_both_results_and_csv(fake: Run, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    done = fake("-o", str(out), "--csv", str(tmp_path / "." / "r.jsonl"))
    assert done.returncode == 2
    assert "the same file" in done.stderr
    assert not out.exists()


def test_a_csv_that_cannot_be_written_at_the_end_is_one_line(fake: Run) -> None:
    done = fake("--csv", "/dev/full", "--json")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "busbw bench: error: /dev/full: cannot be written: No space left on device"
    assert len(json.loads(done.stdout)) == 1


@pytest.mark.parametrize("option", [[], ["--resume"], ["--overwrite"]])
@pytest.mark.parametrize(("name", "rule"), [(".", "Is a directory"), ("a" * 300, "File name too long")])
def test_a_results_file_that_cannot_be_is_one_line(fake: Run, option: list[str], name: str, rule: str) -> None:
    done = fake("-o", name, *option)
    assert done.returncode == 2
    assert done.stderr == f"busbw bench: error: {name}: cannot be written: {rule}; name another file with -o\n"


def test_a_whole_last_line_without_its_end_is_kept(fake: Run, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    assert fake("-o", str(out)).returncode == 0
    out.write_text(out.read_text().rstrip("\n"))
    assert fake("-o", str(out), "--resume", "--sizes", "4KiB,8KiB").returncode == 0
    assert [row.call.size_bytes for row in read_results(str(out)).measurements] == [4096, 8192]


def test_two_runs_cannot_write_one_file(fake: Run, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    with out.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        done = fake("-o", str(out))
    assert done.returncode == 2
    assert "another run is writing it" in done.stderr


def test_resume_may_wait_longer_and_take_more_worlds_and_repeats(fake: Run, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    assert fake("-o", str(out)).returncode == 0
    more = ("--init-timeout", "99s", "--timeout", "99s", "--world", "2,3", "--repeats", "2")
    done = fake("-o", str(out), "--resume", *more)
    assert done.returncode == 0, done.stderr
    taken = [(row.call.world_size, row.repeat) for row in read_results(str(out)).measurements]
    assert taken == [(2, 0), (3, 0), (2, 1), (3, 1)]


def test_what_the_ranks_would_refuse_is_refused_before_a_file_is_made(fake: Run, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    for words in (["--op", "broadcast", "-r", "2"], ["--split", "0-9999999999"], ["--op", ","], ["-d", ""]):
        done = fake("-o", str(out), *words)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert not out.exists()


def test_under_a_launcher_every_rank_hears_at_once_that_the_run_cannot_begin(tmp_path: Path) -> None:
    words = ["bench", "--backend", "fake", "--op", "all_reduce", "-o", str(tmp_path / "missing" / "r.jsonl")]
    places = ({"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2))
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "busbw", *words],
            env={**os.environ, **place, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for place in places
    ]
    said = [rank.communicate(timeout=30)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [2, 2]
    assert "there is no directory" in said[0]
    assert "Traceback" not in "".join(said)


def test_a_loop_of_mpi_is_refused_elsewhere(fake: Run) -> None:
    done = fake("--loop", "compiled")
    assert done.returncode == 2
    assert "--loop compiled means something with --backend mpi only, and this run uses fake" in done.stderr


def test_a_short_limit_is_not_named_as_zero(fake: Run) -> None:
    done = fake("--fake", "fault=hang:1", "--timeout", "300ms")
    assert done.returncode == 3
    assert "(no progress for 300 ms)" in done.stderr


def test_a_world_size_that_is_named_twice_is_run_once(fake: Run) -> None:
    assert [row["world_size"] for row in rows_of(fake("--json", "--world", "2,3,2"))] == [2, 3]


def test_an_unknown_option_points_to_the_help_of_its_command(fake: Run) -> None:
    done = fake("--wrld", "2")
    assert done.returncode == 2
    assert done.stderr == "busbw bench: unrecognized arguments: --wrld 2 (see busbw bench --help)\n"


def test_a_csv_that_exists_is_not_replaced_unasked(fake: Run, tmp_path: Path) -> None:
    csv = tmp_path / "r.csv"
    csv.write_text("mine\n")
    done = fake("--csv", str(csv))
    assert done.returncode == 2
    assert "exists: add --overwrite" in done.stderr
    assert csv.read_text() == "mine\n"


def test_each_row_again_beside_computation(fake: Run, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    words = ("--op", "all_reduce", "--sizes", "4KiB", "--with-compute", "--fake", "beside=1.5:1.25", "-o", str(path))
    done = fake(*words)
    assert done.returncode == 0, done.stderr
    assert "overlapped calls x1.50 products x1.25" in done.stdout
    alone, beside = read_results(str(path)).measurements
    assert alone.beside is None
    assert beside.beside is not None
    assert beside.time_s == pytest.approx(1.5 * alone.time_s)
    assert beside.labels["beside"] == "GEMM 512 fake"
    again = fake(*words, "--resume")
    assert again.returncode == 0
    assert len(read_results(str(path)).measurements) == 2
    assert fake("--with-compute", "-3").returncode == 2
