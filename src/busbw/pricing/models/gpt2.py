"""gpt2: GPT-2 with its head tied to the embedding, in the names of transformers' GPT2LMHeadModel."""

from busbw.core.plan import Geometry, Model
from busbw.pricing.family import Config, Draft, Family, whole_number


def _build(name: str, config: Config) -> Model:
    layers = whole_number(name, config, "n_layer")
    hidden = whole_number(name, config, "n_embd")
    heads = whole_number(name, config, "n_head")
    vocab = whole_number(name, config, "vocab_size")
    positions = whole_number(name, config, "n_positions", "n_ctx", default=1024)
    inner = whole_number(name, config, "n_inner", default=4 * hidden)
    tied = bool(config.get("tie_word_embeddings", True))
    draft = Draft()
    # The tied weight is also the head: its work is counted there.
    draft.parameter("transformer.wte.weight", (vocab, hidden), 2.0 * vocab * hidden if tied else 0.0)
    draft.parameter("transformer.wpe.weight", (positions, hidden))
    blocks = tuple(f"transformer.h.{i}" for i in range(layers))
    for block in blocks:
        draft.norm(f"{block}.ln_1", hidden)
        draft.linear(f"{block}.attn.c_attn", 3 * hidden, hidden, transposed=True)
        draft.linear(f"{block}.attn.c_proj", hidden, hidden, transposed=True)
        draft.norm(f"{block}.ln_2", hidden)
        draft.linear(f"{block}.mlp.c_fc", inner, hidden, transposed=True)
        draft.linear(f"{block}.mlp.c_proj", hidden, inner, transposed=True)
    draft.norm("transformer.ln_f", hidden)
    if not tied:
        draft.linear("lm_head", vocab, hidden, bias=False)
    geometry = Geometry(layers, hidden, heads, heads, hidden // heads, inner, vocab, positions, tied=tied, rotary=False)
    return draft.model(name, blocks, geometry)


def _member(layers: int, hidden: int, heads: int) -> Config:
    return {"n_layer": layers, "n_embd": hidden, "n_head": heads, "vocab_size": 50257, "n_positions": 1024}


FAMILY = Family(
    name="gpt2",
    members={
        "gpt2": _member(12, 768, 12),
        "gpt2-medium": _member(24, 1024, 16),
        "gpt2-large": _member(36, 1280, 20),
        "gpt2-xl": _member(48, 1600, 25),
    },
    build=_build,
    model_types=("gpt2",),
    aliases={"gpt2-small": "gpt2", "gpt2-124m": "gpt2", "gpt-2": "gpt2"},
)
