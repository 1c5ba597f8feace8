"""A schedule step by step as one still picture: panels around a ring, or ranks as rows with time to the right."""

from __future__ import annotations

from fractions import Fraction
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
DENSE_CELL = (8.0, 22.0)
READING = (
    "Each rank has a tensor of its own, cut into numbered chunks. A panel shows what the ranks hold after a step; what has just arrived "
    "is framed in the colour of its arrow."
)
MOST_SLOTS = 64
MOST_STEPS = 16
MARGIN, PANEL_GAP, CAPTION_SIZE, TEXT_SIZE, TITLE_SIZE = 16.0, 12.0, 12.5, 12.0, 17.0
SIDE, CAPTION_ROOM, SIGN_ROOM = 8.0, 28.0, 27.0


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
        dense = 4 < play.slots <= 8
        places = lay_out(play, order, DENSE_CELL if dense else None, dense)
        width = max(width, places.width + 2 * (MARGIN + SIDE))
        body, height = _panels(play, places, shown, width - 2 * MARGIN)
    else:
        width = max(width, 2 * MARGIN + fits(play, 2))
        body, height = band_items(play, shown, width - 2 * MARGIN)
        signs, room = legend(play, width - 2 * MARGIN)
        body, height = [*body, *moved(signs, 0, height + 14)], height + 14 + room
    head, top = _head(play, width, shown)
    items = [*head, *moved(body, MARGIN, top)]
    return Scene(title(schedule), description(play), width, top + height + MARGIN, tuple(items))


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
        raise UsageError(
            f"{what} has {slots} slots on each rank; a picture has room for {MOST_SLOTS}: use a smaller N, or fewer chunks "
            "where the algorithm has that option, such as nvls(chunks=1)"
        )


def title(schedule: Schedule) -> str:
    """`ring all_reduce on 4 ranks`."""
    return f"{schedule.algorithm} {schedule.collective} on {schedule.world_size} ranks"


