"""Role -> colour, in the two themes of the figures.

`rank 3` is the data of rank 3. The first eight are Okabe and Ito's, which readers with any colour-vision deficiency tell
apart (https://jfly.uni-koeln.de/color/), the next eight the same hues, lighter or darker; a letter names each as well.
"""

from __future__ import annotations

from functools import partial

from busbw.plots.palette import THEMES, mix

_RANKS = {
    "light": (
        "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#d9c800", "#6b6f76",
        "#7fb8d8", "#a87400", "#7fd0b9", "#8f3f00", "#8a3f69", "#1f6fa0", "#8f8500", "#b5b9bf",
    ),
    "dark": (
        "#3d9fe0", "#f0b429", "#20c294", "#f0793a", "#e091bd", "#8fd0f7", "#f0e442", "#a9b0ba",
        "#1f5f8f", "#a87a10", "#0f7a5c", "#a34410", "#96537a", "#4f88b0", "#a39a20", "#626a75",
    ),
}  # fmt: skip

_OTHERS = {
    "light": {
        "panel": "#f6f8fa", "host": "#fbfcfd", "edge": "#c4cbd3", "cell": "#ffffff", "cell edge": "#aeb6bf", "adds": "#b3261e",
        "copies": "#0550ae", "done": "#1b1f24", "gpu": "#e3f0e6", "gpu edge": "#3d8b56", "pcie_switch": "#f4ead6",
        "pcie_switch edge": "#a9792b", "nvswitch": "#e8e4f7", "nvswitch edge": "#6e56b8", "cpu": "#dfe9f5", "cpu edge": "#41719f",
        "memory": "#eef1f4", "memory edge": "#8c959f", "nic": "#f9e4ea", "nic edge": "#b24d6d", "network_switch": "#f3e3ef",
        "network_switch edge": "#96487f", "nvlink": "#6e56b8", "xgmi": "#6e56b8", "c2c": "#0e8a8a", "pcie": "#7d8790",
        "local": "#aeb6bf", "memory link": "#aeb6bf", "socket": "#41719f", "network": "#96487f",
    },
    "dark": {
        "panel": "#151b23", "host": "#11171f", "edge": "#3a434e", "cell": "#0d1117", "cell edge": "#56606c", "adds": "#ff7b72",
        "copies": "#79b8ff", "done": "#e6edf3", "gpu": "#15301f", "gpu edge": "#4fae70", "pcie_switch": "#332813",
        "pcie_switch edge": "#c99a4a", "nvswitch": "#251f3f", "nvswitch edge": "#9b86e0", "cpu": "#14273a", "cpu edge": "#5f97cc",
        "memory": "#1b222b", "memory edge": "#6b7682", "nic": "#3a1c27", "nic edge": "#d97797", "network_switch": "#331a2c",
        "network_switch edge": "#c46fab", "nvlink": "#9b86e0", "xgmi": "#9b86e0", "c2c": "#3fbcbc", "pcie": "#8b96a1",
        "local": "#56606c", "memory link": "#56606c", "socket": "#5f97cc", "network": "#c46fab",
    },
}  # fmt: skip

MOST_RANKS = len(_RANKS["light"])
"""Ranks whose data have colours of their own."""


def colours(theme: str) -> dict[str, str]:
    """Every role's colour in a theme of `busbw.plots.palette.THEMES`."""
    base = THEMES[theme]
    out = {
        "background": base.background, "ink": base.ink, "quiet": base.quiet_ink, "alarm": base.alarm, **_OTHERS[theme],
    }  # fmt: skip
    for rank, colour in enumerate(_RANKS[theme]):
        out[f"rank {rank}"] = colour
        out[f"on rank {rank}"] = max("#000000", "#ffffff", key=partial(contrast, colour))
        out[f"rank {rank} old"] = mix(out["cell"], colour, 0.28)
    return out


def letter(rank: int) -> str:
    """The letter that stands for a rank's data: a, b, c ..."""
    return chr(ord("a") + rank) if rank < 26 else f"r{rank} "


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, 1 to 21 (WCAG 2.2)."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
