"""File names and encodings that nobody plans for: no traceback, one line, nothing that a terminal would obey."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="file systems that take any bytes as a name")

ODD = [
    "new\nline.csv",
    "esc\x1b[31mred.csv",
    "bad\udcff.csv",
    "ünïcødé-数.csv",
    "</script><b>.csv".replace("/", "|"),
    " .csv",
]


@pytest.fixture(params=ODD, ids=ascii)
def odd(request: pytest.FixtureRequest, tmp_path: Path, golden: Path) -> str:
    path = f"{tmp_path}/{request.param}"
    shutil.copy(golden / "plots.csv", path)
    return path


def test_a_name_of_any_bytes_is_shown_in_any_encoding(odd: str, busbw: Run) -> None:
    for encoding in ("ascii", "utf-8"):
        for words in (["show", "-v", odd], ["compare", odd, odd], ["topo", odd], ["fit", odd + "x"]):
            done = busbw(*words, PYTHONIOENCODING=encoding, PYTHONUTF8="0")
            assert done.returncode == (2 if words[0] in ("topo", "fit") else 0), done.stderr
            assert "Traceback" not in done.stderr
            assert "\x1b" not in done.stdout + done.stderr
            assert len(done.stderr.splitlines()) <= 1
            assert not any(line.startswith("line.csv") for line in done.stdout.splitlines())


def test_junit_is_xml_whatever_the_file_is_called(odd: str, busbw: Run, tmp_path: Path) -> None:
    out = tmp_path / "junit.xml"
    rule = "1kB/s@all_reduce:>=1"
    done = busbw("check", odd, "--min-busbw", rule, "--junit", str(out), PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    data = out.read_bytes()
    assert data.startswith(b'<?xml version="1.0" encoding="utf-8"?>\n')
    case = ElementTree.fromstring(data).find(".//testcase")
    assert case is not None
    assert case.get("classname", "").removesuffix(f" {rule}").endswith(".csv")


def test_a_drawing_on_standard_output_is_the_same_picture_in_any_encoding(busbw: Run) -> None:
    plain = busbw("draw", "primitives", "-o", "-", PYTHONIOENCODING="utf-8")
    ascii_only = busbw("draw", "primitives", "-o", "-", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (plain.returncode, ascii_only.returncode) == (0, 0), ascii_only.stderr
    assert "Σ" in plain.stdout
    assert ascii_only.stdout.isascii()
    assert "".join(ElementTree.fromstring(ascii_only.stdout).itertext()) == "".join(
        ElementTree.fromstring(plain.stdout).itertext()
    )


@pytest.mark.parametrize(
    "words", ["show {}", "explain {}", "compare {} {}", "topo dgx-h100 --json", "draw primitives -o -"]
)
def test_a_full_disk_is_said_and_is_not_the_status_of_a_comparison(words: str, golden: Path) -> None:
    line = words.replace("{}", str(golden / "plots.csv")).split()
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "busbw", *line],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 2
    assert f"busbw {line[0]}: error: standard output cannot be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_closed_streams(golden: Path) -> None:
    for tail, status in (
        ("show FILE >&-", 0),
        ("show - <&-", 2),
        ("explain FILE >&- 2>&-", 0),
        ("show no.csv 2>&-", 2),
    ):
        line = f"{sys.executable} -m busbw {tail.replace('FILE', str(golden / 'plots.csv'))}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, "Traceback" in done.stderr) == (status, False), tail