def description(play: Replay) -> str:
    """What it does, in how many steps, and what each rank sends, computed from the schedule."""
    schedule = play.schedule
    sent = schedule.sent_share()
    low, high = float(sent.min()), float(sent.max())
    if high - low > 1e-9:
        share = f"the ranks send {low:.4g} to {high:.4g} S"
    else:
        share = "each rank sends S" if abs(high - 1) < 1e-9 else f"each rank sends {high:.4g} S"
    steps, summary = _count(len(play.steps), "step"), COLLECTIVES.get(schedule.collective).summary
    if schedule.parts:
        return f"{summary} {steps} in {len(schedule.parts)} channels; {share} in all."
    return f"{summary} {steps}; S is cut into {_count(schedule.chunks, 'chunk')}, and {share} in all."


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


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
    """The start beside the signs, then each phase under its heading, one panel a step."""
    wide, high = places.width + 2 * SIDE, places.height + SIDE + CAPTION_ROOM
    columns = max(int((width + PANEL_GAP) // (wide + PANEL_GAP)), 1)
    wide = (width - (columns - 1) * PANEL_GAP) / columns
    items = _panel(play, 0, places, 0, 0, wide, high)
    if columns > 1:
        left = wide + PANEL_GAP + 10
        words = wrap(READING, width - left, TEXT_SIZE)
        said = text_lines(0, 0, words, TEXT_SIZE)
        above = len(words) * TEXT_SIZE * LEADING + 14
        signs, room = legend(play, width - left, columns=1)
        room += above
        items += moved([*said, *moved(signs, 0, above)], left, max((high - room) / 2, 0))
        y = max(high, room)
    else:
        signs, room = legend(play, width)
        items += moved(signs, 0, high + 12)
        y = high + 12 + room
    for first, last in _runs(play, shown):
        y += PANEL_GAP + 6
        heading, *more = wrap(_phase(play, first, last), width, CAPTION_SIZE)
        items += text_lines(0, y, [heading, *more], CAPTION_SIZE)
        y += (1 + len(more)) * CAPTION_SIZE * LEADING + 6
        for index, time in enumerate(range(first, last + 1)):
            row, column = divmod(index, columns)
            x, top = column * (wide + PANEL_GAP), y + row * (high + PANEL_GAP)
            items += _panel(play, time, places, x, top, wide, high)
        rows = -(-(last - first + 1) // columns)
        y += rows * (high + PANEL_GAP) - PANEL_GAP
    return items, y


def _panel(play: Replay, time: int, places: Places, x: float, y: float, wide: float, high: float) -> list[Item]:
    caption = f"step {time}" if time else "start"
    return [
        Box(x, y, wide, high, "host", "edge", 1, 6),
        Text(x + SIDE, y + 15, caption, CAPTION_SIZE, bold=True),
        *shifted(panel_items(play, time, places), x + (wide - places.width) / 2, y + CAPTION_ROOM, f" step {time}"),
    ]


def _runs(play: Replay, shown: int) -> list[tuple[int, int]]:
    """First and last step of each run of steps with one label."""
    out: list[tuple[int, int]] = []
    for time in range(1, shown + 1):
        if out and play.steps[time - 1].label == play.steps[time - 2].label:
            out[-1] = (out[-1][0], time)
        else:
            out.append((time, time))
    return out


def _phase(play: Replay, first: int, last: int) -> str:
    """What happens in the steps of one phase, in words that hold for each of them."""
    steps = play.steps[first - 1 : last]
    label = f"{steps[0].label}, " if steps[0].label else ""
    when = f"step {first}" if first == last else f"steps {first} to {last}"
    moves = [move for step in steps for move in step.moves]
    kinds = {move.reduces for move in moves}
    added = kinds == {True}
    done = "is added" if added else "is added or replaces" if True in kinds else "replaces what was there"
    receiver = "adds it to its own" if added else "takes it" if True in kinds else "keeps it in place of its own"
    lengths = {move.length for move in moves}
    everyone = all(sorted(move.source for move in step.moves) == list(range(play.world_size)) for step in steps)
    if len(lengths) == 1 and not play.schedule.parts:
        share = Fraction(lengths.pop(), play.schedule.chunks)
        if everyone:
            return f"{label}{when}: {'' if first == last else 'in each, '}every rank sends {of_s(share)} to the next one, which {receiver}"
        return f"{label}{when}: pieces of {of_s(share)} move, and what arrives {done}"
    return f"{label}{when}: what arrives {done}"


def of_s(share: Fraction) -> str:
    """A share of S as people write it: S, S/4, 3S/4."""
    top = "S" if share.numerator == 1 else f"{share.numerator}S"
    return top if share.denominator == 1 else f"{top}/{share.denominator}"


def legend(play: Replay, width: float, columns: int = 0) -> tuple[list[Item], float]:
    """The signs that this drawing uses, one below the other in so many columns (0: in rows); and their height."""
    entries = _signs(play)
    items: list[Item] = []
    if columns:
        rows = -(-len(entries) // columns)
        for index, (drawn, words) in enumerate(entries):
            column, row = divmod(index, rows)
            x, y = column * width / columns, row * SIGN_ROOM
            items += [*moved(drawn, x, y), Text(x + 28, y + 10, words, TEXT_SIZE, role="quiet")]
        return items, rows * SIGN_ROOM - 7
    x = y = 0.0
    for drawn, words in entries:
        room = 26 + text_width(words, TEXT_SIZE)
        if x and x + room > width:
            x, y = 0.0, y + SIGN_ROOM
        items += [*moved(drawn, x, y), Text(x + 26, y + 10, words, TEXT_SIZE, role="quiet")]
        x += room + 18
    return items, y + 21


def _signs(play: Replay) -> list[tuple[list[Item], str]]:
    sums = any(count > 1 for count in play.need.values())
    n = min(play.world_size, 4)
    entries: list[tuple[list[Item], str]] = []

    def sample(ranks: list[int], level: float, *, final: bool = False, is_old: bool = False) -> list[Item]:
        is_sum = len(ranks) > 1 and level == 1
        return list(slot_items(Box(0, 0, 15, 20), ranks, level, final=final, is_sum=is_sum, is_old=is_old))

    if sums:
        entries.append((sample([0], 1 / n), "a rank's own data, in its colour"))
        if n > 2:
            entries.append((sample([0, 1], 2 / n), "a partial sum: it fills up as data is added"))
        entries.append((sample(list(range(n)), 1, final=True), "the finished sum, where it has to be"))
    else:
        entries.append((sample([0], 1), "data, in its rank's colour"))
        entries.append((sample([0], 1, final=True), "where it has to be in the end"))
    if any(cell not in live for live, state in zip(play.live, play.states, strict=True) for cell in state):
        entries.append((sample([0], 1 / n if sums else 1, is_old=True), "left over: not read again"))
    if any(move.reduces for step in play.steps for move in step.moves):
        entries.append(([Line(((0, 10), (20, 10)), "adds", 2, head=True)], "+ chunk: it arrives and is added"))
    if any(not move.reduces for step in play.steps for move in step.moves):
        entries.append(([Line(((0, 10), (20, 10)), "copies", 2, head=True)], "= chunk: it arrives and replaces"))
    return entries
