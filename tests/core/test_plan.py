from __future__ import annotations

import json

import pytest

from busbw.core.plan import Geometry, Model, Tensor, Word, plan_words
from busbw.errors import UsageError


def model() -> Model:
    tensors = (
        Tensor("embed.weight", (10, 4)),
        Tensor("h.0.w", (4, 4), flops=32.0),
        Tensor("h.1.w", (4, 4), "bfloat16", flops=32.0),
        Tensor("norm.weight", (4,)),
        Tensor("order", (3,), "int64", buffer=True, trainable=False, used=False),
    )
    arrival = ("norm.weight", "h.1.w", "h.0.w", "embed.weight")
    return Model("m", tensors, arrival, ("h.0", "h.1"), Geometry(2, 4, 1, 1, 4, 16, 10, 8))


def test_bytes_follow_the_dtype() -> None:
    assert [tensor.size_bytes for tensor in model().tensors] == [160, 64, 32, 16, 24]
    assert model().count == 76


def test_units_follow_the_arrival() -> None:
    found = [(unit.name, unit.kind, [t.name for t in unit.tensors], unit.flops) for unit in model().units]
    assert found == [
        ("stem", "stem", ["embed.weight"], 0.0),
        ("h.0", "block", ["h.0.w"], 32.0),
        ("h.1", "block", ["h.1.w"], 32.0),
        ("head", "head", ["norm.weight"], 0.0),
    ]


def test_saved_and_read_back() -> None:
    assert Model.from_json(json.loads(json.dumps(model().to_json()))) == model()


@pytest.mark.parametrize("data", [{}, {"type": "model", "format": 2}])
def test_what_is_not_a_model(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a model of format 1"):
        Model.from_json(data)


def test_words_of_a_plan() -> None:
    assert plan_words("dp=8, TP=4,reshard-after-forward") == (
        Word("dp", "8"),
        Word("tp", "4"),
        Word("reshard_after_forward", None),
    )
    assert plan_words("dp=8 tp=4") == plan_words("dp=8,tp=4")


@pytest.mark.parametrize(
    ("text", "why"), [("", "write words"), ("ddp,,tp=2", "write words"), ("dp=2,dp=4", "dp stands twice")]
)
def test_what_is_not_a_plan(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        plan_words(text)
