"""FSDP's calls, by hand: their number for L blocks, their order, their padding."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from busbw.core.plan import Model, Tensor
from busbw.errors import UsageError

BLOCK = 8 * 8 * 2 + 4 * 8 * 2 + 3 * 12 * 8 + 16
"""Elements of a block of `small`."""
ROOT = 2 * 24 * 8 + 8


def kinds(listed: list[tuple[Any, ...]]) -> Counter[str]:
    return Counter(call[0] for call in listed)


@pytest.mark.parametrize(
    ("plan", "gathers"),
    [("fsdp2", 2 * 2 + 1), ("fsdp2,reshard_after_forward=true", 2 * 2 + 2), ("fsdp2,reshard_after_forward=false", 3)],
)
def test_the_number_of_gathers_of_two_blocks(plan: str, gathers: int, priced: Any, calls: Any, small: Model) -> None:
    assert kinds(calls(priced(small, plan, 4))) == {"all_gather": gathers, "reduce_scatter": 3}


def test_order_and_bytes(priced: Any, calls: Any, small: Model) -> None:
    listed = calls(priced(small, "fsdp2", 4))
    root, block = 4 * ROOT, 4 * BLOCK
    assert [(call[0], call[1], call[3]) for call in listed] == [
        ("all_gather", root, "forward"),
        ("all_gather", block, "forward"),
        ("all_gather", block, "forward"),
        ("all_gather", block, "backward"),
        ("all_gather", block, "backward"),  # the next one is fetched before the current gradients leave
        ("reduce_scatter", block, "backward"),
        ("reduce_scatter", block, "backward"),
        ("reduce_scatter", root, "backward"),
    ]


def test_padding_along_the_first_dimension(priced: Any, calls: Any) -> None:
    tensors = (Tensor("a", (3, 250)), Tensor("b", (1,)))
    model = Model("odd", tensors, ("b", "a"))
    # 3 rows become 8 of 250; one element becomes 8.
    assert calls(priced(model, "fsdp2", 8))[0][1] == 4 * (2000 + 8)


def test_a_scalar_parameter_is_refused(priced: Any) -> None:
    with pytest.raises(UsageError, match="s is a scalar"):
        priced(Model("s", (Tensor("s", ()),), ("s",)), "fsdp2", 2)


def test_mixed_precision_gathers_and_reduces_in_its_own_dtypes(priced: Any, calls: Any, small: Model) -> None:
    listed = calls(priced(small, "fsdp2,param_dtype=bf16,reduce_dtype=fp32", 4))
    assert {(call[0], call[2]) for call in listed} == {("all_gather", "bfloat16"), ("reduce_scatter", "float32")}
    listed = calls(priced(small, "fsdp2,param_dtype=bf16", 4))
    assert {call[2] for call in listed} == {"bfloat16"}


def test_mixed_dtypes_travel_as_bytes(priced: Any, calls: Any) -> None:
    tensors = (Tensor("a", (4, 2)), Tensor("b", (4, 2), "bfloat16", trainable=False))
    assert calls(priced(Model("two", tensors, ("a",)), "fsdp2", 2))[0][1:3] == (4 * 8 + 2 * 8, "uint8")


def test_accumulation_keeps_the_gathers_and_reduces_once(priced: Any, calls: Any, small: Model) -> None:
    assert kinds(calls(priced(small, "fsdp2", 4, accumulate=3))) == {"all_gather": 15, "reduce_scatter": 3}


def test_a_number_reshards_over_so_many_ranks(priced: Any, small: Model) -> None:
    lines = priced(small, "fsdp2,reshard_after_forward=2", 8, rank=5).steady.lines
    backward = [line for line in lines if line.phase == "backward" and line.call.collective == "all_gather"]
    assert {line.group_ranks for line in backward} == {(4, 5)}
    with pytest.raises(UsageError, match="reshard_after_forward=3 must divide the 8 ranks"):
        priced(small, "fsdp2,reshard_after_forward=3", 8)


def test_hsdp_reduces_an_nth_across_replicas(priced: Any, small: Model) -> None:
    lines = priced(small, "hsdp=2x4", 8, rank=5).steady.lines
    across = [line for line in lines if line.call.collective == "all_reduce"]
    assert [line.call.size_bytes for line in across] == [4 * BLOCK // 4, 4 * BLOCK // 4, 4 * ROOT // 4]
    assert {line.group_ranks for line in across} == {(1, 5)}
    assert {line.group_ranks for line in lines if line.call.collective == "all_gather"} == {(4, 5, 6, 7)}


def test_the_first_block_leaves_last_where_nothing_before_it_is_trained(priced: Any, small: Model) -> None:
    tensors = tuple(t for t in small.tensors if t.name != "tokens.weight")
    model = replace(small, tensors=tensors, arrival=tuple(n for n in small.arrival if n != "tokens.weight"))
    names = [line.name for line in priced(model, "fsdp2", 4).steady.lines if line.call.collective == "reduce_scatter"]
    assert names == ["layers.1", "root", "layers.0"]


def test_clipping_reduces_one_norm_a_parameter(priced: Any, calls: Any, small: Model) -> None:
    assert calls(priced(small, "fsdp2", 4, clip=True))[-1] == ("all_reduce", 4 * 21, "float32", "other", 4)


def test_one_rank_gathers_nothing(priced: Any, small: Model) -> None:
    assert priced(small, "fsdp2", 1).steady.lines == ()


# --- fsdp1 ---


def test_a_flat_parameter_is_padded_to_the_ranks(priced: Any, calls: Any) -> None:
    model = Model("odd", (Tensor("a", (3, 5)), Tensor("b", (2,))), ("b", "a"))
    assert calls(priced(model, "fsdp1", 4))[0][1] == 4 * 20  # 17 -> 20
    # Each starts at a multiple of 16 bytes: a at 0, b at 16; 18 -> 20. In bfloat16 16 bytes are 8 elements.
    assert calls(priced(model, "fsdp1,use_orig_params", 4))[0][1] == 4 * 20
    wide = Model("odd", (Tensor("a", (3, 3)), Tensor("b", (2,))), ("b", "a"))
    assert calls(priced(wide, "fsdp1,use_orig_params", 4))[0][1] == 4 * 16  # 9 -> 12, + 2 -> 14 -> 16
    assert calls(priced(wide, "fsdp1,use_orig_params,param_dtype=bf16", 4))[0][1] == 2 * 20  # 9 -> 16, + 2 -> 18 -> 20


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("full_shard", {"all_gather": 5, "reduce_scatter": 3}),
        ("shard_grad_op", {"all_gather": 3, "reduce_scatter": 3}),
        ("no_shard", {"all_reduce": 3}),
    ],
)
def test_strategies(strategy: str, expected: dict[str, int], priced: Any, calls: Any, small: Model) -> None:
    assert kinds(calls(priced(small, f"fsdp1,strategy={strategy}", 4))) == expected


def test_fsdp1_takes_one_dtype_a_unit(priced: Any) -> None:
    model = Model("two", (Tensor("a", (4,)), Tensor("b", (4,), "bfloat16")), ("b", "a"))
    with pytest.raises(UsageError, match="root has parameters of bfloat16, float32"):
        priced(model, "fsdp1", 2)
