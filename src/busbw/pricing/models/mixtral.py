"""mixtral: a mixture of experts in every layer, in the names of transformers 5 (experts stacked into one tensor)."""

from busbw.core.plan import Geometry, Model
from busbw.pricing.family import Config, Draft, Family, whole_number


def _build(name: str, config: Config) -> Model:
    layers = whole_number(name, config, "num_hidden_layers")
    hidden = whole_number(name, config, "hidden_size")
    heads = whole_number(name, config, "num_attention_heads")
    kv_heads = whole_number(name, config, "num_key_value_heads", default=heads)
    head_dim = whole_number(name, config, "head_dim", default=max(hidden // heads, 1))
    ffn = whole_number(name, config, "intermediate_size")
    vocab = whole_number(name, config, "vocab_size")
    experts = whole_number(name, config, "num_local_experts")
    chosen = whole_number(name, config, "num_experts_per_tok", default=2)
    sequence = whole_number(name, config, "max_position_embeddings", default=8192)
    share = chosen / experts
    draft = Draft()
    draft.parameter("model.embed_tokens.weight", (vocab, hidden))
    blocks = tuple(f"model.layers.{i}" for i in range(layers))
    for block in blocks:
        start = draft.here
        draft.linear(f"{block}.self_attn.q_proj", heads * head_dim, hidden, False, at=start + 0.1)
        draft.linear(f"{block}.self_attn.k_proj", kv_heads * head_dim, hidden, False, at=start + 0.2)
        draft.linear(f"{block}.self_attn.v_proj", kv_heads * head_dim, hidden, False, at=start + 0.3)
        draft.linear(f"{block}.self_attn.o_proj", hidden, heads * head_dim, False, at=start + 0.4)
        draft.linear(f"{block}.mlp.gate", experts, hidden, False, at=start + 0.6)
        up, down = (experts, 2 * ffn, hidden), (experts, hidden, ffn)
        draft.parameter(f"{block}.mlp.experts.gate_up_proj", up, 4.0 * experts * ffn * hidden * share, start + 0.7)
        draft.parameter(f"{block}.mlp.experts.down_proj", down, 2.0 * experts * ffn * hidden * share, start + 0.8)
        draft.norm(f"{block}.input_layernorm", hidden, bias=False, at=start)
        draft.norm(f"{block}.post_attention_layernorm", hidden, bias=False, at=start + 0.5)
    draft.norm("model.norm", hidden, bias=False)
    draft.linear("lm_head", vocab, hidden, bias=False)
    draft.buffer("model.rotary_emb.inv_freq", (head_dim // 2,))
    draft.buffer("model.rotary_emb.original_inv_freq", (head_dim // 2,))
    geometry = Geometry(
        layers, hidden, heads, kv_heads, head_dim, ffn, vocab, min(sequence, 8192), True, experts, chosen
    )
    return draft.model(name, blocks, geometry)


def _member(layers: int, hidden: int, heads: int, ffn: int, vocab: int) -> Config:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    }


FAMILY = Family(
    name="mixtral",
    members={
        "mixtral-8x7b": _member(32, 4096, 32, 14336, 32000),
        "mixtral-8x22b": _member(56, 6144, 48, 16384, 32768),
    },
    build=_build,
    model_types=("mixtral",),
)
