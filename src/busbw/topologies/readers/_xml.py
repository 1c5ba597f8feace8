"""XML of NCCL: parsed whole or refused with the line; which element it begins with, also where it is cut."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from busbw.core.log_text import LogText
from busbw.errors import FileError

_NAMES = ("system", "cpu", "pci", "gpu", "nvlink", "xgmi", "c2c", "pcilink", "nic", "net", "graphs", "graph", "channel")


def root_of(text: LogText) -> str:
    """The first element of NCCL's in a text that begins as XML does; "" for another text."""
    head = re.sub(r"<!--.*?(?:-->|\Z)|<\?.*?\?>", "", text.head, flags=re.DOTALL).lstrip()
    match = re.match(r"</?([A-Za-z_]+)[\s/>]", head)
    if match is None and not text.contains(b"NCCL INFO"):  # a part, or with a prompt or a fence before it
        match = re.search(rf"<({'|'.join(_NAMES)})\s+\w+=\"", head)
    return match[1] if match is not None and match[1] in _NAMES else ""


def parse_xml(text: LogText) -> ElementTree.Element:
    """The root element. FileError with line and reason where it is not well-formed, or only a part."""
    if text.contains(b"<!DOCTYPE", b"<!ENTITY"):
        raise FileError(f"{text.name}: XML with a DOCTYPE or entities: NCCL writes none, and they are not read")
    whole = text.whole()
    document = re.search(r"<(system|graphs)\b.*</\1\s*>", whole, re.DOTALL)
    start = document.start() if document else len(whole) - len(whole.lstrip())
    try:
        root = ElementTree.fromstring(document[0] if document else whole[start:])
    except ElementTree.ParseError as error:
        line = error.position[0] + whole[:start].count("\n")
        reason = str(error).partition(":")[0]
        raise FileError(
            f"{text.name}:{line}: not well-formed XML ({reason}): a part of a file? NCCL writes a whole one with "
            "NCCL_TOPO_DUMP_FILE=topo.xml (NCCL_GRAPH_DUMP_FILE for graphs)"
        ) from error
    if root.tag not in ("system", "graphs"):
        raise FileError(
            f"{text.name}: a part of NCCL's XML: its root is <{root.tag}>, not <system> (or <graphs>); save the whole file: "
            "NCCL_TOPO_DUMP_FILE=topo.xml"
        )
    return root
