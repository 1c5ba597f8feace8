"""A schedule step by step as one still picture: panels around a ring, or ranks as rows with time to the right."""

from __future__ import annotations

from typing import Literal, TypeAlias

from busbw.core.collective import COLLECTIVES
from busbw.core.schedule import Schedule
from busbw.draw.cells import slot_items
from busbw.draw.colours import MOST_RANKS
from busbw.draw.replay import Replay, replay
from busbw.draw.ring import Places, lay_out, panel_items, ring_order, shifted
from busbw.draw.rows import band_items, fits
from busbw.draw.scene import LEADING, Box, Item, Line, Scene, Text, moved, text_lines
from busbw.errors import UsageError
from busbw.plots.text import text_width, wrap

Layout: TypeAlias = Literal["ring", "rows"]
LAYOUTS: tuple[Layout, ...] = ("ring", "rows")

DEFAULT_WIDTH = 760.0
MOST_SLOTS = 64
MOST_STEPS = 40
MARGIN, PANEL_GAP, CAPTION_SIZE, TEXT_SIZE, TITLE_SIZE = 16.0, 14.0, 12.5, 12.0, 17.0


def draw_schedule(
    schedule: Schedule, layout: Layout | None = None, width: float = DEFAULT_WIDTH, steps: int | None = None
) -> Scene:
    """The schedule as a Scene. Only its first `steps` steps where that is given, or where they are more than can be read.

    UsageError for more ranks, or more slots of a rank, than can be read.
    """
    check_size(schedule)
    play = replay(schedule)
    order = ring_order(play)
    chosen = layout or ("ring" if order and play.world_size <= 8 else "rows")
    if chosen == "ring" and order is None:
        raise UsageError(f"{schedule.algorithm} {schedule.collective} is no ring on {play.world_size} ranks: use rows")
    shown = min(len(play.steps), steps or MOST_STEPS)
    if chosen == "ring":
        places = lay_out(play, order)
        width = max(width, places.width + 2 * (MARGIN + PANEL_GAP))
        body, height = _panels(play, places, shown, width - 2 * MARGIN)
    else:
        width = max(width, 2 * MARGIN + fits(play, 2))
        body, height = band_items(play, shown, width - 2 * MARGIN)
    head, top = _head(play, width, shown)
    foot, bottom = _legend(play, width)
    items = [*head, *moved(body, MARGIN, top), *moved(foot, MARGIN, top + height + 14)]
    return Scene(title(schedule), description(play), width, top + height + 14 + bottom + MARGIN, tuple(items))


def check_size(schedule: Schedule) -> None:
    """UsageError, with the way out, for a schedule that no picture can show."""
    what = f"{schedule.algorithm} {schedule.collective} on {schedule.world_size} ranks"
    if schedule.world_size > MOST_RANKS:
        raise UsageError(
            f"{what} cannot be read as a picture, which has room and colours for {MOST_RANKS}; the pattern is the same at a "
            "smaller N: -N 8"
        )
    slots = sum(part.slot_count for _, part in schedule.parts) if schedule.parts else schedule.slot_count
    if slots > MOST_SLOTS:
        raise UsageError(f"{what} has {slots} slots on each rank; a picture has room for {MOST_SLOTS}: use a smaller N")


def title(schedule: Schedule) -> str:
    """`ring all_reduce on 4 ranks`."""
    return f"{schedule.algorithm} {schedule.collective} on {schedule.world_size} ranks"


def description(play: Replay) -> str:
    """What it does, in how many steps, and what each rank sends, computed from the schedule."""
    kind = COLLECTIVES.get(play.schedule.collective)
    sent = play.schedule.sent_share()
    share = f"{sent.max():.4g} S" if sent.max() == sent.min() else f"{sent.min():.4g} to {sent.max():.4g} S"
    if play.schedule.parts:
        cut = f"{len(play.schedule.parts)} channels"
    else:
        cut = f"S cut into {play.schedule.chunks} chunk{'s' if play.schedule.chunks != 1 else ''}"
    steps = f"{len(play.steps)} step{'s' if len(play.steps) != 1 else ''}"
    return f"{kind.summary} {steps}, {cut}; each rank sends {share} in all."


