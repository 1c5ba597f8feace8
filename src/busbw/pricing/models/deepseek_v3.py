"""deepseek_v3: latent attention, a few dense layers, then routed and shared experts; names of transformers 5."""

from busbw.core.plan import Geometry, Model
from busbw.pricing.family import Config, Draft, Family, whole_number


def _build(name: str, config: Config) -> Model:
    def size(*keys: str, default: int | None = None) -> int:
        return whole_number(name, config, *keys, default=default)

    layers, hidden, heads = size("num_hidden_layers"), size("hidden_size"), size("num_attention_heads")
    q_rank, kv_rank = size("q_lora_rank"), size("kv_lora_rank")
    nope, rope, value = size("qk_nope_head_dim"), size("qk_rope_head_dim"), size("v_head_dim")
    ffn, expert_ffn, vocab = size("intermediate_size"), size("moe_intermediate_size"), size("vocab_size")
    experts, shared = size("n_routed_experts"), size("n_shared_experts", default=1)
    chosen, dense = size("num_experts_per_tok"), int(config.get("first_k_dense_replace", 0))
    share = chosen / experts
    draft = Draft()
    draft.parameter("model.embed_tokens.weight", (vocab, hidden))
    blocks = tuple(f"model.layers.{i}" for i in range(layers))
    routed = []
    for index, block in enumerate(blocks):
        start, attention, mlp = draft.here, f"{block}.self_attn", f"{block}.mlp"
        draft.linear(f"{attention}.q_a_proj", q_rank, hidden, False, at=start + 0.10)
        draft.norm(f"{attention}.q_a_layernorm", q_rank, bias=False, at=start + 0.11)
        draft.linear(f"{attention}.q_b_proj", heads * (nope + rope), q_rank, False, at=start + 0.12)
        draft.linear(f"{attention}.kv_a_proj_with_mqa", kv_rank + rope, hidden, False, at=start + 0.13)
        draft.norm(f"{attention}.kv_a_layernorm", kv_rank, bias=False, at=start + 0.14)
        draft.linear(f"{attention}.kv_b_proj", heads * (nope + value), kv_rank, False, at=start + 0.15)
        draft.linear(f"{attention}.o_proj", hidden, heads * value, False, at=start + 0.16)
        if index < dense:
            _gated(draft, mlp, ffn, hidden, start + 0.3)
        else:
            routed.append(f"{mlp}.gate.e_score_correction_bias")
            up, down = (experts, 2 * expert_ffn, hidden), (experts, hidden, expert_ffn)
            work = 2.0 * experts * expert_ffn * hidden * share
            draft.parameter(f"{mlp}.experts.gate_up_proj", up, 2 * work, start + 0.31)
            draft.parameter(f"{mlp}.experts.down_proj", down, work, start + 0.32)
            draft.linear(f"{mlp}.gate", experts, hidden, False, at=start + 0.3)
            _gated(draft, f"{mlp}.shared_experts", shared * expert_ffn, hidden, start + 0.4)
        draft.norm(f"{block}.input_layernorm", hidden, bias=False, at=start)
        draft.norm(f"{block}.post_attention_layernorm", hidden, bias=False, at=start + 0.2)
    draft.norm("model.norm", hidden, bias=False)
    draft.linear("lm_head", vocab, hidden, bias=False)
    for bias in routed:
        draft.buffer(bias, (experts,))
    draft.buffer("model.rotary_emb.inv_freq", (rope // 2,))
    draft.buffer("model.rotary_emb.original_inv_freq", (rope // 2,))
    geometry = Geometry(
        layers, hidden, heads, heads, nope + rope, expert_ffn, vocab, 4096, True, experts, chosen, dense
    )
    return draft.model(name, blocks, geometry)


def _gated(draft: Draft, name: str, ffn: int, hidden: int, at: float) -> None:
    draft.linear(f"{name}.gate_proj", ffn, hidden, False, at=at + 0.01)
    draft.linear(f"{name}.up_proj", ffn, hidden, False, at=at + 0.02)
    draft.linear(f"{name}.down_proj", hidden, ffn, False, at=at + 0.03)


FAMILY = Family(
    name="deepseek_v3",
    members={
        "deepseek-v3": {
            "num_hidden_layers": 61,
            "hidden_size": 7168,
            "num_attention_heads": 128,
            "q_lora_rank": 1536,
            "kv_lora_rank": 512,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "intermediate_size": 18432,
            "moe_intermediate_size": 2048,
            "vocab_size": 129280,
            "n_routed_experts": 256,
            "n_shared_experts": 1,
            "num_experts_per_tok": 8,
            "first_k_dense_replace": 3,
        },
    },
    build=_build,
    model_types=("deepseek_v3",),
)
