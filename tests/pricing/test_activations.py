"""Tensor, pipeline, context and expert parallelism: calls of activations, counted by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from busbw.core.plan import Model
from busbw.errors import UsageError
from busbw.pricing.parallelisms.pp import Action, gpipe, interleaved, one_forward_one_backward

ACTIVATION = 2 * 16 * 8 * 4
"""micro-batch 2, sequence 16, hidden 8, float32."""


def count(lines: Any, phase: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for line in lines:
        if line.phase == phase:
            found[line.call.collective] += line.count
    return found


def test_tensor_parallel_reduces_twice_a_block_each_way(priced: Any, small: Model) -> None:
    lines = priced(small, "tp", 2, micro_batch=2).steady.lines
    assert count(lines, "forward") == count(lines, "backward") == {"all_reduce": 4}
    assert {line.call.size_bytes for line in lines} == {ACTIVATION}


def test_without_prepared_inputs_backward_reduces_five_times_a_block(priced: Any, small: Model) -> None:
    lines = priced(small, "tp,prepare=false", 2).steady.lines
    assert count(lines, "backward") == {"all_reduce": 10}


def test_sequence_parallel(priced: Any, small: Model) -> None:
    lines = priced(small, "tp,sp", 2, micro_batch=2).steady.lines
    # Two blocks: 4 gathers and 4 reduce-scatters; the embedding's reduce-scatter, the head's input and logits.
    assert count(lines, "forward") == {"all_gather": 6, "reduce_scatter": 5}
    assert count(lines, "backward") == {"all_gather": 5, "reduce_scatter": 5}
    assert count(lines, "optimizer") == {"all_reduce": 5}  # one for each norm
    logits = [line for line in lines if line.name == "head: logits"]
    assert [line.call.size_bytes for line in logits] == [2 * 16 * 24 * 4]


def test_loss_parallel_takes_the_logits_cut(priced: Any, small: Model) -> None:
    lines = priced(small, "tp,sp,loss_parallel", 2, micro_batch=2).steady.lines
    loss = [line for line in lines if line.phase == "other"]
    assert [line.call.size_bytes for line in loss] == [2 * 16 * 4] * 3
    assert [line.call.redop for line in loss] == ["max", "sum", "sum"]
    assert count(lines, "forward") == {"all_gather": 5, "reduce_scatter": 5}


def test_megatron_gathers_inputs_again_for_the_weights(priced: Any, small: Model) -> None:
    lines = priced(small, "tp,sp,style=megatron", 2).steady.lines
    backward = count(lines, "backward")
    # A block: 4 gathers and 2 reduce-scatters; the embedding gathers, the head gathers again and scatters.
    assert (backward["all_gather"], backward["reduce_scatter"]) == (2 * 4 + 2, 2 * 2 + 1)
    assert [line.call.size_bytes for line in lines if line.name == "gradients of the norms"] == [4 * 5 * 8]


def test_weights_are_cut_for_the_data_axis(priced: Any, small: Model) -> None:
    whole = priced(small, "ddp", 2).steps["first"].lines[0].call.size_bytes
    cut = priced(small, "ddp=2,tp=2", 4).steps["first"].lines
    gradients = next(line for line in cut if line.name == "bucket 0")
    blocks = 2 * (8 * 8 * 2 + 4 * 8 * 2 + 3 * 12 * 8)
    assert gradients.call.size_bytes == whole - 4 * blocks // 2
    assert gradients.group_ranks == (0, 2)


def test_what_tensor_parallel_cannot_cut(priced: Any, small: Model) -> None:
    with pytest.raises(UsageError, match="tp=3 does not divide them"):
        priced(small, "tp", 3)
    with pytest.raises(UsageError, match="does not divide the 15 tokens"):
        priced(small, "tp,sp", 2, sequence=15)
    with pytest.raises(UsageError, match="no repeated blocks"):
        priced(Model("m", small.tensors[:1], ("tokens.weight",)), "tp", 2)


# --- pipeline ---


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved"])
def test_a_pipeline_sends_m_activations_over_every_cut(schedule: str, priced: Any) -> None:
    p, micro, chunks = 4, 8, 2 if schedule == "interleaved" else 1
    plan = f"pp,schedule={schedule}"
    sent = Counter[str]()
    received = 0
    for rank in range(p):
        for line in priced("gpt2", plan, p, rank=rank, accumulate=micro).steady.lines:
            if line.call.collective == "send_recv_one_way":
                assert line.call.size_bytes == 1024 * 768 * 4
                if line.sent_bytes_per_rank:
                    sent[line.phase] += line.count
                else:
                    received += line.count
    assert sent == {"forward": micro * (p * chunks - 1), "backward": micro * (p * chunks - 1)}
    assert received == sum(sent.values())


def test_gpipe_runs_all_forwards_first() -> None:
    what = [(action.what, action.micro) for action in gpipe(1, 3, 2) if action.what in ("forward", "backward")]
    assert what == [("forward", 0), ("forward", 1), ("backward", 0), ("backward", 1)]


def test_1f1b_by_hand_on_the_middle_rank_of_three() -> None:
    words = [f"{action.what} {action.micro}" for action in one_forward_one_backward(1, 3, 3)]
    assert words == [
        *("receive_forward 0", "forward 0", "send_forward 0", "receive_forward 1", "forward 1", "send_forward 1"),
        *("receive_backward 0", "backward 0", "send_backward 0", "receive_forward 2", "forward 2", "send_forward 2"),
        *("receive_backward 1", "backward 1", "send_backward 1", "receive_backward 2", "backward 2", "send_backward 2"),
    ]


@pytest.mark.parametrize(("p", "chunks", "micro"), [(2, 2, 4), (4, 2, 8), (3, 3, 9), (2, 4, 6)])
def test_interleaved_does_everything_once_and_in_a_possible_order(p: int, chunks: int, micro: int) -> None:
    ranks = interleaved(p, chunks, micro)
    for rank, actions in enumerate(ranks):
        computed = [action for action in actions if action.what in ("forward", "backward")]
        wanted = {
            (what, s, m) for what in ("forward", "backward") for s in range(rank, p * chunks, p) for m in range(micro)
        }
        assert {(action.what, action.stage, action.micro) for action in computed} == wanted
        assert len(computed) == len(wanted)
        seen: set[Action] = set()
        for action in actions:
            if action.what == "backward":
                assert Action("forward", action.stage, action.micro) in seen
            seen.add(action)
    sends = Counter(a.what for actions in ranks for a in actions)
    assert sends["send_forward"] == sends["receive_forward"] == micro * (p * chunks - 1)


def test_the_first_step_tells_the_mode(priced: Any, small: Model) -> None:
    lines = priced(small, "pp", 2, accumulate=2).steps["first"].lines
    assert [(line.call.size_bytes, line.sent_bytes_per_rank) for line in lines if line.phase == "other"] == [
        (4, 4),
        (4, 0),
    ]


def test_sequence_parallel_ranks_send_their_part(priced: Any, small: Model) -> None:
    for plan, size in (("pp=2,tp=2", 2 * 16 * 8 * 4), ("pp=2,tp=2,sp", 2 * 16 * 8 * 4 // 2)):
        lines = priced(small, plan, 4, accumulate=2, micro_batch=2).steady.lines
        assert {line.call.size_bytes for line in lines if line.call.collective == "send_recv_one_way"} == {size}


def test_a_tied_embedding_is_summed_over_both_ends(priced: Any) -> None:
    lines = priced("gpt2", "pp=4,dp=2", 8, accumulate=4).steady.lines
    tied = [line for line in lines if line.name == "tied embedding"]
    assert [(line.call.size_bytes, line.group_ranks) for line in tied] == [(4 * 50257 * 768, (0, 6))]


def test_what_a_pipeline_cannot_be(priced: Any, small: Model) -> None:
    with pytest.raises(UsageError, match="2 blocks: too few for 4 stages"):
        priced(small, "pp", 4)
    assert any("cannot fill a pipeline" in note for note in priced("gpt2", "pp", 4).notes)


# --- context ---


def test_context_parallel_as_torch_does_it(priced: Any, small: Model) -> None:
    lines = priced(small, "fsdp2=1,cp=4", 4, micro_batch=2).steady.lines
    kv = 2 * 2 * (16 // 4) * 2 * 2 * 4  # keys and values: batch 2, 4 tokens, 2 kv heads of 2, float32
    gathers = [line for line in lines if "keys and values" in line.name and line.call.collective == "all_gather"]
    assert [line.call.size_bytes for line in gathers] == [4 * kv] * 4
    passes = [line for line in lines if line.call.collective == "all_to_all_v"]
    assert sum(line.count for line in passes) == 2 * 4
    assert {(line.call.size_bytes, line.sent_bytes_per_rank) for line in passes} == {(kv, kv)}


def test_ring_attention_passes_less_in_forward(priced: Any, small: Model) -> None:
    lines = priced(small, "fsdp2=1,cp=4,cp_style=ring", 4).steady.lines
    sends = [line for line in lines if line.call.collective == "send_recv_one_way" and line.sent_bytes_per_rank]
    assert sum(line.count for line in sends if line.phase == "forward") == 2 * 3
    assert sum(line.count for line in sends if line.phase == "backward") == 2 * (3 + 4)


def test_ulysses_exchanges_four_times_each_way(priced: Any, small: Model) -> None:
    lines = priced(small, "fsdp2=1,cp=2,cp_style=ulysses", 2).steady.lines
    assert count(lines, "forward")["all_to_all"] == count(lines, "backward")["all_to_all"] == 2 * 4


def test_gradients_go_over_data_and_context(priced: Any, small: Model) -> None:
    lines = priced(small, "ddp=2,cp=2", 4).steady.lines
    assert {line.group_ranks for line in lines if line.name.startswith("bucket")} == {(0, 1, 2, 3)}


# --- experts ---


def test_experts_dispatch_and_combine(priced: Any) -> None:
    bills = priced("mixtral-8x7b", "fsdp2,ep=8", 16, rank=9, sequence=1024)
    routed = [line for line in bills.steady.lines if line.group == "ep"]
    payload = 1024 * 2 * 4096 * 4
    sizes = Counter((line.call.collective, line.call.size_bytes) for line in routed for _ in range(line.count))
    assert sizes == {("all_to_all", 8 * 8): 32, ("all_to_all_v", payload): 32 * 4}
    assert {line.group_ranks for line in routed} == {tuple(range(8, 16))}
    assert {line.sent_bytes_per_rank for line in routed if line.call.collective == "all_to_all_v"} == {payload * 7 // 8}
    worst = priced("mixtral-8x7b", "fsdp2,ep=8,routing=worst", 16, sequence=1024).steady.lines
    assert {line.sent_bytes_per_rank for line in worst if line.name.endswith("combine")} == {payload}


def test_experts_are_reduced_where_they_are_the_same(priced: Any) -> None:
    lines = priced("mixtral-8x7b", "ddp,ep=8", 16, rank=9, sequence=64).steady.lines
    groups = {line.group_ranks for line in lines if line.name.startswith("bucket")}
    assert groups == {tuple(range(16)), (1, 9)}


def test_a_dense_model_has_no_experts(priced: Any) -> None:
    with pytest.raises(UsageError, match="gpt2 has no experts"):
        priced("gpt2", "ddp,ep=8", 8)
    with pytest.raises(UsageError, match="ep=16 does not divide them"):
        priced("mixtral-8x7b", "ddp,ep=16", 16)
