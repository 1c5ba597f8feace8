"""Colours, markers and dashes: one fixed look per collective, in two themes.

The six primitives stay apart for readers with any of the three colour-vision deficiencies (a test simulates them),
every line colour has a contrast of at least 3 to its background (WCAG 2.2, graphical objects), and each primitive has a
marker of its own, so that a print in grey can still be read. World sizes and ranks take a ramp of colours, in order. The parts
of a time (latency, bytes, ...) have colours of their own, which differ in lightness too.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from busbw.errors import UsageError


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of everything that is not data, and which of a look's two colours to take."""

    name: str
    background: str
    ink: str
    quiet_ink: str
    grid: str
    axis: str
    alarm: str
    """Points that cannot be trusted."""
    ramp: tuple[str, ...]
    """World sizes, from the smallest to the largest."""


@dataclass(frozen=True, slots=True)
class Look:
    """How one thing is drawn: its colour in each theme, by name, and its marker (a Vega shape)."""

    colours: Mapping[str, str]
    shape: str


THEMES = {
    "light": Theme(
        "light", "#ffffff", "#1b1f24", "#57606a", "#e6e9ed", "#8c959f", "#cf222e",
        ("#440154", "#414487", "#2a788e", "#1d9a78"),
    ),
    "dark": Theme(
        "dark", "#0d1117", "#e6edf3", "#9da7b3", "#232a33", "#5b6570", "#ff5c7a",
        ("#9a6fe0", "#5d8fd6", "#35b5a5", "#8fd64f", "#fde725"),
    ),
}  # fmt: skip
"""Every theme by name."""


def find_theme(name: str) -> Theme:
    """The theme of a name; UsageError lists the choices."""
    if name not in THEMES:
        raise UsageError(f"unknown theme {name!r}: choose from {', '.join(THEMES)}")
    return THEMES[name]


def _look(light: str, dark: str, shape: str) -> Look:
    return Look({"light": light, "dark": dark}, shape)


_COLLECTIVES = {
    "broadcast": _look("#12936a", "#3fe0b0", "triangle-up"),
    "scatter": _look("#b58900", "#d9c02e", "diamond"),
    "gather": _look("#4a4a4a", "#a8adb5", "square"),
    "all_gather": _look("#0a63c9", "#58a2ff", "triangle-down"),
    "reduce_scatter": _look("#7d1a86", "#d05fd0", "cross"),
    "all_reduce": _look("#c02f00", "#ff8552", "circle"),
    "reduce": _look("#8c564b", "#c99a8b", "triangle-left"),
    "all_to_all": _look("#007f8a", "#39c5cf", "triangle-right"),
    "all_to_all_v": _look("#5b7fbf", "#9db8e8", "triangle-right"),
    "send_recv": _look("#d6589a", "#ff9ec7", "square"),
    "send_recv_one_way": _look("#7a7a00", "#b5c267", "diamond"),
}
PARTS = {
    "latency": _look("#b45309", "#f59e0b", "square"),
    "launch": _look("#7c2d12", "#b45309", "square"),
    "steps": _look("#d97706", "#fbbf24", "square"),
    "bytes": _look("#2a78d6", "#60a5fa", "square"),
    "reducing": _look("#33363b", "#dfe3e8", "square"),
}
"""What a time is made of: `latency` is launch and steps together, where they cannot be told apart."""
_SPARE = tuple(_look("#57606a", "#9da7b3", shape) for shape in ("wedge", "arrow", "stroke"))
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")

DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (4, 2, 1, 2, 1, 2), (1, 4))
"""Variants of one line, in order; the first is solid."""


def looks(keys: Iterable[str]) -> dict[str, Look]:
    """The look of each key of a chart.

    A collective or a part of a time has its own; world sizes (`N=8`) and ranks (`rank=3`) take a ramp each; keys that
    begin with `way ` (ways to do one collective) the collectives' colours by turns; all else a spare one.
    """
    ordered = list(dict.fromkeys(keys))
    found = {key: PARTS.get(key) or collective_look(key) for key in ordered}
    for prefix in ("N=", "rank="):
        ramp = sorted((key for key in ordered if key.startswith(prefix)), key=lambda key: int(key.partition("=")[2]))
        found |= {key: _ramp(index, len(ramp)) for index, key in enumerate(ramp)}
    turns = list(_COLLECTIVES.values())
    ways = [key for key in ordered if key.startswith("way ")]
    return found | {key: turns[index % len(turns)] for index, key in enumerate(ways)}


def collective_look(name: str) -> Look:
    """The look of one collective, the same in every figure; grey for one that has none of its own here."""
    return _COLLECTIVES.get(name) or _SPARE[zlib.crc32(name.encode()) % len(_SPARE)]


def _ramp(index: int, count: int) -> Look:
    colours = {}
    for name, theme in THEMES.items():
        at = 0.0 if count < 2 else index / (count - 1) * (len(theme.ramp) - 1)
        below = min(int(at), len(theme.ramp) - 2)
        colours[name] = mix(theme.ramp[below], theme.ramp[below + 1], at - below)
    return Look(colours, _SHAPES[index % len(_SHAPES)])


def mix(first: str, second: str, share: float) -> str:
    """The colour between two (as #rrggbb): `share` of the second, the rest of the first."""
    pairs = ((int(first[i : i + 2], 16), int(second[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)
