"""What every parallelism keeps, whatever it is."""

from __future__ import annotations

import json

import pytest

from busbw.core.bill import PHASES, Bills
from busbw.core.collective import COLLECTIVES
from busbw.core.plan import Model
from busbw.pricing import price
from busbw.pricing.buckets import with_option
from busbw.pricing.family import built_in
from busbw.pricing.mesh import make_mesh
from busbw.pricing.parallelism import PARALLELISMS
from busbw.pricing.step import run_steps

WORLD = 8


def plan_of(name: str) -> str:
    axis = PARALLELISMS.get(name).axis
    return name if axis == "data" else f"ddp=2,{name}=4" if axis != "ep" else f"ddp,{name}=4"


def model_of(name: str) -> Model:
    return built_in("mixtral-8x7b" if name == "ep" else "gpt2")


@pytest.fixture(params=PARALLELISMS.names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_rank_has_a_bill_that_holds_together(name: str) -> None:
    for rank in (0, 3, 7):
        bills = price(model_of(name), plan_of(name), WORLD, rank=rank, settings={"accumulate": 4, "sequence": 64})
        assert bills.steady.lines
        for bill in bills.steps.values():
            for line in bill.lines:
                kind = COLLECTIVES.get(line.call.collective)
                assert line.phase in PHASES
                assert rank in line.group_ranks
                assert line.call.size_bytes > 0
                if kind.name != "send_recv_one_way":
                    assert line.call.world_size == len(line.group_ranks)
                if kind.sharded and line.call.count is not None and kind.name != "all_to_all_v":
                    assert line.call.count % line.call.world_size == 0 or kind.name == "scatter"
                assert 0 <= line.sent_bytes_per_rank <= max(2, line.call.world_size) * line.call.size_bytes
        assert Bills.from_json(json.loads(json.dumps(bills.to_json()))) == bills


def test_its_ranks_send_to_each_other_what_they_receive(name: str) -> None:
    """Over all ranks, each message that is sent is received by its peer, in the same number."""
    sent: dict[tuple[int, int, int], int] = {}
    for rank in range(WORLD):
        for line in price(
            model_of(name), plan_of(name), WORLD, rank=rank, settings={"accumulate": 4, "sequence": 64}
        ).steady.lines:
            if line.call.collective == "send_recv_one_way":
                peer = int(line.notes["peer"])
                key = (rank, peer) if line.sent_bytes_per_rank else (peer, rank)
                step = line.count if line.sent_bytes_per_rank else -line.count
                way = (*key, line.call.size_bytes)
                sent[way] = sent.get(way, 0) + step
    assert all(balance == 0 for balance in sent.values())


def test_its_options_have_words_and_its_tries_are_options(name: str) -> None:
    parallelism = PARALLELISMS.get(name)
    names = [option.name for option in parallelism.options]
    assert parallelism.name == name
    assert len(names) == len(set(names))
    assert all(option.means for option in parallelism.options)
    mesh = make_mesh(plan_of(name), WORLD)
    for option, value, why in parallelism.tries:
        assert option in names
        assert why
        run_steps(
            model_of(name), with_option(mesh, parallelism.axis, **{option: value}), 0, {"accumulate": 4, "sequence": 64}
        )
