"""Where the texts of an SVG lie, as a reader of the file would find them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from itertools import combinations

from busbw.plots.text import text_width


@dataclass(frozen=True)
class Box:
    text: str
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def text_boxes(svg: str) -> list[Box]:
    """The box of every text: Helvetica's width, from the top of a capital to the foot of a g."""
    found: list[Box] = []
    _walk(ElementTree.fromstring(svg), 0.0, 0.0, found)
    return found


def overlapping(boxes: list[Box]) -> list[tuple[str, str]]:
    return [(a.text, b.text) for a, b in combinations(boxes, 2) if a.overlaps(b)]


def size(svg: str) -> tuple[float, float]:
    root = ElementTree.fromstring(svg)
    return float(root.attrib["width"]), float(root.attrib["height"])


def _walk(element: ElementTree.Element, x: float, y: float, found: list[Box]) -> None:
    transform = element.attrib.get("transform", "")
    assert not {"rotate", "scale"} & set(re.findall(r"[a-z]+", transform)), "only shifted text is understood here"
    shift = re.match(r"translate\(([^,]+),([^)]+)\)", transform)
    if shift:
        x, y = x + float(shift[1]), y + float(shift[2])
    if element.tag.endswith("}text"):
        height = float(element.attrib["font-size"].removesuffix("px"))
        bold = element.attrib.get("font-weight") == "bold"
        spans = list(element) or [element]
        below = 0.0
        for span in spans:
            below += float(span.attrib.get("dy", 0.0))
            text = span.text or ""
            width = text_width(text, height, bold)
            anchor = element.attrib.get("text-anchor", "start")
            left = x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
            if text:
                found.append(Box(text, left, y + below - 0.72 * height, left + width, y + below + 0.21 * height))
        return
    for child in element:
        _walk(child, x, y, found)
