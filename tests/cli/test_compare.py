from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]
NOISE = "jitter=2%,launch_jitter=1%"


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Three runs of five launches on the fake backend: two alike, and one on a machine that is a tenth slower."""
    folder = tmp_path_factory.mktemp("runs")
    made = {}
    for name, machine in (
        ("old", f"{NOISE},seed=1"),
        ("same", f"{NOISE},seed=2"),
        ("slow", f"{NOISE},seed=3,alpha=5.5us,bandwidth=18GB/s"),
    ):
        made[name] = str(folder / f"{name}.jsonl")
        words = ["bench", "--backend", "fake", "--world", "2", "--op", "all_reduce", "--sizes", "4KiB,16KiB,64KiB"]
        words += ["-c", "0", "--row-budget", "0.05s", "--repeats", "5", "--fake", machine, "-q", "-o", made[name]]
        subprocess.run([sys.executable, "-m", "busbw", *words], check=True, capture_output=True, timeout=120)
    return made


def test_launches_of_the_fake_backend_differ(runs: dict[str, str]) -> None:
    rows = [json.loads(line) for line in Path(runs["old"]).read_text().splitlines()]
    medians = [row["summary"]["median_s"] for row in rows if row["type"] == "measurement"]
    assert len(medians) == 15
    assert len({round(value, 12) for value in medians}) == 15
    first = [medians[index] / medians[0] for index in range(0, 15, 3)]
    assert max(first) / min(first) > 1.002


def test_equal_runs_and_a_slower_one(busbw: Run, runs: dict[str, str]) -> None:
    same = busbw("compare", runs["old"], runs["same"])
    assert (same.returncode, same.stderr) == (0, "")
    assert same.stdout.splitlines()[-1] == "same: 3 of 3 rows surely within 5.0%"
    slow = busbw("compare", runs["old"], runs["slow"])
    assert slow.returncode == 1
    assert slow.stdout.splitlines()[-1].startswith("slower: 3 of 3 rows slower, most all_reduce ")
    assert "# all_reduce N=2 float32 sum" in slow.stdout
    assert busbw("compare", runs["slow"], runs["old"]).returncode == 0


def test_json(busbw: Run, runs: dict[str, str]) -> None:
    done = busbw("compare", "--json", runs["old"], runs["slow"])
    data = json.loads(done.stdout)
    assert (data["verdict"], data["launches_a"], data["method"]) == ("slower", 5, "permutation")
    assert [row["size_bytes"] for row in data["rows"]] == [2**12, 2**14, 2**16]
    assert data["rows"][2]["time_ratio"] == pytest.approx(1.11, abs=0.02)
    assert data["rows"][2]["busbw_ratio"] == pytest.approx(1 / data["rows"][2]["time_ratio"])


def test_one_launch_cannot_tell_and_says_so(busbw: Run, golden: Path) -> None:
    post = str(golden / "post.csv")
    done = busbw("compare", post, post)
    assert done.returncode == 0
    assert "warning: it cannot be told whether anything changed" in done.stderr
    assert "# note: A has 1 launch and B 1 launch" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("cannot tell: ")
    assert busbw("compare", "--fail-on-unknown", post, post).returncode == 1


def test_several_files_a_side(busbw: Run, runs: dict[str, str]) -> None:
    done = busbw("compare", "--json", f"{runs['old']},{runs['same']}", runs["slow"])
    assert json.loads(done.stdout)["launches_a"] == 10


def test_errors_name_the_value(busbw: Run, runs: dict[str, str], golden: Path) -> None:
    done = busbw("compare", runs["old"], str(golden / "post.csv"))
    assert done.returncode == 2
    assert "A and B have no row that can be compared" in done.stderr
    done = busbw("compare", runs["old"], runs["same"], "--min-change", "much")
    assert done.returncode == 2
    assert "--min-change 'much': must be a share such as 5% or 0.05" in done.stderr
    assert busbw("compare", runs["old"], "nowhere.jsonl").returncode == 2


def test_check_gates_every_row(busbw: Run, runs: dict[str, str], tmp_path: Path) -> None:
    passed = busbw("check", runs["old"], "--min-busbw", "2GB/s@all_reduce,N=2:>=16KiB", "-v")
    assert (passed.returncode, passed.stdout.splitlines()[-1]) == (0, "pass: 0 of 2 checks failed")
    junit = tmp_path / "junit.xml"
    failed = busbw("check", runs["old"], "--min-busbw", "2GB/s@all_reduce", "--junit", str(junit))
    assert failed.returncode == 1
    assert "  FAIL  all_reduce 4 KiB N=2 float32 sum: busbw " in failed.stdout
    assert 'failures="1"' in junit.read_text()
    data = json.loads(busbw("check", runs["old"], "--min-busbw", "2GB/s", "--json").stdout)
    assert (data["passed"], data["failed"], len(data["outcomes"])) == (False, 1, 3)


def test_check_against_a_baseline(busbw: Run, runs: dict[str, str]) -> None:
    assert busbw("check", runs["same"], "--baseline", runs["old"]).returncode == 0
    slow = busbw("check", runs["slow"], "--baseline", runs["old"])
    assert slow.returncode == 1
    assert slow.stdout.splitlines()[-1] == "FAIL: 4 of 4 checks failed"


def test_check_says_what_is_wrong_with_a_rule(busbw: Run, runs: dict[str, str]) -> None:
    done = busbw("check", runs["old"], "--min-busbw", "40GB/s@nonsense")
    assert done.returncode == 2
    assert "rule '40GB/s@nonsense': unknown collective 'nonsense'" in done.stderr
    assert busbw("check", runs["old"]).returncode == 2
    assert busbw("check", runs["old"], "--min-busbw", "1GB/s", "--junit", "/nowhere/x.xml").returncode == 2


def test_a_file_that_is_named_twice_is_not_two_launches(busbw: Run, runs: dict[str, str]) -> None:
    done = busbw("compare", runs["old"], f"{runs['slow']},{runs['slow']}")
    assert done.returncode == 2
    assert "is named twice on one side" in done.stderr
    done = busbw("compare", "--spread", "0", runs["old"], runs["slow"])
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "launches always differ by something" in done.stderr
