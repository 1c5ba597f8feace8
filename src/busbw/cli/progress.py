"""The progress bar: on a terminal only, with the row that is being taken and the time left."""

from __future__ import annotations

import sys
from typing import Any


class ProgressBar:
    """A bar on standard error; nothing where that is no terminal, and a plain absence where tqdm is not installed."""

    def __init__(self, enabled: bool) -> None:
        self._bar: Any = None
        self._labels: list[str] = []
        self._launch = ""
        self._tqdm: Any = None
        if enabled and sys.stderr.isatty():
            try:
                from tqdm import tqdm
            except ImportError:
                return
            self._tqdm = tqdm

    def begin(self, launch: str, labels: list[str]) -> None:
        """A launch begins, with these rows to take."""
        self.close()
        self._labels, self._launch = labels, launch
        if self._tqdm is not None and labels:
            self._bar = self._tqdm(total=len(labels), desc=launch, unit="row", leave=False, dynamic_ncols=True)

    def at(self, index: int, phase: str) -> None:
        """The run has come to this row."""
        if self._bar is not None and 0 <= index < len(self._labels):
            self._bar.set_postfix_str(f"{self._labels[index].split(' N=')[0]}: {phase}", refresh=False)
            self._bar.update(max(index - self._bar.n, 0))
            self._bar.refresh()

    def write(self, line: str) -> None:
        """Print a line above the bar."""
        if self._tqdm is not None:
            self._tqdm.write(line, file=sys.stdout)
        else:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
