"""vit: the vision transformer with a classifier, in transformers' names (ViTForImageClassification)."""

from busbw.core.plan import Geometry, Model
from busbw.pricing.family import Config, Draft, Family, whole_number


def _build(name: str, config: Config) -> Model:
    layers = whole_number(name, config, "num_hidden_layers")
    hidden = whole_number(name, config, "hidden_size")
    heads = whole_number(name, config, "num_attention_heads")
    ffn = whole_number(name, config, "intermediate_size")
    patch = whole_number(name, config, "patch_size", default=16)
    image = whole_number(name, config, "image_size", default=224)
    channels = whole_number(name, config, "num_channels", default=3)
    labels = len(config["id2label"]) if config.get("id2label") else int(config.get("num_labels", 1000))
    patches = (image // patch) ** 2
    tokens = patches + 1
    draft = Draft()
    embeddings = "vit.embeddings"
    draft.parameter(f"{embeddings}.cls_token", (1, 1, hidden), at=1)
    draft.parameter(f"{embeddings}.position_embeddings", (1, tokens, hidden), at=2)
    draft.convolution(f"{embeddings}.patch_embeddings.projection", hidden, channels, patch, patches, True, at=0)
    blocks = tuple(f"vit.layers.{i}" for i in range(layers))
    for block in blocks:
        start = draft.here
        for index, part in enumerate(("q_proj", "k_proj", "v_proj", "o_proj")):
            draft.linear(f"{block}.attention.{part}", hidden, hidden, at=start + 0.1 * (index + 1), share=tokens)
        draft.norm(f"{block}.layernorm_before", hidden, at=start)
        draft.norm(f"{block}.layernorm_after", hidden, at=start + 0.5)
        draft.linear(f"{block}.mlp.fc1", ffn, hidden, at=start + 0.6, share=tokens)
        draft.linear(f"{block}.mlp.fc2", hidden, ffn, at=start + 0.7, share=tokens)
    draft.norm("vit.layernorm", hidden)
    draft.linear("classifier", labels, hidden)
    geometry = Geometry(layers, hidden, heads, heads, hidden // heads, ffn, labels, tokens, rotary=False)
    return draft.model(name, blocks, geometry, sample="image")


def _member(layers: int, hidden: int, heads: int, patch: int) -> Config:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "patch_size": patch,
    }


FAMILY = Family(
    name="vit",
    members={
        "vit-b": _member(12, 768, 12, 16),
        "vit-l": _member(24, 1024, 16, 16),
        "vit-h": _member(32, 1280, 16, 14),
    },
    build=_build,
    model_types=("vit",),
    aliases={"vit-base": "vit-b", "vit-large": "vit-l", "vit-b-16": "vit-b", "vit-l-16": "vit-l", "vit-huge": "vit-h"},
)
