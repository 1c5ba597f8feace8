"""llama: Llama, Mistral and Qwen 2, in the names of transformers' LlamaForCausalLM."""

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
    sequence = whole_number(name, config, "max_position_embeddings", default=8192)
    tied = bool(config.get("tie_word_embeddings", False))
    biased = bool(config.get("attention_bias", False))
    qkv_biased = biased or config.get("model_type") == "qwen2"
    mlp_biased = bool(config.get("mlp_bias", False))
    draft = Draft()
    draft.parameter("model.embed_tokens.weight", (vocab, hidden), 2.0 * vocab * hidden if tied else 0.0)
    blocks = tuple(f"model.layers.{i}" for i in range(layers))
    for block in blocks:
        start = draft.here  # the norms are registered last and used first
        draft.linear(f"{block}.self_attn.q_proj", heads * head_dim, hidden, qkv_biased, at=start + 0.1)
        draft.linear(f"{block}.self_attn.k_proj", kv_heads * head_dim, hidden, qkv_biased, at=start + 0.2)
        draft.linear(f"{block}.self_attn.v_proj", kv_heads * head_dim, hidden, qkv_biased, at=start + 0.3)
        draft.linear(f"{block}.self_attn.o_proj", hidden, heads * head_dim, biased, at=start + 0.4)
        draft.linear(f"{block}.mlp.gate_proj", ffn, hidden, mlp_biased, at=start + 0.6)
        draft.linear(f"{block}.mlp.up_proj", ffn, hidden, mlp_biased, at=start + 0.7)
        draft.linear(f"{block}.mlp.down_proj", hidden, ffn, mlp_biased, at=start + 0.8)
        draft.norm(f"{block}.input_layernorm", hidden, bias=False, at=start)
        draft.norm(f"{block}.post_attention_layernorm", hidden, bias=False, at=start + 0.5)
    draft.norm("model.norm", hidden, bias=False)
    if not tied:
        draft.linear("lm_head", vocab, hidden, bias=False)
    draft.buffer("model.rotary_emb.inv_freq", (head_dim // 2,))
    draft.buffer("model.rotary_emb.original_inv_freq", (head_dim // 2,))
    geometry = Geometry(
        layers, hidden, heads, kv_heads, head_dim, ffn, vocab, min(sequence, 8192), gated=True, tied=tied
    )
    return draft.model(name, blocks, geometry)


def _member(layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, vocab: int, **more: object) -> Config:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "max_position_embeddings": 8192,
        **more,
    }


FAMILY = Family(
    name="llama",
    members={
        "llama2-7b": _member(32, 4096, 32, 32, 11008, 32000, max_position_embeddings=4096),
        "llama2-13b": _member(40, 5120, 40, 40, 13824, 32000, max_position_embeddings=4096),
        "llama2-70b": _member(80, 8192, 64, 8, 28672, 32000, max_position_embeddings=4096),
        "llama3-8b": _member(32, 4096, 32, 8, 14336, 128256),
        "llama3-70b": _member(80, 8192, 64, 8, 28672, 128256),
        "llama3-405b": _member(126, 16384, 128, 8, 53248, 128256),
        "llama3.2-1b": _member(16, 2048, 32, 8, 8192, 128256, head_dim=64, tie_word_embeddings=True),
        "llama3.2-3b": _member(28, 3072, 24, 8, 8192, 128256, head_dim=128, tie_word_embeddings=True),
        "mistral-7b": _member(32, 4096, 32, 8, 14336, 32000),
        "qwen2-7b": _member(28, 3584, 28, 4, 18944, 152064, model_type="qwen2"),
    },
    build=_build,
    model_types=("llama", "mistral", "qwen2"),
    aliases={
        "llama3.1-8b": "llama3-8b",
        "llama3.1-70b": "llama3-70b",
        "llama3.1-405b": "llama3-405b",
        "llama-3-8b": "llama3-8b",
        "llama-3-70b": "llama3-70b",
        "llama-3.1-405b": "llama3-405b",
    },
)
