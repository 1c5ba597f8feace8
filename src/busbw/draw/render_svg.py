"""Scene -> SVG with its text kept as text, and PNG. xml.etree escapes whatever a name from a file holds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from busbw.draw.colours import colours
from busbw.draw.scene import Box, Item, Line, Scene, Text
from busbw.errors import MissingDependency
from busbw.plots.palette import find_theme
from busbw.plots.text import FONT

if TYPE_CHECKING:
    from collections.abc import Mapping

HEAD_LENGTH, HEAD_WIDTH = 7.0, 6.0


def to_svg(scene: Scene, theme: str = "light", width: float | None = None) -> str:
    """The drawing as SVG. With `width` it is scaled to that many pixels."""
    paint = colours(find_theme(theme).name)
    wide = scene.width if width is None else width
    root = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": _number(wide),
            "height": _number(scene.height * wide / scene.width),
            "viewBox": f"0 0 {_number(scene.width)} {_number(scene.height)}",
            "role": "img",
            "aria-label": f"{scene.title}. {scene.description}",
            "font-family": FONT,
        },
    )
    ET.SubElement(root, "title").text = scene.title
    ET.SubElement(root, "desc").text = scene.description
    ET.SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": paint["background"]})
    for item in scene.items:
        _draw(root, item, paint)
    ET.indent(root, " ")
    return ET.tostring(root, encoding="unicode") + "\n"


def to_png(scene: Scene, theme: str = "light", width: float | None = None, scale: float = 2.0) -> bytes:
    """The drawing as PNG, `scale` pixels for each pixel of the SVG."""
    return svg_to_png(to_svg(scene, theme, width), scale)


def svg_to_png(svg: str, scale: float = 2.0) -> bytes:
    """A picture of an SVG that `to_svg` made. MissingDependency without vl-convert."""
    try:
        import vl_convert
    except ImportError as error:
        raise MissingDependency("vl-convert-python", "plot", "drawing a PNG") from error
    return bytes(vl_convert.svg_to_png(svg, scale=scale))


def _draw(root: ET.Element, item: Item, paint: Mapping[str, str]) -> None:
    if isinstance(item, Box):
        _box(root, item, paint)
    elif isinstance(item, Text):
        _text(root, item, paint)
    else:
        _line(root, item, paint)


def _box(root: ET.Element, box: Box, paint: Mapping[str, str]) -> None:
    out = {name: _number(getattr(box, name)) for name in ("x", "y", "width", "height")}
    out["fill"] = paint[box.fill] if box.fill else "none"
    if box.radius:
        out["rx"] = _number(box.radius)
    if box.stroke:
        out |= {"stroke": paint[box.stroke], "stroke-width": _number(box.stroke_width)}
    if box.dash:
        out["stroke-dasharray"] = " ".join(map(_number, box.dash))
    _said(ET.SubElement(root, "rect", out), box.said)


def _text(root: ET.Element, text: Text, paint: Mapping[str, str]) -> None:
    out = {"x": _number(text.x), "y": _number(text.y + text.size * 0.35), "font-size": _number(text.size)}
    out["fill"] = paint[text.role]
    if text.anchor != "start":
        out["text-anchor"] = text.anchor
    if text.bold:
        out["font-weight"] = "bold"
    ET.SubElement(root, "text", out).text = text.text


def _line(root: ET.Element, line: Line, paint: Mapping[str, str]) -> None:
    points = list(line.points)
    colour = paint[line.role]
    head = _head(line) if line.head else None
    if head:  # the stroke ends inside the head
        (x0, y0), (x1, y1) = points[-2], points[-1]
        length = math.hypot(x1 - x0, y1 - y0) or 1.0
        back = min(_head_length(line) * 0.8, length)
        points[-1] = (x1 - (x1 - x0) / length * back, y1 - (y1 - y0) / length * back)
    places = [f"{_number(x)},{_number(y)}" for x, y in points]
    d = f"M{places[0]}Q{places[1]} {places[2]}" if line.curve else f"M{' L'.join(places)}"
    out = {"d": d, "fill": "none", "stroke": colour, "stroke-width": _number(line.width), "stroke-linejoin": "round"}
    if line.dash:
        out["stroke-dasharray"] = " ".join(map(_number, line.dash))
    _said(ET.SubElement(root, "path", out), line.said)
    if head:
        corners = " ".join(f"{_number(x)},{_number(y)}" for x, y in head)
        ET.SubElement(root, "polygon", {"points": corners, "fill": colour})


def _head_length(line: Line) -> float:
    return HEAD_LENGTH * max(1.0, line.width / 1.8)


def _head(line: Line) -> list[tuple[float, float]]:
    (x0, y0), (x1, y1) = line.points[-2], line.points[-1]
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    long, half = _head_length(line), HEAD_WIDTH * max(1.0, line.width / 1.8) / 2
    return [
        (x1, y1),
        (x1 - ux * long - uy * half, y1 - uy * long + ux * half),
        (x1 - ux * long + uy * half, y1 - uy * long - ux * half),
    ]


def _said(element: ET.Element, said: str) -> None:
    if said:
        ET.SubElement(element, "title").text = said


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
