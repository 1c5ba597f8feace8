"""Into a program without touching it: what is put before it, chained, refused, and said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from busbw.errors import FileError, UsageError
from busbw.traces import launch, parse_steps

from .conftest import child_environment

pytest.importorskip("torch", reason="capturing needs torch")

ALONE = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + os.environ["MEET"], rank=0, world_size=1)
for _ in range(3):
    dist.all_reduce(torch.ones(5))
{more}
"""


def run(tmp_path: Path, *words: str, more: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """`busbw capture WORDS -- python program`."""
    program = tmp_path / "program.py"
    program.write_text(ALONE.format(more=more))
    return subprocess.run(
        [sys.executable, "-m", "busbw", "capture", *words, "--", sys.executable, str(program)],
        env=child_environment(MEET=str(tmp_path / "meet"), **variables),
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


def test_an_own_sitecustomize_still_runs(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 'still here'\n")
    environ = child_environment()
    environ["PYTHONPATH"] = os.pathsep.join([str(own), environ["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, "-c", "import sys; print(mine, sys.modules['sitecustomize'].__file__, 'inject' in ''.join(sys.path))"],
        env=launch.environment(tmp_path, None, "sampled", environ), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["still", "here", str(own / "sitecustomize.py"), "False"], done.stderr


def test_a_program_that_needs_no_torch_is_left_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; print([name for name in sys.modules if name.split('.')[0] in ('torch', 'busbw')])"],
        env=launch.environment(tmp_path, None, "sampled", child_environment()), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "[]", done.stderr


def test_a_job_is_captured_and_its_status_handed_on(tmp_path: Path) -> None:
    done = run(tmp_path, "-o", "out.jsonl", more="print('from the job'); raise SystemExit(7)")
    assert done.returncode == 7
    assert done.stdout.startswith("from the job\n# captured: 1 of 1 ranks")
    assert "all_reduce" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("out")) == ["out.jsonl"]
    again = subprocess.run(
        [sys.executable, "-m", "busbw", "capture", str(tmp_path / "out.jsonl")],
        env=child_environment(), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert again.stdout == done.stdout.split("\n", 1)[1].rsplit("# saved", 1)[0]


def test_json_stands_alone_on_stdout_and_only_some_steps_are_kept(tmp_path: Path) -> None:
    import json

    more = """
net = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters())
for size in range(10, 16):
    net(torch.ones(3)).sum().backward()
    dist.all_reduce(torch.ones(size))
    optimizer.step()
print("not JSON")
"""
    done = run(tmp_path, "-o", "out", "--json", "--steps", "3:5", more=more)
    assert done.returncode == 0, done.stderr
    assert "not JSON" in done.stderr
    bill = json.loads(done.stdout)
    assert {name: [line["size_bytes"] for line in step["lines"]] for name, step in bill["steps"].items()} in (
        {"3": [4 * 13], "steady": [4 * 14]},
        {"4": [4 * 14], "steady": [4 * 13]},
    )
    assert {"advice", "judged", "ranks"} < set(bill)


def test_what_was_flushed_survives_a_kill(tmp_path: Path) -> None:
    """The program waits for a second after its calls, so that they are old enough to be written, and kills itself."""
    done = run(tmp_path, "-o", "out", more="import time; time.sleep(2.0); os.kill(os.getpid(), 9)")
    assert done.returncode == 128 + signal.SIGKILL
    assert "rank 0 was killed or still runs: calls of its last second may be missing (at most 512)" in done.stdout
    assert "# total: 3 calls" in done.stdout


def test_a_termination_reaches_the_job(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    more = f"open({str(ready)!r}, 'w').close(); import time; time.sleep(60)"
    program = tmp_path / "program.py"
    program.write_text(ALONE.format(more=more))
    process = subprocess.Popen(
        [sys.executable, "-m", "busbw", "capture", "-o", str(tmp_path / "out"), "--", sys.executable, str(program)],
        env=child_environment(MEET=str(tmp_path / "meet")), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    until = time.monotonic() + 60
    while not ready.exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1.2)
    process.terminate()
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert "# total: 3 calls" in out


def test_nothing_captured_says_why(tmp_path: Path) -> None:
    def capture(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "busbw", "capture", "-o", "none", "--", *command],
            env=child_environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    blind = capture("env", "-i", sys.executable, "-c", "raise SystemExit(4)")
    assert blind.returncode == 4
    assert "no Python of the job that imports torch looked into PYTHONPATH" in blind.stderr
    quiet = capture(sys.executable, "-c", "import torch")
    assert quiet.returncode == 0
    assert "the job made no collective call" in quiet.stderr
    assert not (tmp_path / "none").exists()
    isolated = capture(sys.executable, "-I", "train.py")
    assert isolated.returncode == 2
    assert isolated.stderr.startswith("busbw capture: -I makes Python ignore PYTHONPATH")


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        (["python", "-I", "a.py"], "-I"),
        (["env", "X=1", "python3.11", "-u", "-sE", "a.py"], "-sE"),
        (["/usr/bin/python3", "-S"], "-S"),
        (["python", "a.py", "-I"], None),
        (["python", "-W", "ignore", "-m", "I"], None),
        (["python", "-Wignore::ImportWarning", "a.py"], None),
        (["torchrun", "-I"], None),
    ],
)
def test_flags_that_blind_python(command: list[str], flag: str | None) -> None:
    assert launch.blind_flag(command) == flag


def test_a_folder_that_holds_a_capture_is_not_mixed_with_another(tmp_path: Path) -> None:
    (tmp_path / "rank-00000.jsonl").touch()
    with pytest.raises(FileError, match="holds a capture already"):
        launch.prepare(tmp_path)


def test_steps() -> None:
    assert parse_steps("10:20") == range(10, 20)
    assert parse_steps("7") == range(7, 8)
    assert parse_steps(":3") == range(3)
    assert 10**6 in parse_steps("5:")
    for wrong in ("a:b", "5:5", "9:3", "-1:3", ""):
        with pytest.raises(UsageError, match="must be FIRST:END"):
            parse_steps(wrong)


def test_a_job_that_cannot_start_leaves_nothing_behind(tmp_path: Path) -> None:
    script = tmp_path / "job"
    script.write_text("neither a binary nor a script\n")
    script.chmod(0o755)
    for word, why in ((str(script), "cannot be started: Exec format error"), ("/no/such", "no such program")):
        found = subprocess.run(
            [sys.executable, "-m", "busbw", "capture", "-o", "out", "--", word],
            env=child_environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert found.returncode == 2
        assert why in found.stderr
        assert "Traceback" not in found.stderr
        assert not (tmp_path / "out").exists()
