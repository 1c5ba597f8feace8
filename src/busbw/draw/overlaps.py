"""What in a Scene lies on what it should not, in words; an empty list is a clean drawing.

The rules: all is inside the canvas; boxes are disjoint or one holds the other; a text touches no other text and no edge
of a box; a line (as wide as it is) touches no text, and no box but those at its ends and those that hold it whole.
"""

from __future__ import annotations

from itertools import pairwise

from busbw.draw.scene import Box, Line, Point, Scene

SLACK = 0.3
"""Pixels by which edges may meet: stacked parts share an edge."""


def overlaps(scene: Scene) -> list[str]:
    """Every breach of the rules, one sentence each."""
    canvas = Box(0, 0, scene.width, scene.height)
    found: list[str] = []
    boxes = [box for box in scene.boxes if not box.is_part]
    texts = [(text, text.box) for text in scene.texts]
    lines = [(line, line.path()) for line in scene.lines]
    found += [f"{_name(box)} at {box.x:.0f},{box.y:.0f} leaves the canvas" for box in boxes if not _holds(canvas, box)]
    found += [f"the text {text.text!r} leaves the canvas" for text, room in texts if not _holds(canvas, room)]
    found += [
        f"{_called(line)} leaves the canvas"
        for line, path in lines
        if not all(_contains(canvas, point) for point in path)
    ]
    box_grid, text_grid = _Grid(boxes), _Grid([room for _, room in texts])
    for i, one in enumerate(boxes):
        for j in box_grid.near(one):
            other = boxes[j]
            if j > i and meet(one, other) and not _holds(one, other) and not _holds(other, one):
                found.append(f"{_name(one)} and {_name(other)} cross at {one.x:.0f},{one.y:.0f}")
    for i, (text, room) in enumerate(texts):
        for j in text_grid.near(room):
            if j > i and meet(room, texts[j][1]):
                found.append(f"the texts {text.text!r} and {texts[j][0].text!r} overlap at {room.x:.0f},{room.y:.0f}")
        for j in box_grid.near(room):
            if meet(room, boxes[j]) and not _holds(boxes[j], room):
                where = f"{_name(boxes[j])} at {room.x:.0f},{room.y:.0f}"
                found.append(f"the text {text.text!r} crosses the edge of {where}")
    for line, path in lines:
        reach = _reach(path).grown(line.width / 2)
        for j in text_grid.near(reach):
            if crosses(path, texts[j][1].grown(line.width / 2 - SLACK)):
                found.append(f"{_called(line)} crosses the text {texts[j][0].text!r}")
        for j in box_grid.near(reach):
            box = boxes[j]
            inside = all(_contains(box, point) for point in path)
            if not (inside or (box.name and box.name in line.ends)) and crosses(path, box.grown(-SLACK)):
                found.append(f"{_called(line)} crosses {_name(box)}")
    return found


class _Grid:
    """Which boxes lie near another one: those that share a square of the sheet with it."""

    SIDE = 48.0

    def __init__(self, boxes: list[Box]) -> None:
        self.squares: dict[tuple[int, int], list[int]] = {}
        for index, box in enumerate(boxes):
            for square in self._squares(box):
                self.squares.setdefault(square, []).append(index)

    def near(self, box: Box) -> list[int]:
        """Indices of the boxes that may touch it, in order."""
        return sorted({index for square in self._squares(box) for index in self.squares.get(square, ())})

    def _squares(self, box: Box) -> list[tuple[int, int]]:
        side = self.SIDE
        across = range(int(box.x // side), int(box.right // side) + 1)
        down = range(int(box.y // side), int(box.bottom // side) + 1)
        return [(i, j) for i in across for j in down]


def _reach(path: list[Point]) -> Box:
    xs, ys = [x for x, _ in path], [y for _, y in path]
    return Box(min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys))


def _name(box: Box) -> str:
    return f"box {box.name or box.said or box.fill or box.stroke}"


def _called(line: Line) -> str:
    return f"the line {line.said or line.ends or line.points}"


def meet(one: Box, other: Box) -> bool:
    """Whether two boxes have more than an edge in common."""
    return (
        one.x < other.right - SLACK
        and other.x < one.right - SLACK
        and one.y < other.bottom - SLACK
        and other.y < one.bottom - SLACK
    )


def _holds(outer: Box, inner: Box) -> bool:
    return (
        outer.x <= inner.x + SLACK
        and outer.y <= inner.y + SLACK
        and inner.right <= outer.right + SLACK
        and inner.bottom <= outer.bottom + SLACK
    )


def _contains(box: Box, point: Point) -> bool:
    return box.x - SLACK <= point[0] <= box.right + SLACK and box.y - SLACK <= point[1] <= box.bottom + SLACK


def crosses(path: list[Point], box: Box) -> bool:
    """Whether the straight lines through the points meet the inside of a box."""
    return any(_segment_meets(one, other, box) for one, other in pairwise(path))


def _segment_meets(one: Point, other: Point, box: Box) -> bool:
    """Whether a straight piece has a point in the box (Liang and Barsky's clipping)."""
    if box.width <= 0 or box.height <= 0:
        return False
    start, stop = 0.0, 1.0
    for at, step, low, high in (
        (one[0], other[0] - one[0], box.x, box.right),
        (one[1], other[1] - one[1], box.y, box.bottom),
    ):
        if step == 0:
            if not low < at < high:
                return False
            continue
        first, last = sorted(((low - at) / step, (high - at) / step))
        start, stop = max(start, first), min(stop, last)
    return start < stop
