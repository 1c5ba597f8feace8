"""The palette keeps what it promises: contrast, difference under colour-vision deficiency, one look a collective."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from busbw.core.collective import COLLECTIVES, PRIMITIVES
from busbw.errors import UsageError
from busbw.plots.palette import PARTS, THEMES, collective_look, find_theme, looks

# Machado, Oliveira & Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009),
# severity 1.0, on linear RGB.
SIGHT = {
    "typical": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = TO_XYZ @ rgb / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(first: str, second: str) -> float:
    """WCAG 2.2's contrast ratio."""
    dark, bright = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (first, second))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("sight", SIGHT)
def test_the_primitives_differ_for_every_reader(theme: str, sight: str) -> None:
    colours = {name: linear(collective_look(name).colours[theme]) for name in PRIMITIVES}
    seen = {name: lab(np.clip(np.array(SIGHT[sight]) @ rgb, 0, 1)) for name, rgb in colours.items()}
    for first, second in combinations(PRIMITIVES, 2):
        assert np.linalg.norm(seen[first] - seen[second]) > 14, f"{first} and {second} look alike"


@pytest.mark.parametrize("theme", THEMES.values(), ids=lambda theme: theme.name)
def test_contrast_to_the_background(theme: object) -> None:
    theme = find_theme(theme.name)  # type: ignore[attr-defined]
    for text in (theme.ink, theme.quiet_ink):
        assert contrast(text, theme.background) >= 4.5
    names = [collective.name for collective in COLLECTIVES]
    drawn = [collective_look(name).colours[theme.name] for name in names] + [*theme.ramp, theme.alarm]
    for colour in drawn:
        assert contrast(colour, theme.background) >= 3, colour


def test_every_collective_has_a_look_of_its_own() -> None:
    drawn = [collective_look(c.name) for c in COLLECTIVES if c.moves_data]
    for theme in THEMES:
        assert len({look.colours[theme] for look in drawn}) == len(drawn)
    assert len({collective_look(name).shape for name in PRIMITIVES}) == len(PRIMITIVES)


def test_a_collective_looks_the_same_whatever_is_beside_it() -> None:
    alone = looks(["all_reduce"])["all_reduce"]
    assert looks(["N=2", "gather", "all_reduce"])["all_reduce"] == alone


def test_world_sizes_take_the_ramp_in_numeric_order() -> None:
    found = looks(["N=16", "N=2", "N=8"])
    light = THEMES["light"].ramp
    assert (found["N=2"].colours["light"], found["N=16"].colours["light"]) == (light[0], light[-1])
    assert [found[f"N={n}"].shape for n in (2, 8, 16)] == ["circle", "square", "triangle-up"]


def test_an_unknown_collective_gets_the_same_grey_each_time() -> None:
    assert collective_look("my_own_exchange") == collective_look("my_own_exchange")


def test_an_unknown_theme_lists_the_choices() -> None:
    with pytest.raises(UsageError, match="unknown theme 'sepia': choose from light, dark"):
        find_theme("sepia")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("sight", SIGHT)
def test_the_parts_of_a_time_differ_for_every_reader(theme: str, sight: str) -> None:
    for stack in (("bytes", "latency"), ("bytes", "reducing", "latency"), ("bytes", "reducing", "steps", "launch")):
        seen = [lab(np.clip(np.array(SIGHT[sight]) @ linear(PARTS[part].colours[theme]), 0, 1)) for part in stack]
        for i, (below, above) in enumerate(pairwise(seen)):
            assert np.linalg.norm(below - above) > 20, f"{stack[i]} and {stack[i + 1]} look alike"


@pytest.mark.parametrize("theme", THEMES)
def test_the_parts_of_a_time_stand_out_from_the_background(theme: str) -> None:
    for look in PARTS.values():
        assert contrast(look.colours[theme], THEMES[theme].background) >= 3


def test_ranks_take_a_ramp_of_their_own() -> None:
    found = looks(["rank=10", "rank=2", "N=8"])
    ramp = THEMES["dark"].ramp
    assert (found["rank=2"].colours["dark"], found["rank=10"].colours["dark"]) == (ramp[0], ramp[-1])
