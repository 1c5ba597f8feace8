"""The animation, as text and in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from busbw.core.schedule import Schedule
from busbw.draw.animation import schedule_fragment, schedule_page
from busbw.draw.replay import replay
from busbw.errors import UsageError

Build = Callable[..., Schedule]


def data_of(fragment: str) -> dict[str, Any]:
    found = re.search(r'class="bwa-data">(.*?)</script>', fragment)
    assert found is not None
    return dict(json.loads(found[1]))


def test_the_data_is_the_replay(build: Build) -> None:
    data = data_of(schedule_fragment(build("ring", "all_reduce", 4)))
    assert len(data["steps"]) == 6
    assert len(data["cells"]) == 16
    # Step 1: rank 0's slot 3 flies to rank 1's slot 3 (cells 3 and 7), which then holds a and b, half of the sum.
    first = data["steps"][0]
    assert [3, 7] in first["fly"]
    assert [7, [[0, 1], 0.5, 0, 0]] in first["set"]
    assert first["say"].startswith("step 1 of 6, reduce-scatter: rank 0 → rank 1: slot 3 is added")
    # After step 3 rank 3 has the sum of chunk 3, which is what it has to end with.
    assert [15, [[0, 1, 2, 3], 1, 1, 1]] in data["steps"][2]["set"]


def test_each_step_is_said_in_words(build: Build) -> None:
    data = data_of(schedule_fragment(build("nvls(chunks=1,shots=1)", "all_reduce", 2)))
    assert data["steps"][0]["say"].endswith(
        ": rank 0 → the switch: slot 0 is added; rank 1 → the switch: slot 0 is added"
    )
    data = data_of(schedule_fragment(build("recursive_halving_doubling", "all_reduce", 8)))
    assert "rank 0 → rank 4: slots 4–7 are added" in data["steps"][0]["say"]
    assert data["steps"][0]["say"].endswith("; and 4 more")


def test_a_fragment_is_self_contained_and_its_names_are_its_own(build: Build) -> None:
    one, other = (schedule_fragment(build("ring", "all_reduce", n)) for n in (2, 4))
    names = [re.search(r'<section class="bwa" id="([^"]+)"', fragment)[1] for fragment in (one, other)]  # type: ignore[index]
    assert len(set(names)) == 2
    for fragment, name in ((one, names[0]), (other, names[1])):
        assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org/2000/svg)|@import|url\(", fragment)
        assert re.findall(r' id="([^"]+)"', fragment) == [name]
        assert "prefers-reduced-motion" in fragment
        assert len(fragment) < 40_000
    assert 'id="mine"' in schedule_fragment(build("ring", "all_reduce", 2), uid="mine")


def test_what_cannot_be_read_is_refused(build: Build) -> None:
    with pytest.raises(UsageError, match="ring all_reduce on 32 ranks cannot be read"):
        schedule_fragment(build("ring", "all_reduce", 32))
    with pytest.raises(UsageError, match="unknown theme 'pink': choose from auto, light, dark"):
        schedule_fragment(build("ring", "all_reduce", 2), theme="pink")


@pytest.fixture
def page(browser: Any, tmp_path: Path, build: Build) -> Iterator[Any]:
    """Ring all-reduce on 4 ranks, opened from disk; requests to anywhere else and messages on the console are kept."""
    path = tmp_path / "ring.html"
    path.write_text(schedule_page(build("ring", "all_reduce", 4)), encoding="utf-8")
    opened = browser.new_page(viewport={"width": 390, "height": 800})
    opened.heard = []
    opened.on("console", lambda message: opened.heard.append(message.text))
    opened.on("pageerror", lambda error: opened.heard.append(str(error)))
    opened.on("request", lambda request: opened.heard.append(request.url) if request.url != path.as_uri() else None)
    opened.goto(path.as_uri())
    yield opened
    opened.close()


def step_of(page: Any) -> int:
    return int(page.locator("section").get_attribute("data-step"))


def fills_of(page: Any, cell: int) -> list[str]:
    """The roles of the parts that fill a slot on the page, from below."""
    script = """(cell) => {
        const [x, y, w, h] = data(cell);
        return [...document.querySelectorAll('.bwa-slots rect')]
            .filter((r) => Math.abs(+r.getAttribute('x') - x) < .1 && +r.getAttribute('y') >= y - .1
                && +r.getAttribute('y') < y + h && r.style.fill.includes('rank-'))
            .map((r) => r.style.fill);
        function data(i) { return JSON.parse(document.querySelector('.bwa-data').textContent).cells[i]; }
    }"""
    return [str(re.search(r"rank-\d+", fill)[0]) for fill in page.evaluate(script, cell)]  # type: ignore[index]


def test_keys_step_play_and_jump(page: Any) -> None:
    assert step_of(page) == 0
    page.focus("section")
    page.keyboard.press("End")
    assert step_of(page) == 6
    assert page.locator(".bwa-count").inner_text() == "6 / 6"
    page.keyboard.press("ArrowLeft")
    assert step_of(page) == 5
    page.keyboard.press("Home")
    assert step_of(page) == 0
    page.select_option("select", "4")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector('section[data-step="1"]')
    assert fills_of(page, 7) == ["rank-0", "rank-1"]
    page.keyboard.press("Space")
    assert page.locator(".bwa-play").get_attribute("aria-label") == "pause"
    page.wait_for_selector('section[data-step="6"]', timeout=15_000)
    page.wait_for_function("document.querySelector('.bwa-play').getAttribute('aria-label') === 'play'")
    assert fills_of(page, 0) == ["rank-0", "rank-1", "rank-2", "rank-3"]
    assert page.heard == []


def test_the_states_on_the_page_are_those_of_the_replay(page: Any, build: Build) -> None:
    play = replay(build("ring", "all_reduce", 4))
    for time in range(7):
        page.locator("input").fill(str(time))
        assert step_of(page) == time
        for rank, slot in ((0, 0), (1, 3), (3, 2)):
            ranks = sorted({source for source, _ in play.states[time][(rank, slot)]})
            assert fills_of(page, 4 * rank + slot) == [f"rank-{source}" for source in ranks], (time, rank, slot)


def test_reduced_motion_does_not_fly(page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.click("button[data-do=next]")
    assert step_of(page) == 1  # at once
    assert page.locator(".bwa-flyers *").count() == 0


def test_it_fits_a_phone_follows_the_dark_and_has_no_serious_fault(page: Any) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    light = page.evaluate("getComputedStyle(document.querySelector('section')).backgroundColor")
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate("getComputedStyle(document.querySelector('section')).backgroundColor")
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(13, 17, 23)")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for _ in ("dark", "light"):
        faults = [
            violation["id"] for violation in axe.run(page).response["violations"]
            if violation["impact"] in ("serious", "critical")
        ]  # fmt: skip
        assert faults == []
        page.emulate_media(color_scheme="light")
