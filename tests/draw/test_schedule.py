"""Nothing overlaps in any algorithm's picture, and the pictures say what the schedule does."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest

from busbw.core.schedule import ALGORITHMS, Schedule
from busbw.draw.overlaps import overlaps
from busbw.draw.render_svg import to_svg
from busbw.draw.replay import replay
from busbw.draw.ring import lay_out, panel_items, ring_order
from busbw.draw.scene import Box, Scene, Text
from busbw.draw.schedule import draw_schedule
from busbw.errors import UsageError

Build = Callable[..., Schedule]
SIZES = (2, 4, 8)


@pytest.mark.parametrize("algorithm", ALGORITHMS.names())
def test_nothing_overlaps_in_any_algorithm(algorithm: str, build: Build) -> None:
    drawn = 0
    for collective in ALGORITHMS.get(algorithm).builders:
        for world_size in SIZES:
            if ALGORITHMS.get(algorithm).why_not(collective, world_size):
                continue
            name = "nvls(chunks=2)" if (algorithm, collective) == ("nvls", "all_reduce") else algorithm
            scene = draw_schedule(build(name, collective, world_size), steps=8)
            assert overlaps(scene) == [], (collective, world_size)
            drawn += 1
    assert drawn >= 3


@pytest.mark.parametrize("layout", ["ring", "rows"])
@pytest.mark.parametrize("world_size", [2, 3, 5, 7, 16])
def test_nothing_overlaps_in_a_ring(layout: str, world_size: int, build: Build) -> None:
    scene = draw_schedule(build("ring", "all_reduce", world_size), layout, steps=4)  # type: ignore[arg-type]
    assert overlaps(scene) == []


@pytest.mark.parametrize(
    ("algorithm", "world_size"), [("ring", 16), ("recursive_doubling", 8), ("tree", 16), ("nvls(chunks=1)", 4)]
)
def test_nothing_overlaps_on_the_stage_of_the_animation(algorithm: str, world_size: int, build: Build) -> None:
    play = replay(build(algorithm, "all_reduce", world_size))
    places = lay_out(play, ring_order(play))
    for time in (0, 1, len(play.steps)):
        scene = Scene("stage", "", places.width, places.height, tuple(panel_items(play, time, places)))
        assert overlaps(scene) == []


def test_a_ring_of_four_has_a_panel_a_step_and_names_what_moves(build: Build) -> None:
    scene = draw_schedule(build("ring", "all_reduce", 4))
    texts = [text.text for text in scene.texts]
    assert [text for text in texts if text.startswith("step ")] == [f"step {i}" for i in range(1, 7)]
    assert sum(text.startswith("+ ") and text[2:].isdigit() for text in texts) == 12
    assert sum(text.startswith("= ") and text[2:].isdigit() for text in texts) == 12
    assert scene.description.endswith("6 steps; S is cut into 4 chunks, and each rank sends 1.5 S in all.")
    assert (
        "reduce-scatter, steps 1 to 3: in each, every rank sends S/4 to the next one, which adds it to its own" in texts
    )


def test_a_panel_shows_whose_data_a_slot_holds(build: Build) -> None:
    """After step 1 slot 3 of rank 1 holds a and b: two parts, together half of its height."""
    play = replay(build("ring", "all_reduce", 4))
    places = lay_out(play, ring_order(play))
    cell = places.cells[(1, 3)]
    inside = [
        item
        for item in panel_items(play, 1, places)
        if isinstance(item, Box)
        and item.x == cell.x
        and item.fill.startswith("rank")
        and cell.y <= item.y < cell.bottom
    ]
    assert [box.fill for box in inside] == ["rank 0", "rank 1"]
    assert sum(box.height for box in inside) == pytest.approx(cell.height / 2)


def test_a_long_schedule_shows_its_first_steps_and_says_so(build: Build) -> None:
    scene = draw_schedule(build("ring", "all_reduce", 16))
    words = " ".join(text.text for text in scene.texts)
    assert "The first 16 of 30 steps are shown." in words
    assert "after step 16" in words
    assert "after step 17" not in words


def test_a_picture_that_cannot_be_read_is_refused(build: Build) -> None:
    with pytest.raises(UsageError, match="ring all_reduce on 17 ranks cannot be read as a picture"):
        draw_schedule(build("ring", "all_reduce", 17))
    with pytest.raises(UsageError, match="nvls all_reduce on 16 ranks has 128 slots on each rank"):
        draw_schedule(build("nvls", "all_reduce", 16))
    with pytest.raises(UsageError, match="is no ring on 4 ranks: use rows"):
        draw_schedule(build("recursive_doubling", "all_reduce", 4), "ring")


def test_the_ring_is_drawn_in_the_order_in_which_data_goes_around(build: Build) -> None:
    assert ring_order(replay(build("ring(order=0-2-1-3)", "all_reduce", 4))) == [0, 2, 1, 3]
    assert ring_order(replay(build("recursive_doubling", "all_reduce", 4))) is None


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_svg_keeps_text_as_text_and_says_what_it_shows(theme: str, build: Build) -> None:
    svg = to_svg(draw_schedule(build("ring", "all_reduce", 2)), theme, width=380)
    root = ET.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("width") == "380"
    assert root.get("role") == "img"
    assert root.find(f"{space}title").text == "ring all_reduce on 2 ranks"  # type: ignore[union-attr]
    assert "rank 0 · a" in [text.text for text in root.iter(f"{space}text")]
    assert "rank 1, slot 0: the sum of ranks 0 and 1, 2 of 2" in [title.text for title in root.iter(f"{space}title")]


def test_names_from_files_are_escaped() -> None:
    bad = '<script>"&'
    scene = Scene(bad, bad, 100, 40, (Box(0, 0, 10, 10, "panel", said=bad), Text(50, 20, bad)))
    root = ET.fromstring(to_svg(scene))
    assert root.get("aria-label") == f"{bad}. {bad}"
    assert [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")] == [bad]
