"""bert: BERT with the masked-language-model head tied to its embedding, in transformers' names (BertForMaskedLM)."""

from busbw.core.plan import Geometry, Model
from busbw.pricing.family import Config, Draft, Family, whole_number


def _build(name: str, config: Config) -> Model:
    layers = whole_number(name, config, "num_hidden_layers")
    hidden = whole_number(name, config, "hidden_size")
    heads = whole_number(name, config, "num_attention_heads")
    ffn = whole_number(name, config, "intermediate_size")
    vocab = whole_number(name, config, "vocab_size")
    positions = whole_number(name, config, "max_position_embeddings", default=512)
    types = whole_number(name, config, "type_vocab_size", default=2)
    draft = Draft()
    embeddings = "bert.embeddings"
    draft.parameter(f"{embeddings}.word_embeddings.weight", (vocab, hidden), 2.0 * vocab * hidden)
    draft.parameter(f"{embeddings}.position_embeddings.weight", (positions, hidden), at=1.5)
    draft.parameter(f"{embeddings}.token_type_embeddings.weight", (types, hidden), at=1.0)
    draft.norm(f"{embeddings}.LayerNorm", hidden)
    blocks = tuple(f"bert.encoder.layer.{i}" for i in range(layers))
    for block in blocks:
        for part in ("query", "key", "value"):
            draft.linear(f"{block}.attention.self.{part}", hidden, hidden)
        draft.linear(f"{block}.attention.output.dense", hidden, hidden)
        draft.norm(f"{block}.attention.output.LayerNorm", hidden)
        draft.linear(f"{block}.intermediate.dense", ffn, hidden)
        draft.linear(f"{block}.output.dense", hidden, ffn)
        draft.norm(f"{block}.output.LayerNorm", hidden)
    end = draft.here
    draft.parameter("cls.predictions.bias", (vocab,), at=end + 10)
    draft.linear("cls.predictions.transform.dense", hidden, hidden, at=end + 1)
    draft.norm("cls.predictions.transform.LayerNorm", hidden, at=end + 2)
    draft.buffer(f"{embeddings}.position_ids", (1, positions), "int64")
    draft.buffer(f"{embeddings}.token_type_ids", (1, positions), "int64")
    geometry = Geometry(layers, hidden, heads, heads, hidden // heads, ffn, vocab, positions, tied=True, rotary=False)
    return draft.model(name, blocks, geometry)


def _member(layers: int, hidden: int, heads: int) -> Config:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "vocab_size": 30522,
    }


FAMILY = Family(
    name="bert",
    members={"bert-base": _member(12, 768, 12), "bert-large": _member(24, 1024, 16)},
    build=_build,
    model_types=("bert",),
    aliases={"bert": "bert-base", "bert-base-uncased": "bert-base", "bert-large-uncased": "bert-large"},
)
