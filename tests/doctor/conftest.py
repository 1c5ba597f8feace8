"""Hosts made of text: `base.host`, and files laid over it with one thing changed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from busbw.core.finding import Finding
from busbw.doctor import Host, Report, examine

Machine = Callable[..., Host]


def entries(text: str) -> Iterator[tuple[str, str, str]]:
    """Of `=== PATH [-> TARGET | absent | hex LENGTH]` and the lines below it: path, what it is, text."""
    for part in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        match = re.fullmatch(r"(/\S+)(?: (-> .+|absent|hex \d+))?", head)
        assert match is not None, head
        yield match[1], match[2] or "", body


def write(root: Path, text: str) -> None:
    for path, kind, body in entries(text):
        place = root / path[1:]
        if place.is_symlink() or place.is_file():
            place.unlink()
        elif place.is_dir():
            shutil.rmtree(place)
        if kind == "absent":
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if kind.startswith("-> "):
            place.symlink_to(kind[3:])
        elif kind.startswith("hex "):
            data = bytearray(int(kind[4:]))
            for line in body.splitlines():
                offset, _, digits = line.partition(": ")
                new = bytes.fromhex(digits)
                data[int(offset, 16) : int(offset, 16) + len(new)] = new
            place.write_bytes(data)
        else:
            place.write_text(body)


@pytest.fixture
def machine(tmp_path: Path, golden: Path) -> Machine:
    """The base host with the named changes."""

    def build(*changes: str) -> Host:
        root = tmp_path / "-".join(("host", *changes))
        root.mkdir()
        for name in ("base", *changes):
            write(root, (golden / "doctor" / f"{name}.host").read_text())
        return Host(root)

    return build


@pytest.fixture
def report(machine: Machine) -> Callable[..., Report]:
    """What all probes say of the base host with the named changes."""
    return lambda *changes: examine(machine(*changes))


def of(report: Report, probe: str) -> list[Finding]:
    """One probe's findings."""
    return [finding for finding in report.findings if finding.law == probe]


def numbers(finding: Finding) -> dict[str, float]:
    return {number.name: number.value for number in finding.numbers}