def _head(play: Replay, width: float, shown: int) -> tuple[list[Item], float]:
    inner = width - 2 * MARGIN
    lines = wrap(title(play.schedule), inner, TITLE_SIZE, bold=True)
    items = text_lines(MARGIN, MARGIN, lines, TITLE_SIZE, bold=True)
    y = MARGIN + len(lines) * TITLE_SIZE * LEADING
    said = description(play)
    if shown < len(play.steps):
        said += f" The first {shown} of {len(play.steps)} steps are shown."
    for sentence in (said, *play.schedule.notes):
        lines = wrap(sentence, inner, TEXT_SIZE)
        items += text_lines(MARGIN, y, lines, TEXT_SIZE, "quiet")
        y += len(lines) * TEXT_SIZE * LEADING
    return items, y + 10


def _panels(play: Replay, places: Places, shown: int, width: float) -> tuple[list[Item], float]:
    wide, high = places.width + 2 * 12, places.height + 2 * 12 + 22
    columns = max(int((width + PANEL_GAP) // (wide + PANEL_GAP)), 1)
    columns = min(columns, shown + 1)
    wide = (width - (columns - 1) * PANEL_GAP) / columns
    items: list[Item] = []
    for time in range(shown + 1):
        row, column = divmod(time, columns)
        x, y = column * (wide + PANEL_GAP), row * (high + PANEL_GAP)
        items.append(Box(x, y, wide, high, "host", "edge", 1, 6))
        items += [replaced.moved(x + 12, y + 16) for replaced in _caption(play, time)]
        inside = panel_items(play, time, places)
        items += shifted(inside, x + (wide - places.width) / 2, y + 34, f" step {time}")
    rows = -(-(shown + 1) // columns)
    return items, rows * (high + PANEL_GAP) - PANEL_GAP


def _caption(play: Replay, time: int) -> list[Text]:
    if time == 0:
        return [Text(0, 0, "start", CAPTION_SIZE, bold=True)]
    step = play.steps[time - 1]
    number = f"step {time}"
    out = [Text(0, 0, number, CAPTION_SIZE, bold=True)]
    if step.label:
        out.append(Text(text_width(number, CAPTION_SIZE, True) + 8, 0, step.label, CAPTION_SIZE, role="quiet"))
    return out


def _legend(play: Replay, width: float) -> tuple[list[Item], float]:
    """The signs that this drawing uses, in as many rows as needed."""
    sums = any(count > 1 for count in play.need.values())
    n = min(play.world_size, 4)
    entries: list[tuple[list[Item], str]] = []

    def sample(ranks: list[int], level: float, *, final: bool = False, is_old: bool = False) -> list[Item]:
        is_sum = len(ranks) > 1 and level == 1
        return list(slot_items(Box(0, 0, 15, 20), ranks, level, final=final, is_sum=is_sum, is_old=is_old))

    if sums:
        entries.append((sample([0], 1 / n), "a rank's own data"))
        if n > 2:
            entries.append((sample([0, 1], 2 / n), "partial sum, filling as data is added"))
        entries.append((sample(list(range(n)), 1, final=True), "finished sum, where it has to be"))
    else:
        entries.append((sample([0], 1), "data, in its rank's colour"))
        entries.append((sample([0], 1, final=True), "where it has to be in the end"))
    times = range(len(play.steps) + 1)
    state_old = any(cell not in play.live[t] for t in times for cell in play.states[t])
    if state_old:
        entries.append((sample([0], 1 / n if sums else 1, is_old=True), "left over: not read again"))
    if any(move.reduces for step in play.steps for move in step.moves):
        entries.append(([Line(((0, 10), (20, 10)), "adds", 2, head=True)], "+ slot: arrives and is added"))
    if any(not move.reduces for step in play.steps for move in step.moves):
        entries.append(([Line(((0, 10), (20, 10)), "copies", 2, head=True)], "= slot: arrives and replaces"))
    items: list[Item] = []
    x = y = 0.0
    for drawn, words in entries:
        room = 26 + text_width(words, TEXT_SIZE) + 18
        if x and x + room - 18 > width - 2 * MARGIN:
            x, y = 0.0, y + 27
        items += moved(drawn, x, y)
        items.append(Text(x + 26, y + 10, words, TEXT_SIZE, role="quiet"))
        x += room
    return items, y + 21
