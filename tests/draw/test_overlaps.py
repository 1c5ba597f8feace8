"""The judge of all drawings is judged first: each rule finds its breach, and lets pass what is allowed."""

from __future__ import annotations

import pytest

from busbw.draw.overlaps import overlaps
from busbw.draw.scene import Box, Item, Line, Scene, Text

A = Box(10, 10, 40, 20, "panel", name="a")
B = Box(80, 10, 40, 20, "panel", name="b")


def found(*items: Item) -> list[str]:
    return overlaps(Scene("title", "words", 200, 100, items))


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ((A, Box(40, 20, 40, 20, "panel", name="c")), "box a and box c cross"),
        ((Box(180, 10, 40, 20, "panel", name="c"),), "box c at 180,10 leaves the canvas"),
        ((Text(10, 50, "one"), Text(20, 52, "two")), "the texts 'one' and 'two' overlap"),
        ((A, Text(40, 20, "a long text", 12)), "the text 'a long text' crosses the edge of box a"),
        ((Text(190, 50, "long"),), "the text 'long' leaves the canvas"),
        ((A, Line(((0, 20), (70, 20)))), "crosses box a"),
        ((Text(20, 50, "word"), Line(((0, 50), (90, 50)))), "crosses the text 'word'"),
        ((Text(20, 50, "word"), Line(((0, 60), (90, 60)), width=16)), "crosses the text 'word'"),
        ((A, Line(((5, 5), (30, 60), (60, 5)), curve=True), Line(((0, 0), (300, 0)))), "leaves the canvas"),
        ((B, Line(((60, 0), (100, 45), (150, 0)), curve=True)), "crosses box b"),
    ],
)
def test_each_breach_is_found(items: tuple[Item, ...], words: str) -> None:
    (sentence,) = [sentence for sentence in found(*items) if words in sentence]
    assert sentence


@pytest.mark.parametrize(
    "items",
    [
        (A, B, Line(((50, 20), (80, 20)), ends=("a", "b"))),
        (A, Line(((30, 20), (100, 20)), ends=("a", "b")), B),
        (A, Box(15, 12, 10, 10, "cell", name="inside")),
        (A, Text(30, 20, "in", 10, "middle")),
        (Box(0, 0, 10, 10, "cell"), Box(10, 0, 10, 10, "cell")),
        (A, Box(40, 20, 40, 20, "panel", is_part=True)),
        (A, Line(((12, 12), (45, 28)))),
        (B, Line(((60, 0), (100, 6), (150, 0)), curve=True)),
    ],
)
def test_what_is_allowed_passes(items: tuple[Item, ...]) -> None:
    assert found(*items) == []


def test_a_curve_is_followed_and_not_its_control_point() -> None:
    line = Line(((0, 0), (50, 100), (100, 0)), curve=True)
    assert line.path(2)[1] == (50.0, 50.0)
    assert found(Box(40, 60, 20, 20, "panel", name="below"), line) == []
    assert found(Box(40, 45, 20, 20, "panel", name="on"), line) != []
