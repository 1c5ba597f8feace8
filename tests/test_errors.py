from __future__ import annotations

import inspect
import re

import pytest

from busbw import errors


def tree() -> dict[str, type[errors.BusbwError]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.BusbwError)
    }


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("BusbwError", 2),
        ("UsageError", 2),
        ("FileError", 2),
        ("MissingDependency", 2),
        ("WrongResult", 1),
        ("MeasurementError", 3),
        ("LaunchError", 3),
        ("RankLost", 3),
        ("RankMismatch", 3),
        ("Interrupted", 130),
    ],
)
def test_exit_statuses(name: str, status: int) -> None:
    assert tree()[name].exit_status == status


def test_the_docstring_draws_the_whole_tree() -> None:
    drawn = re.findall(r"^\s*[│├└─ ]*([A-Z]\w+)\s{2,}", errors.__doc__ or "", re.MULTILINE)
    assert sorted(drawn) == sorted(tree())


def test_a_missing_dependency_answers_with_the_install_command() -> None:
    error = errors.MissingDependency("altair", "plot", "drawing figures")
    assert str(error) == "drawing figures needs altair, which is not installed: pip install 'busbw[plot]'"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a.log:3: no rows in an über-file", "a.log:3: no rows in an über-file"),
        ("two\nlines\r\n", "two\\nlines\\r\\n"),
        ("\x1b[31mred\x07 \u2028", "\\x1b[31mred\\x07 \\u2028"),
        ("bad\udcff.csv", "bad\\udcff.csv"),
        ("a\u00a0b", "a\u00a0b"),
    ],
)
def test_a_message_is_one_line_that_every_terminal_can_show(text: str, shown: str) -> None:
    assert str(errors.FileError(text)) == shown
