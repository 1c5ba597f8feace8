"""Starting is cheap: importing the library, or asking for help, loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "mpi4py", "scipy", "matplotlib", "plotly", "altair", "vl_convert", "numba", "pandas")


def modules_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after the statement."""
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return {line.split(".")[0] for line in done.stderr.splitlines()}


def test_import_busbw_loads_neither_numpy_nor_anything_heavy() -> None:
    assert modules_after("import busbw") & {*HEAVY, "numpy"} == set()


def test_the_nouns_and_every_collective_and_format_load_nothing_heavy() -> None:
    statement = (
        "import busbw; busbw.Call, busbw.Measurement, busbw.Summary, busbw.read_results\n"
        "from busbw.core.collective import COLLECTIVES; list(COLLECTIVES)\n"
        "from busbw.core.file_format import FORMATS; list(FORMATS)"
    )
    assert modules_after(statement) & set(HEAVY) == set()


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_neither_numpy_nor_anything_heavy(option: str) -> None:
    statement = (
        "import sys\nfrom busbw.cli import main\n"
        f"sys.argv = ['busbw', {option!r}]\n"
        "try:\n    sys.exit(main())\nexcept SystemExit as done:\n    assert not done.code, done.code"
    )
    assert modules_after(statement) & {*HEAVY, "numpy", "asyncio"} == set()
