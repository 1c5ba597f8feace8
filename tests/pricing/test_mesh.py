from __future__ import annotations

import pytest

from busbw.errors import UsageError
from busbw.pricing.mesh import make_mesh


def test_neighbours_are_a_tensor_parallel_group_and_pipelines_lie_outermost() -> None:
    mesh = make_mesh("dp=2,tp=4,pp=2", 16)
    assert mesh.group(6, "tp").ranks == (4, 5, 6, 7)
    assert mesh.group(6, "data").ranks == (2, 6)
    assert mesh.group(6, "pp").ranks == (6, 14)
    assert mesh.group(6, "tp").place == 2


def test_the_data_axis_takes_context_along() -> None:
    mesh = make_mesh("fsdp2=2,cp=2,tp=2", 8)
    assert mesh.group(3, "data", "cp").ranks == (1, 3, 5, 7)
    assert mesh.group(3, "cp").ranks == (1, 3)


def test_experts_are_neighbours_on_the_data_axis() -> None:
    mesh = make_mesh("ddp,ep=2,tp=2", 8)
    assert mesh.experts(5).ranks == (5, 7)
    assert mesh.expert_replicas(5).ranks == (1, 5)


@pytest.mark.parametrize(("plan", "factors"), [("hsdp=2x4", (2, 4)), ("hsdp=8", (2, 4)), ("hsdp,replicas=4", (4, 2))])
def test_hsdp_in_three_spellings(plan: str, factors: tuple[int, int]) -> None:
    part = make_mesh(plan, 8).part("data")
    assert part is not None
    assert part.factors == factors


def test_what_is_left_is_ddp_and_told() -> None:
    mesh = make_mesh("tp=4,pp=2", 64)
    assert mesh.degree("data") == 8
    assert "ddp=8" in mesh.assumed[0]


@pytest.mark.parametrize(
    ("plan", "world", "why"),
    [
        ("tp=4,pp=2", 20, r"tp=4 x pp=2 is 8 ranks, and 20 is not divisible by it"),
        ("dp=3", 8, r"ddp=3 is 3 ranks, and 8 is not divisible"),
        ("dp=2,tp=2", 8, r"is 4 ranks, and 8 is not that many"),
        ("ddp,fsdp2", 8, "ddp and fsdp2 are both on the data axis"),
        ("ddp,tp", 8, "give a degree to all but one of ddp, tp"),
        ("fdsp2", 8, "did you mean fsdp2"),
        ("ddp,bucket_cap=5", 8, "did you mean bucket_cap_mb"),
        ("fsdp2,bucket_cap_mb=5", 8, "bucket_cap_mb is an option of ddp, muon, zero_redundancy_optimizer"),
        ("ddp,bucket_cap_mb=many", 8, "bucket_cap_mb: 'many' must be a number above 0"),
        ("ddp,static_graph=maybe", 8, "'maybe' is neither true nor false"),
        ("tp=0", 8, "tp=0 must be a number of ranks"),
        ("tp=2x2", 8, "tp=2x2 must be a number of ranks such as 8"),
        ("pp=2,schedule=1f2b", 8, "did you mean 1f1b"),
        ("ddp,ep=3", 8, "ep=3 must divide the 8 ranks of the data axis"),
        ("ddp", 0, "the number of ranks is at least 1"),
    ],
)
def test_one_clear_line(plan: str, world: int, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        make_mesh(plan, world)
    assert "\n" not in str(caught.value)
