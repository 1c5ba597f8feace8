"""Every error that a user can act on, as one tree.

    BusbwError                        exit status 2
    ├── UsageError                    a value the user gave breaks a rule
    ├── FileError                     a file that cannot be read, written or understood
    │   └── NoRows                    a known kind of output without a single row; says why
    ├── MissingDependency             an optional library is needed; the message is the install command
    ├── WrongResult                   a collective returned wrong data                       (1)
    ├── MeasurementError              a measurement could not be finished                    (3)
    │   ├── LaunchError               the ranks did not start, or did not find each other
    │   ├── RankLost                  a rank died, stopped, hung or never arrived
    │   └── RankMismatch              the ranks disagree on what to run
    └── Interrupted                   the user stopped it; what was measured is on disk      (130)

The message of each is one line that names the value (or file, or rank), the rule, and the way out.
"""

from __future__ import annotations


class BusbwError(Exception):
    """Base of all errors that a user can act on; `exit_status` is what the command line returns."""

    exit_status = 2

    def __str__(self) -> str:
        """The message on one line, whatever the names of files and the texts in them hold."""
        return printable(super().__str__())


def printable(text: str) -> str:
    """A text with its control characters, line ends and broken bytes as escapes: a name may hold any of them."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or (char.isspace() and char not in _LINE_ENDS) else ascii(char)[1:-1]
        for char in text
    )


_LINE_ENDS = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029")


class UsageError(BusbwError):
    """A value that the user gave breaks a rule."""


class FileError(BusbwError):
    """A file cannot be read, written or understood."""


class NoRows(FileError):
    """A file of a known kind holds no row: the run crashed first, or was never started.

    `results` (a `core.measurement.Results`) has its runs with what is known about them.
    """

    def __init__(self, message: str, results: object) -> None:
        super().__init__(message)
        self.results = results


class MissingDependency(BusbwError):
    """An optional library is needed for what was asked."""

    def __init__(self, library: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {library}, which is not installed: pip install 'busbw[{extra}]'")


class WrongResult(BusbwError):
    """A collective returned wrong data."""

    exit_status = 1


class MeasurementError(BusbwError):
    """A measurement could not be finished; rows taken before it are on disk."""

    exit_status = 3


class LaunchError(MeasurementError):
    """The ranks did not start, or did not find each other."""


class RankLost(MeasurementError):
    """A rank died, stopped, hung or never arrived."""


class RankMismatch(MeasurementError):
    """The ranks disagree on what to run."""


class Interrupted(BusbwError):
    """The user stopped the run; what was measured is on disk."""

    exit_status = 130
