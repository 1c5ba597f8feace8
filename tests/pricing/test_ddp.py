"""DDP's calls, by hand and against what torch 2.13 was seen to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from busbw.core.plan import Model, Tensor
from busbw.pricing.stream import tensors_by_limit


def test_resnet_18_has_the_buckets_that_torch_makes(priced: Any, calls: Any) -> None:
    bills = priced("resnet18", "ddp", 8)
    assert [call[1] for call in calls(bills) if call[0] == "all_reduce"] == [2052000, 28852224, 15853824]


def test_resnet_50_has_the_buckets_that_torch_makes(priced: Any, calls: Any) -> None:
    bills = priced("resnet50", "ddp", 4)
    elements = [call[1] // 4 for call in calls(bills) if call[0] == "all_reduce"]
    assert elements == [2049000, 7875584, 6563840, 6637568, 2431040]


def test_the_constructor_compares_shapes_and_sends_everything(priced: Any, calls: Any) -> None:
    bills = priced("gpt2", "ddp", 8)
    dims = 2 * (2 * 2 + 12 * (4 * 2 + 8 * 1) + 2)  # two embeddings, a block's 4 matrices and 8 vectors, the last norm
    # 250 MiB close a bucket: 270938112 bytes are the first whole tensors that reach it, the rest follows.
    assert calls(bills, "constructor") == [
        ("all_gather", 8 * 8, "int64", "constructor", 8),
        ("broadcast", 8 * dims, "int64", "constructor", 8),
        ("broadcast", 270938112, "float32", "constructor", 8),
        ("broadcast", 4 * 124439808 - 270938112, "float32", "constructor", 8),
    ]


def test_the_first_step_has_one_bucket_and_the_second_rebuilds(priced: Any, calls: Any) -> None:
    bills = priced("gpt2", "ddp", 8)
    assert calls(bills, "first") == [("all_reduce", 4 * 124439808, "float32", "backward", 8)]
    second = calls(bills, "second")
    assert second[:2] == [("broadcast", 4 * 149, "int32", "forward", 8), ("broadcast", 4 * 13, "int32", "forward", 8)]
    assert second[2:] == calls(bills)
    assert sum(call[1] for call in calls(bills)) == 4 * 124439808


def test_the_tied_weight_arrives_last(priced: Any, calls: Any) -> None:
    """The last bucket holds the embedding, 50257 x 768, and what came before it without filling a bucket."""
    assert calls(priced("gpt2", "ddp", 8))[-1][1] >= 4 * 50257 * 768


def test_an_explicit_limit_replaces_the_first_one_too(priced: Any, calls: Any) -> None:
    """GPT-2's head is tied, so the last norm (6 kB) comes first: 1 MiB would close at 9.4 MB, 25 MiB does not."""
    default, explicit = priced("gpt2", "ddp", 8), priced("gpt2", "ddp,bucket_cap_mb=25", 8)
    assert calls(default)[0][1] == 9446400
    assert calls(explicit)[0][1] >= 25 * 2**20


def test_find_unused_parameters_reduces_a_map_and_never_rebuilds(priced: Any, calls: Any) -> None:
    bills = priced("gpt2", "ddp,find_unused_parameters", 8)
    assert list(bills.steps) == ["constructor", "first", "second", "steady"]
    assert calls(bills, "first") == calls(bills, "second") == calls(bills)
    assert calls(bills)[-1] == ("all_reduce", 4 * 148, "int32", "backward", 8)


def test_static_graph_rebuilds_in_the_third_step(priced: Any, calls: Any) -> None:
    bills = priced("gpt2", "ddp,static_graph", 8)
    assert list(bills.steps) == ["constructor", "first", "second", "2", "steady"]
    assert calls(bills, "first")[0] == ("all_reduce", 4 * 148, "int32", "backward", 8)
    assert [call[0] for call in calls(bills, "2")][:2] == ["broadcast", "broadcast"]


