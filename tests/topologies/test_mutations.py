"""What people do to files on their way: line ends, encodings, labels, colours, quotes. The content stays the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.core.log_text import LogText
from busbw.errors import BusbwError
from busbw.topologies import describe_file, describe_text
from busbw.topologies.writing import to_toml

LOGS = Path(__file__).resolve().parents[3] / "shared" / "data" / "logs"
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "topologies"


def lines(change: Callable[[int, str], str]) -> Callable[[str], bytes]:
    return lambda text: "\n".join(change(n, line) for n, line in enumerate(text.splitlines())).encode() + b"\n"


EVERYWHERE: dict[str, Callable[[str], bytes]] = {
    "crlf": lambda text: text.replace("\r\n", "\n").replace("\n", "\r\n").encode(),
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "utf-16": lambda text: text.encode("utf-16"),
    "blank lines around": lambda text: f"\n\n{text}\n\n".encode(),
    "trailing blanks": lines(lambda n, line: f"{line}  \t"),
}
TEXT: dict[str, Callable[[str], bytes]] = {
    "mpirun": lines(lambda n, line: f"[1,0]<stdout>:{line}"),
    "quoted": lines(lambda n, line: f"> {line}"),
    "colours": lines(lambda n, line: f"\x1b[32m{line}\x1b[0m"),
    "indented": lines(lambda n, line: f"    {line}"),
    "time": lines(lambda n, line: f"2025-01-02T03:04:05.678Z {line}"),
    "fenced": lambda text: f"```\n{text}\n```\n".encode(),
    "after a prompt": lambda text: f"user@host:~$ nvidia-smi topo -m\n{text}\nuser@host:~$ \n".encode(),
}
XML: dict[str, Callable[[str], bytes]] = {
    "fenced": lambda text: f"```xml\n{text}\n```\n".encode(),
    "after a prompt": lambda text: f"$ cat topo.xml\n{text}\n$ \n".encode(),
    "indented": lines(lambda n, line: f"    {line}"),
}


def samples() -> list[Any]:
    found = []
    for path in sorted(
        [
            *GOLDEN.glob("*.*"),
            *LOGS.glob("smi-topo/*.txt"),
            *LOGS.glob("nccl-topo-xml/*.xml"),
            *LOGS.glob("nccl-debug-log/0[359]*"),
        ]
    ):
        head = path.read_text(errors="replace")[:3000]
        kinds = EVERYWHERE | (
            XML if "<system" in head or "<graphs" in head else {} if head.startswith(("[", "busbw_topology")) else TEXT
        )
        found += [pytest.param(path, change, id=f"{path.name}-{name}") for name, change in kinds.items()]
    return found


def said(path: Path) -> Any:
    try:
        found = describe_file(str(path)).to_json()
    except BusbwError as error:
        return type(error)
    return {key: value for key, value in found.items() if key not in ("line", "notes")}


@pytest.mark.parametrize(("path", "change"), samples())
def test_a_file_that_came_a_long_way_says_the_same(path: Path, change: Callable[[str], bytes], tmp_path: Path) -> None:
    mutant = tmp_path / "file"
    mutant.write_bytes(change(path.read_bytes().decode("utf-8", "replace")))
    assert said(mutant) == said(path)


GOLDENS = [path.read_bytes() for path in sorted(GOLDEN.glob("*.*"))]


@pytest.mark.fuzz
@given(st.data())
def test_a_damaged_file_is_read_or_refused(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from(GOLDENS))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(whole)))
        end = min(len(whole), start + data.draw(st.integers(0, 60)))
        new = data.draw(
            st.sampled_from(
                [b"", b"\n", b"0", b"-1", b"99999999999999999999", b'"', b"<", b"/>", b"GPU0", b"NV18", b"\xff", b" "]
            )
        )
        whole = whole[:start] + new + whole[end:]
    try:
        found = describe_text(LogText(whole, "damaged"))
        json.dumps(found.to_json())
        assert all(isinstance(line, str) for line in found.summary())
        to_toml(found.topology())
    except BusbwError as error:
        assert "\n" not in str(error)
        assert str(error).startswith(("damaged", "topology damaged"))
