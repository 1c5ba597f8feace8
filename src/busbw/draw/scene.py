"""A schematic as plain data: boxes, texts and lines with places in pixels, and colours by role.

y grows downwards. A role says what a thing is (`ink`, `rank 3`, `alarm`); `colours.py` gives it a colour in each theme.
Items are drawn in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from busbw.plots.text import text_width

Anchor = Literal["start", "middle", "end"]
Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle; "" is no fill or no stroke. Lines may end at a box by its name."""

    x: float
    y: float
    width: float
    height: float
    fill: str = ""
    stroke: str = ""
    stroke_width: float = 1.0
    radius: float = 3.0
    dash: tuple[float, ...] = ()
    name: str = ""
    said: str = ""
    """What it is, for a pointer that rests on it and for readers who listen."""
    is_part: bool = False
    """Paint inside another box, such as one colour of a filled slot: it stands for nothing of its own."""

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.y + self.height

    @property
    def centre(self) -> Point:
        """Its middle."""
        return self.x + self.width / 2, self.y + self.height / 2

    def moved(self, dx: float, dy: float) -> Box:
        """The same elsewhere."""
        return replace(self, x=self.x + dx, y=self.y + dy)

    def grown(self, by: float) -> Box:
        """Larger by `by` on each side (smaller where it is negative)."""
        return replace(
            self, x=self.x - by, y=self.y - by, width=max(self.width + 2 * by, 0), height=max(self.height + 2 * by, 0)
        )


@dataclass(frozen=True, slots=True)
class Text:
    """One line of text around (x, y): y is its middle."""

    x: float
    y: float
    text: str
    size: float = 12.0
    anchor: Anchor = "start"
    role: str = "ink"
    bold: bool = False

    @property
    def box(self) -> Box:
        """The room that it takes."""
        width = text_width(self.text, self.size, self.bold)
        left = self.x - {"start": 0.0, "middle": width / 2, "end": width}[self.anchor]
        return Box(left, self.y - self.size * 0.42, width, self.size * 0.84)

    def moved(self, dx: float, dy: float) -> Text:
        """The same elsewhere."""
        return replace(self, x=self.x + dx, y=self.y + dy)


@dataclass(frozen=True, slots=True)
class Line:
    """A line through its points; with `curve`, a quadratic curve from the first to the last, bent to the middle one."""

    points: tuple[Point, ...]
    role: str = "ink"
    width: float = 1.5
    head: bool = False
    """An arrow head at its end."""
    curve: bool = False
    dash: tuple[float, ...] = ()
    ends: tuple[str, ...] = ()
    """Names of the boxes that it may touch."""
    said: str = ""

    def __post_init__(self) -> None:
        assert len(self.points) == 3 if self.curve else len(self.points) >= 2, f"line through {self.points}"

    def moved(self, dx: float, dy: float) -> Line:
        """The same elsewhere."""
        return replace(self, points=tuple((x + dx, y + dy) for x, y in self.points))

    def path(self, pieces: int = 24) -> list[Point]:
        """Points along it that straight lines join."""
        if not self.curve:
            return list(self.points)
        (x0, y0), (x1, y1), (x2, y2) = self.points
        at = [i / pieces for i in range(pieces + 1)]
        return [
            (
                (1 - t) ** 2 * x0 + 2 * t * (1 - t) * x1 + t * t * x2,
                (1 - t) ** 2 * y0 + 2 * t * (1 - t) * y1 + t * t * y2,
            )
            for t in at
        ]


Item: TypeAlias = Box | Text | Line


@dataclass(frozen=True, slots=True)
class Scene:
    """A drawing: its title and what it shows in words (both are read aloud), its size in pixels, and its items."""

    title: str
    description: str
    width: float
    height: float
    items: tuple[Item, ...] = field(default=())

    @property
    def boxes(self) -> list[Box]:
        """All boxes, in order."""
        return [item for item in self.items if isinstance(item, Box)]

    @property
    def texts(self) -> list[Text]:
        """All texts, in order."""
        return [item for item in self.items if isinstance(item, Text)]

    @property
    def lines(self) -> list[Line]:
        """All lines, in order."""
        return [item for item in self.items if isinstance(item, Line)]

    def box(self, name: str) -> Box:
        """The box of a name."""
        return next(box for box in self.boxes if box.name == name)


def moved(items: Iterable[Item], dx: float, dy: float) -> list[Item]:
    """The items elsewhere."""
    return [item.moved(dx, dy) for item in items]


def text_lines(
    x: float,
    y: float,
    lines: Sequence[str],
    size: float,
    role: str = "ink",
    bold: bool = False,
    anchor: Anchor = "start",
) -> list[Item]:
    """Lines of text one below the other; y is the top of the first."""
    step = size * LEADING
    return [Text(x, y + step * (i + 0.5), line, size, anchor, role, bold) for i, line in enumerate(lines)]


LEADING = 1.35
"""Height of a line of text, for each pixel of its size."""
