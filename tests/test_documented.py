"""Whatever a user can name is in the documentation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import busbw
from busbw.core.call import Call
from busbw.core.collective import COLLECTIVES
from busbw.core.file_format import FORMATS
from busbw.core.finding import Facts
from busbw.core.measurement import Measurement
from busbw.core.schedule import ALGORITHMS, Algorithm
from busbw.doctor import PROBES, Probe, Report
from busbw.doctor.nccl_variables import HURTS, Hurt
from busbw.formats.busbw_jsonl import measurement_record
from busbw.units import parse_size


@pytest.fixture(scope="session")
def pages(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted((root / "docs").glob("*.md"))}


@pytest.mark.parametrize("name", busbw.__all__)
def test_every_public_name_is_in_the_api_page(name: str, pages: dict[str, str]) -> None:
    assert f"`{name}`" in pages["api.md"]


@pytest.mark.parametrize("name", COLLECTIVES.names())
def test_every_collective_has_a_row_in_the_numbers_page(name: str, pages: dict[str, str]) -> None:
    assert re.search(rf"^\| `{name}` \|", pages["numbers.md"], re.MULTILINE)


@pytest.mark.parametrize("key", Measurement(Call("barrier", 0, 2), 1.0).row())
def test_every_json_key_has_a_row_in_the_json_page(key: str, pages: dict[str, str]) -> None:
    assert re.search(rf"^\|[^|]*`{key}`[^|]*\|", pages["json.md"], re.MULTILINE)


def test_the_json_page_names_no_key_that_does_not_exist(pages: dict[str, str]) -> None:
    rows = pages["json.md"].partition("## The doctor's report")[0]
    first_cells = re.findall(r"^\|([^|]*)\|", rows, re.MULTILINE)
    named = {key for cell in first_cells for key in re.findall(r"`(\w+)`", cell)}
    assert named == set(Measurement(Call("barrier", 0, 2), 1.0).row())


def test_the_doctors_keys_are_those_of_the_json_page(pages: dict[str, str]) -> None:
    table = pages["json.md"].partition("## The doctor's report")[2]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(Report("", "/", (), Facts()).to_json())


@pytest.mark.parametrize("probe", list(PROBES), ids=lambda probe: probe.name)
def test_every_probe_has_a_row_in_the_doctors_page(probe: Probe, pages: dict[str, str]) -> None:
    assert f"| `{probe.name}` | {probe.asks} |" in pages["doctor.md"]


@pytest.mark.parametrize("hurt", HURTS, ids=lambda hurt: f"{hurt.variable}-{hurt.values}")
def test_every_variable_that_hurts_has_a_row_with_its_reason(hurt: Hurt, pages: dict[str, str]) -> None:
    assert f"| `{hurt.variable}` | {hurt.values} | {hurt.severity} | {hurt.why} |" in pages["doctor.md"]


@pytest.mark.parametrize("key", measurement_record(Measurement(Call("barrier", 0, 2), 1.0)))
def test_every_key_of_the_results_file_is_in_its_page(key: str, pages: dict[str, str]) -> None:
    assert f"`{key}`" in pages["results-file.md"]


@pytest.mark.parametrize("name", FORMATS.names())
def test_every_format_has_a_section(name: str, pages: dict[str, str]) -> None:
    assert f"## {name}: " in pages["results-file.md"]


def test_every_command_is_documented(root: Path, pages: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    commands = set(re.findall(r"^ {2,6}([a-z][a-z-]+)\s{2,}\S", done.stdout, re.MULTILINE))
    assert "bench" in commands
    missing = [name for name in sorted(commands) if f"`busbw {name}" not in pages["index.md"]]
    assert missing == []


def test_the_worked_example_of_the_numbers_page(pages: dict[str, str]) -> None:
    """N = 4, S = 1 MiB, B = 20 GB/s, alpha = 5 us, t0 = 10 us, worked again."""
    size, step = parse_size("1MiB"), (2**20 / 4) / 20e9 + 5e-6
    call, time_s = Call("all_reduce", size, 4), 10e-6 + 6 * step
    for number in (f"{time_s * 1e6:.1f} us", f"{size / time_s / 1e9:.2f} GB/s"):
        assert number in pages["numbers.md"]
    busbw_Bps = call.busbw_Bps(time_s)  # noqa: N806
    assert busbw_Bps is not None
    assert f"busbw = {busbw_Bps / 1e9:.1f} GB/s" in pages["numbers.md"]
    half = (10e-6 + 6 * 5e-6) * 20e9 * 4 / 6
    assert f"{half:,.0f} B".replace(",", " ") in pages["numbers.md"]
    assert call.kind.sent_bytes(size, 4, rank=0) == 1572864
    assert "1 572 864 B" in pages["numbers.md"]


@pytest.mark.parametrize("algorithm", list(ALGORITHMS), ids=lambda algorithm: algorithm.name)
def test_every_algorithm_has_a_row_with_its_collectives_and_options(
    algorithm: Algorithm, pages: dict[str, str]
) -> None:
    row = re.search(rf"^\| `{algorithm.name}`.*$", pages["algorithms.md"], re.MULTILINE)
    assert row is not None
    cells = row[0].split("|")
    everything = "broadcast, reduce, scatter, gather" in cells[4] or "all of them" in cells[4]
    assert everything or all(collective in cells[4] for collective in algorithm.builders)
    assert set(re.findall(r"`(\w+)`", cells[5])) == set(algorithm.options)


def test_the_users_own_algorithm_of_its_page_is_right_and_short(pages: dict[str, str], tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", pages["algorithms.md"], re.DOTALL)
    assert code is not None
    assert code[1].count("\n") < 20
    path = tmp_path / "square.py"
    path.write_text(code[1])
    schedule = busbw.parse_algorithm(f"{path}:square(chunks=4)").build("all_reduce", 4)
    assert schedule.sent_share().tolist() == [2, 2, 2, 2]
