from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., "subprocess.CompletedProcess[str]"]

STAR = """
from busbw import Sketch

def star(world_size, centre=0):
    sketch = Sketch("all_reduce", world_size, chunks=1)
    others = [rank for rank in range(world_size) if rank != centre]
    sketch.round("in")
    for rank in others:
        sketch.add(rank, centre, 0)
    sketch.round("out")
    for rank in others:
        sketch.copy(centre, rank, 0)
    return sketch.schedule("star")
"""


def test_algorithms_are_listed_with_collectives_and_options(busbw: Run) -> None:
    text = busbw("schedule").stdout
    assert "ring: Each rank sends to the next" in text
    assert "order: the ranks in the order of the ring" in text
    assert "does all_gather, all_reduce, all_to_all, reduce_scatter  (Bruck et al. 1997)" in text


def test_one_is_verified_and_described(busbw: Run) -> None:
    text = busbw("schedule", "ring", "-N", "4").stdout
    assert text.splitlines() == [
        "ring: all_reduce on 4 ranks, 6 rounds, 4 chunks",
        "    reduce-scatter              3 x 4 transfers of 1 of 4 chunks",
        "    all-gather                  3 x 4 transfers of 1 of 4 chunks",
        "  a rank sends 1.5 to 1.5 S, 6 S all together; the optimal form's busiest rank 1.5 S",
        "  verified: every rank ends with exactly what the collective promises",
    ]
    assert "  rank 3 -> rank 0: slot 2, added" in busbw("schedule", "ring", "-N", "4", "--rounds").stdout
    assert "not verified: too large" in busbw("schedule", "ring", "-N", "131072").stdout


def test_a_schedule_goes_to_msccl_and_back(busbw: Run, tmp_path: Path) -> None:
    path = tmp_path / "tree.xml"
    done = busbw("schedule", "tree", "--op", "broadcast", "-N", "3", "-r", "2", "--msccl", str(path))
    assert "MSCCL XML, 4 steps in 4 thread blocks" in done.stdout
    again = busbw("schedule", str(path), "-r", "2").stdout
    assert f"{path}: broadcast on 3 ranks, 1 round, 1 chunk" in again  # nothing makes one send wait for the other
    refused = busbw("schedule", "tree", "--msccl", str(path))
    assert (refused.returncode, refused.stderr) == (
        2,
        f"busbw schedule: --msccl {path} exists: add --overwrite, or name another file\n",
    )


def test_a_wrong_schedule_is_one_clear_line(busbw: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(STAR.replace("sketch.copy(", "sketch.add("))
    done = busbw("schedule", f"{path}:star", "-N", "3")
    assert done.returncode == 2
    assert done.stderr == (
        "busbw schedule: schedule star, all_reduce on 3 ranks: round 2 (out): rank 0 adds the contribution of rank 1 to "
        "slot 0 of rank 1, which has it already\n"
    )


def test_bench_runs_schedules_and_labels_their_rows(fake: Run, tmp_path: Path) -> None:
    path, out = tmp_path / "mine.py", tmp_path / "r.jsonl"
    path.write_text(STAR)
    words = ["--world", "4", "--algorithm", f"own,ring(order=0-2-1-3),{path}:star(centre=1)", "-o", str(out)]
    done = fake(*words)
    assert done.returncode == 0, done.stderr
    assert "# all_reduce  N=4  on fake  by schedule ring(order=0-2-1-3)" in done.stdout
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    labels = [row["labels"].get("schedule") for row in rows if "labels" in row]
    assert labels == [None, "ring(order=0-2-1-3)", f"{path}:star(centre=1)"]
    resumed = fake(*words, "--resume")
    assert f"# 3 rows are in {out} already" in resumed.stdout
    assert "wrong" not in resumed.stdout.splitlines()[-1]
    assert len(out.read_text().splitlines()) == len(rows) + 1  # the second launch, and no row


def test_a_fault_of_the_backend_shows_in_a_schedules_rows_too(fake: Run) -> None:
    done = fake("--world", "4", "--algorithm", "ring", "--fake", "fault=swap:2")
    assert done.returncode == 1
    assert "elements are wrong" in done.stdout + done.stderr


def test_bench_refuses_an_algorithm_before_it_starts_ranks(fake: Run) -> None:
    for text, message in (
        ("rung", "unknown algorithm 'rung': choose from"),
        ("ring(order=0-1-2)", "order 0-1-2: it must have each rank from 0 to 1 once"),
        (",", "--algorithm ',': names nothing"),
    ):
        done = fake("--algorithm", text)
        assert done.returncode == 2
        assert message in done.stderr
        assert "# N=" not in done.stdout


def test_compare_tells_a_schedule_from_the_backends_own(fake: Run, busbw: Run, tmp_path: Path) -> None:
    own, ring = str(tmp_path / "own.jsonl"), str(tmp_path / "ring.jsonl")
    for path, algorithm in ((own, "own"), (ring, "ring")):
        assert fake("--world", "4", "--algorithm", algorithm, "-o", path).returncode == 0
    apart = busbw("compare", own, ring)
    assert "schedule is not set in A and ring in B; --across schedule compares them even so" in apart.stderr
    across = busbw("compare", own, ring, "--across", "schedule")
    assert "all_reduce" in across.stdout
    assert "--across" not in across.stderr
