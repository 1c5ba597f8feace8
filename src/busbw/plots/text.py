"""How wide a text is, without a font library: Helvetica's widths, which Arial and Liberation Sans share."""

from __future__ import annotations

import re

FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"

# Adobe's font metrics of Helvetica, in thousandths of the font size, for the characters from space to tilde.
_WIDTHS = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778,
    722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278,
    278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
)  # fmt: skip
_BOLD = 1.08
_HARD_SPACE = "\N{NO-BREAK SPACE}"


def text_width(text: str, font_size: float, bold: bool = False) -> float:
    """Pixels that a text takes; characters outside ASCII count as an average letter."""
    plain = text.replace(_HARD_SPACE, " ")
    units = sum(_WIDTHS[ord(char) - 32] if " " <= char <= "~" else 600 for char in plain)
    return units * font_size / 1000 * (_BOLD if bold else 1.0)


def wrap(text: str, width: float, font_size: float, bold: bool = False) -> list[str]:
    """The text in lines no wider than `width` pixels, broken at spaces; a longer word stands alone.

    A number stays with what follows it (`5 %`), and `N = 8` in one piece.
    """
    lines: list[str] = []
    for word in _unbroken(text).split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, font_size, bold) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return [line.replace(_HARD_SPACE, " ") for line in lines]


def _unbroken(text: str) -> str:
    return re.sub(r"(?<=\d) (?=(?:%|[KMGT]iB|[mun]?s|GB/s)(?:\W|$))|(?<=N) (?==)|(?<==) (?=\d)", _HARD_SPACE, text)