def test_no_sync_sends_buffers_once_and_gradients_once(priced: Any, calls: Any) -> None:
    bills = priced("resnet18", "ddp", 8, accumulate=4)
    assert [call[0] for call in calls(bills)] == ["broadcast"] * 2 + ["all_reduce"] * 3


def test_a_hook_compresses_the_wire_alone(priced: Any, calls: Any) -> None:
    plain, compressed = priced("gpt2", "ddp", 8), priced("gpt2", "ddp,hook=bf16", 8)
    assert [2 * call[1] for call in calls(compressed)] == [call[1] for call in calls(plain)]
    assert {call[2] for call in calls(compressed)} == {"bfloat16"}


def test_without_buffers_broadcast_the_constructor_leaves_them_out(priced: Any, calls: Any) -> None:
    bills = priced("resnet18", "ddp,broadcast_buffers=false", 8)
    assert calls(bills, "constructor")[2:] == [("broadcast", 4 * 11689512, "float32", "constructor", 8)]
    assert {call[0] for call in calls(bills)} == {"all_reduce"}


def test_a_parameter_without_gradient_is_told(priced: Any, small: Model) -> None:
    idle = replace(small.tensors[1], used=False)
    model = replace(
        small,
        tensors=(small.tensors[0], idle, *small.tensors[2:]),
        arrival=tuple(name for name in small.arrival if name != idle.name),
    )
    assert any("DDP stops at the second step" in note for note in priced(model, "ddp", 2).notes)
    assert not any("DDP stops" in note for note in priced(model, "ddp,find_unused_parameters", 2).notes)


def test_frozen_parameters_are_sent_at_the_start_alone(priced: Any, calls: Any, small: Model) -> None:
    tensors = tuple(replace(t, trainable=t.name != "tokens.weight") for t in small.tensors)
    model = replace(small, tensors=tensors, arrival=tuple(n for n in small.arrival if n != "tokens.weight"))
    bills = priced(model, "ddp", 2)
    assert calls(bills, "constructor")[2][1] == 4 * small.count
    assert calls(bills)[0][1] == 4 * (small.count - 24 * 8)


@pytest.mark.parametrize(
    ("limits", "in_order", "expected"),
    [
        ([10], False, [[0, 1], [2, 3], [4]]),  # a bucket closes once it reaches the limit, and overshoots
        ([4, 100], False, [[0], [1, 2, 3, 4]]),  # the first limit, then the second
    ],
)
def test_buckets_by_hand(limits: list[int], in_order: bool, expected: list[list[int]]) -> None:
    sizes = [("float32", 6), ("float32", 6), ("float32", 8), ("float32", 4), ("float32", 2)]
    assert tensors_by_limit(sizes, limits, in_order) == expected


def test_each_dtype_has_its_own_bucket_and_the_later_one_comes_first() -> None:
    sizes = [("bfloat16", 2), ("float32", 4), ("bfloat16", 2), ("float32", 4)]
    assert tensors_by_limit(sizes, [100]) == [[0, 2], [1, 3]]
    assert tensors_by_limit(sizes, [100], in_order=True) == [[1, 3], [0, 2]]


def test_zero_redundancy_gives_the_largest_to_the_lightest(priced: Any) -> None:
    tensors = tuple(Tensor(f"t{i}", (size,)) for i, size in enumerate((5, 40, 10, 30)))
    model = Model("four", tensors, tuple(t.name for t in reversed(tensors)))
    optimizer = [
        line for line in priced(model, "zero_redundancy_optimizer", 2).steady.lines if line.phase == "optimizer"
    ]
    # 40 -> rank 0; 30 -> rank 1; 10 -> rank 1 (30 < 40); 5 -> rank 0 (40 = 40, the first).
    assert [(line.call.root, line.call.size_bytes // 4) for line in optimizer] == [(0, 40), (0, 5), (1, 30), (1, 10)]
    assert [line.sent_bytes_per_rank for line in optimizer] == [160, 20, 0, 0]
    view = priced(model, "zero_redundancy_optimizer,parameters_as_bucket_view", 2).steady.lines
    assert [line.call.size_bytes // 4 for line in view if line.phase == "optimizer"] == [45, 40]
