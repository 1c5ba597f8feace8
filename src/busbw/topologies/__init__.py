"""Machines: presets by name, other tools' descriptions, our own TOML, and this machine -> Topology."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from busbw.core.log_text import LogText
from busbw.core.topology import Topology
from busbw.errors import FileError
from busbw.topologies.preset import FAMILIES, Parameter, Preset, all_presets, find_preset
from busbw.topologies.reading import TOPOLOGY_FORMATS, Description, TopologyFormat
from busbw.topologies.spec import EXPRESSION, read_spec

__all__ = [
    "FAMILIES",
    "TOPOLOGY_FORMATS",
    "Description",
    "Parameter",
    "Preset",
    "TopologyFormat",
    "all_presets",
    "describe_file",
    "describe_text",
    "describe_this",
    "find_preset",
    "is_file",
    "read_spec",
    "read_topology",
]


def read_topology(text_or_path: str) -> Topology:
    """The machine that `text_or_path` names.

    It is a preset with or without parameters (`dgx-h100`, `switch(gpus=512, bandwidth=50GiB/s, latency=0.5us)`), a file
    of any format of TOPOLOGY_FORMATS (our own TOML among them), `-` for standard input, or `this` for this machine.

    Raises UsageError for an expression, FileError for a file: one line with the value, the rule and the way out.
    """
    if text_or_path == "this":
        return describe_this().topology()
    if is_file(text_or_path):
        return describe_file(text_or_path).topology()
    return read_spec(text_or_path)


def describe_this() -> Description:
    """What this machine shows of itself."""
    from busbw.topologies.this_machine import this_machine

    return this_machine()


def describe_file(path: str) -> Description:
    """What a file says of a machine, in its own terms; `-` is standard input. FileError as in `read_topology`."""
    name = "<stdin>" if path == "-" else path
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    return describe_text(LogText(data, name))


def describe_text(text: LogText) -> Description:
    """As `describe_file`, of a text that is in memory already."""
    if not text.data.strip(b" \t\r\n\0"):
        raise FileError(f"{text.name}: the file is empty")
    if text.is_binary:
        raise FileError(f"{text.name}: not a description of a machine but a binary file")
    for reader in sorted(TOPOLOGY_FORMATS, key=lambda reader: reader.order):
        if reader.recognises(text):
            return reader.read(text)
    known = ", ".join(f"{reader.name} ({reader.summary})" for reader in TOPOLOGY_FORMATS)
    raise FileError(f"{text.name}: not a description of a machine that is known here: {known}")


def is_file(text: str) -> bool:
    """Whether a path is meant: it exists, or it looks like one and is no expression."""
    if text == "-" or ("\n" not in text and len(text) < 4096 and Path(text).is_file()):
        return True
    if "(" in text:
        return False
    return EXPRESSION.fullmatch(text) is None or re.search(r"/|\.(?:toml|xml|txt|log|json|out)$", text) is not None
