"""Small models for checking bills: each function returns a module and example inputs, on whatever device is current."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

Built = tuple[nn.Module, Any]


class Block(nn.Module):
    """Attention and a feed-forward, pre-norm, as in GPT."""

    def __init__(self, hidden: int, heads: int, norm: Callable[[int], nn.Module], bias: bool = True) -> None:
        super().__init__()
        self.norm1, self.norm2, self.heads = norm(hidden), norm(hidden), heads
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=bias)
        self.out = nn.Linear(hidden, hidden, bias=bias)
        self.up = nn.Linear(hidden, 4 * hidden, bias=bias)
        self.down = nn.Linear(4 * hidden, hidden, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, h = x.shape
        q, k, v = (each.view(b, t, self.heads, -1).transpose(1, 2) for each in self.qkv(self.norm1(x)).split(h, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, h))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """A GPT; `tied` shares the head's weight with the embedding."""

    def __init__(self, vocab: int, hidden: int, layers: int, heads: int, positions: int, tied: bool) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(positions, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads, nn.LayerNorm) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocab, bias=False)
        if tied:
            self.head.weight = self.tokens.weight
        self.register_buffer("order", torch.arange(positions), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions(self.order[: ids.shape[1]])
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Attention(nn.Module):
    """Separate projections, with fewer key and value heads."""

    def __init__(self, hidden: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.size, self.groups = hidden // heads, heads // kv_heads
        self.wq = nn.Linear(hidden, hidden, bias=False)
        self.wk = nn.Linear(hidden, kv_heads * self.size, bias=False)
        self.wv = nn.Linear(hidden, kv_heads * self.size, bias=False)
        self.wo = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (w(x) for w in (self.wq, self.wk, self.wv))
        b, t, _ = q.shape
        q, k, v = (each.view(b, t, -1, self.size).transpose(1, 2) for each in (q, k, v))
        k, v = (each.repeat_interleave(self.groups, dim=1) for each in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, t, -1))


class FeedForward(nn.Module):
    """A gated feed-forward."""

    def __init__(self, hidden: int, ffn: int) -> None:
        super().__init__()
        self.w1, self.w3 = nn.Linear(hidden, ffn, bias=False), nn.Linear(hidden, ffn, bias=False)
        self.w2 = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class LlamaBlock(nn.Module):
    """Attention and feed-forward, each behind a norm."""

    def __init__(self, hidden: int, heads: int, kv_heads: int, ffn: int) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(hidden, heads, kv_heads), FeedForward(hidden, ffn)
        self.attention_norm, self.ffn_norm = nn.RMSNorm(hidden), nn.RMSNorm(hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    """A Llama without rotation, which communicates nothing; a buffer stands for its frequencies."""

    def __init__(self, vocab: int, hidden: int, layers: int, heads: int, kv_heads: int, ffn: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, hidden)
        self.layers = nn.ModuleList(LlamaBlock(hidden, heads, kv_heads, ffn) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden)
        self.output = nn.Linear(hidden, vocab, bias=False)
        self.register_buffer("frequencies", torch.ones(hidden // heads // 2), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


class Residual(nn.Module):
    """Two convolutions with batch norms, and a projection where the width changes."""

    def __init__(self, inside: int, out: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inside, out, 3, padding=1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, padding=1, bias=False), nn.BatchNorm2d(out)
        self.short = nn.Conv2d(inside, out, 1) if inside != out else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.short(x))


class Cnn(nn.Module):
    """A small residual network with buffers of two dtypes."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, padding=1)
        self.stages = nn.Sequential(*(Residual(a, b) for a, b in zip((widths[0], *widths), widths, strict=False)))
        self.fc = nn.Linear(widths[-1], 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.stages(self.stem(x)).mean((2, 3)))


class Tagger(nn.Module):
    """An embedding, a two-layer LSTM in both directions, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(61, 24)
        self.lstm = nn.LSTM(24, 20, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(40, 7)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.words(ids))[0])


class Unused(nn.Module):
    """Two of its four layers never run."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(33, 33) for _ in range(4))
        self.last = nn.Linear(33, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers[2](self.layers[0](x)))


class Shared(nn.Module):
    """One module used three times, and a transposed weight used again at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Linear(17, 48)
        self.core = nn.Linear(48, 48)
        self.alias = self.core
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inside(x)
        for module in (self.core, self.alias, self.core):
            x = torch.tanh(module(x))
        return self.scale * F.linear(x, self.inside.weight.t())


class Scrambled(nn.Module):
    """Registered in another order than it runs, in odd shapes, with one frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.third = nn.Linear(19, 3)
        self.first = nn.Linear(7, 13, bias=False)
        self.frozen = nn.Linear(13, 13)
        self.second = nn.Bilinear(13, 13, 19)
        self.offset = nn.Parameter(torch.zeros(19, 1))
        self.frozen.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return self.third(self.second(x, self.frozen(x)) + self.offset.squeeze(1))


class Mixed(nn.Module):
    """Parameters of two dtypes, in turns."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.c = nn.Linear(32, 64), nn.Linear(64, 64)
        self.b, self.d = nn.Linear(64, 64).to(torch.bfloat16), nn.Linear(64, 9).to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.b(self.a(x).bfloat16()).float()
        return self.d(self.c(x).bfloat16()).float()


class Encoder(nn.Module):
    """torch's own transformer encoder: packed projections, post-norm, dropout 0."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 11)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x))


def _ids(batch: int, length: int, vocab: int) -> torch.Tensor:
    return torch.zeros(batch, length, dtype=torch.long)


def mlp() -> Built:
    """A stack of odd widths."""
    widths = (11, 37, 101, 53, 6)
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers), torch.ones(4, 11)


def wide() -> Built:
    """43 MB of float32, so that the default limits of DDP make several buckets."""
    return nn.Sequential(*(nn.Linear(1101, 1101) for _ in range(9))), torch.ones(1, 1101)


def cnn() -> Built:
    """Convolutions and batch norms."""
    return Cnn((8, 12, 12, 20)), torch.ones(2, 3, 8, 8)


def lstm() -> Built:
    """An LSTM."""
    return Tagger(), _ids(2, 6, 61)


def unused() -> Built:
    """Parameters without a gradient."""
    return Unused(), torch.ones(2, 33)


def shared() -> Built:
    """A module under two names."""
    return Shared(), torch.ones(2, 17)


def scrambled() -> Built:
    """Registration and use in different orders."""
    return Scrambled(), torch.ones(2, 7)


def mixed() -> Built:
    """Two dtypes."""
    return Mixed(), torch.ones(2, 32)


def encoder() -> Built:
    """nn.TransformerEncoder."""
    return Encoder(), torch.ones(2, 5, 32)


def gpt_tied() -> Built:
    """A GPT whose head is tied."""
    return Gpt(97, 32, 3, 4, 16, tied=True), _ids(2, 8, 97)


def gpt() -> Built:
    """A GPT whose head is not."""
    return Gpt(97, 32, 3, 4, 16, tied=False), _ids(2, 8, 97)


def llama() -> Built:
    """A Llama, with sizes that 2 and 4 divide."""
    return Llama(96, 32, 4, 8, 4, 64), _ids(2, 8, 96)


TORCH = (mlp, wide, cnn, lstm, unused, shared, scrambled, mixed, encoder, gpt_tied, gpt, llama)
"""Models of torch alone."""

CONFIGS = {
    "hf_gpt2": ("GPT2LMHeadModel", "GPT2Config", {
        "model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 61, "n_positions": 16,
        "bos_token_id": 0, "eos_token_id": 0, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}),
    "hf_llama": ("LlamaForCausalLM", "LlamaConfig", {
        "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 48, "vocab_size": 61, "max_position_embeddings": 32}),
    "hf_mixtral": ("MixtralForCausalLM", "MixtralConfig", {
        "model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 24, "vocab_size": 61, "num_local_experts": 4,
        "num_experts_per_tok": 2, "max_position_embeddings": 32}),
    "hf_bert": ("BertForMaskedLM", "BertConfig", {
        "model_type": "bert", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4,
        "intermediate_size": 48, "vocab_size": 61, "max_position_embeddings": 32,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}),
    "hf_vit": ("ViTForImageClassification", "ViTConfig", {
        "model_type": "vit", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4,
        "intermediate_size": 48, "patch_size": 8, "image_size": 16, "num_labels": 5}),
}  # fmt: skip
"""Models of transformers, from a configuration: (class, configuration's class, its words)."""


def from_transformers(name: str) -> Built:
    """One of CONFIGS; ImportError where transformers is not installed."""
    import transformers

    model_class, config_class, words = CONFIGS[name]
    words = {key: value for key, value in words.items() if key != "model_type"}
    module = getattr(transformers, model_class)(getattr(transformers, config_class)(**words))
    if name == "hf_vit":
        return module, {"pixel_values": torch.ones(1, 3, 16, 16)}
    return module, {"input_ids": _ids(1, 8, 61)}


def build(name: str) -> Built:
    """The module and its inputs by name."""
    if name in CONFIGS:
        return from_transformers(name)
    return next(function for function in TORCH if function.__name__ == name)()


def names(with_transformers: bool) -> list[str]:
    """Every name."""
    return [function.__name__ for function in TORCH] + (list(CONFIGS) if with_transformers else [])
