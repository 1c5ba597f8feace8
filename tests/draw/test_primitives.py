from __future__ import annotations

import re

import pytest

from busbw.core.collective import COLLECTIVES
from busbw.draw.formulas import formula, share_of_s
from busbw.draw.overlaps import overlaps
from busbw.draw.primitives import SHOWN, contents, draw_primitives, sent_in_words
from busbw.errors import UsageError


@pytest.mark.parametrize("world_size", [2, 4, 8])
@pytest.mark.parametrize("width", [380, 760, 1400])
def test_nothing_overlaps(world_size: int, width: int) -> None:
    assert overlaps(draw_primitives(world_size=world_size, width=width)) == []


def test_each_has_a_card_with_its_bus_factor() -> None:
    texts = [text.text for text in draw_primitives().texts]
    assert [text for text in texts if text in SHOWN] == list(SHOWN)
    assert [text for text in texts if text.startswith("bus factor")] == [
        "bus factor 1", "bus factor (N-1)/N = 0.75", "bus factor (N-1)/N = 0.75", "bus factor (N-1)/N = 0.75",
        "bus factor (N-1)/N = 0.75", "bus factor 2(N-1)/N = 1.5", "bus factor 1", "bus factor (N-1)/N = 0.75",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broadcast", "Each rank sends S, the last of the ring nothing."),
        ("scatter", "The root sends (N-1)/N S = 0.75 S, each other rank nothing."),
        ("gather", "The root sends nothing, each other rank 1/N S = 0.25 S."),
        ("all_gather", "Each rank sends (N-1)/N S = 0.75 S."),
        ("reduce_scatter", "Each rank sends (N-1)/N S = 0.75 S."),
        ("all_reduce", "Each rank sends 2(N-1)/N S = 1.5 S."),
    ],
)
def test_what_each_sends_is_the_table_of_the_post(name: str, words: str) -> None:
    assert sent_in_words(COLLECTIVES.get(name), 4) == words


def test_what_each_rank_holds_by_hand() -> None:
    before, after = contents(COLLECTIVES.get("all_to_all"), 3, 1)
    assert before == {0: ((1, 0),), 1: ((1, 1),), 2: ((1, 2),)}
    assert after == {0: ((0, 1),), 1: ((1, 1),), 2: ((2, 1),)}
    before, after = contents(COLLECTIVES.get("reduce_scatter"), 3, 2)
    assert after == {2: ((0, 2), (1, 2), (2, 2))}
    before, after = contents(COLLECTIVES.get("gather"), 3, 1)
    assert (before, after) == ({1: ((1, 1),)}, {})


def test_a_sum_has_a_stripe_for_each_rank_and_a_sign() -> None:
    scene = draw_primitives(["reduce"], 4)
    sums = [text.text for text in scene.texts if text.text.startswith("Σ")]
    assert sums == ["Σ0", "Σ1", "Σ2", "Σ3"]
    stripes = [box.fill for box in scene.boxes if re.fullmatch(r"rank \d", box.fill)]
    assert len(stripes) == 16 + 4 * 4  # a cell a rank and shard before, four stripes in each of four sums after


def test_formulas_are_found_and_not_looked_up() -> None:
    from fractions import Fraction

    assert formula(lambda n: Fraction(2 * n - 2, n)) == "2(N-1)/N"
    assert formula(lambda n: Fraction(n * n)) == ""
    assert share_of_s(lambda n: Fraction(n * n), 3) == "9 S"
    assert share_of_s(lambda n: Fraction(0), 3) == "nothing"


def test_what_has_no_shards_is_refused() -> None:
    with pytest.raises(UsageError, match="barrier has no shards to draw"):
        draw_primitives(["barrier"])
    with pytest.raises(UsageError, match="-N 9: the primitives are drawn on 2 to 8 ranks"):
        draw_primitives(world_size=9)
