"""docs/where-in-source.md names files of ours that exist, and functions of PyTorch that its version has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def rows(root: Path) -> list[list[str]]:
    text = (root / "docs" / "where-in-source.md").read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [row for row in cells if row[0] != "what" and set(row[0]) != {"-"}]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_row_has_three_cells(rows: list[list[str]]) -> None:
    assert len(rows) > 20
    assert {len(row) for row in rows} == {3}


def test_every_file_of_ours_exists(rows: list[list[str]], root: Path) -> None:
    named = [name for row in rows for name in quoted(row[2]) if name.endswith(".py")]
    assert len(named) > 25
    missing = [name for name in named if not (root / "src" / "busbw" / name).is_file()]
    assert missing == []


def test_python_files_and_names_are_those_of_the_torch_that_is_installed(rows: list[list[str]]) -> None:
    torch = pytest.importorskip("torch")
    installed = torch.__version__.split("+")[0]
    if installed != "2.13.0":
        pytest.skip(f"the page was looked up in PyTorch 2.13.0; {installed} is installed")
    home = Path(torch.__file__).parent
    headers = home / "include" / "torch" / "csrc" / "distributed" / "c10d"
    checked, missing = 0, []
    for row in rows:
        folder, texts, names = home, [], []
        for name in quoted(row[1]):
            if not name.endswith((".py", ".hpp", ".cpp", ".cc", ".h")):
                names.append(name)
                continue
            path = home.parent / name if name.startswith("torch/") else folder / name
            if name.endswith(".cpp"):  # wheels have its header alone
                path = headers / Path(name).with_suffix(".hpp").name
            elif name.endswith(".hpp"):
                path = headers / Path(name).name
            if name.endswith((".cc", ".h")):
                break  # NCCL's
            if path.is_file():
                folder = path.parent
                texts.append(path.read_text(encoding="utf-8"))
            else:
                missing.append(name)
        else:
            checked += len(names)
            missing += [part for name in names for part in name.split(".") if part not in "".join(texts)]
    assert missing == []
    assert checked > 25
