"""What activations follow: a model's hidden size, its heads, and which of a block's matrices are cut how."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from busbw.core.plan import Model, Tensor, Unit
from busbw.errors import UsageError

_ROW = re.compile(
    r"(^|\.)(wo|o_proj|out_proj|c_proj|w2|down_proj|fc2|linear2|down|out|dense_4h_to_h|output\.dense)(\.weight|\.bias)?$"
)
"""Matrices whose input is cut (row-parallel): they end attention and feed-forward."""
_ATTENTION = re.compile(r"attn|attention|\.wq|\.wk|\.wv|\.wo|qkv|q_proj|k_proj|v_proj|o_proj|(^|\.)out\.")
_NORM = re.compile(r"norm|(^|\.)ln_?\w*\.|LayerNorm|(^|\.)bn\d*\.")
_TRANSPOSED = re.compile(r"\.(c_attn|c_proj|c_fc)\.weight$")
"""transformers' Conv1D keeps (in, out)."""


def hidden_of(model: Model) -> int:
    """The width of the activations between blocks; UsageError where the tensors do not tell it."""
    if model.geometry is not None:
        return model.geometry.hidden
    widths = Counter(
        tensor.shape[0]
        for unit in model.units
        if unit.name in model.blocks
        for tensor in unit.tensors
        if len(tensor.shape) == 1 and is_norm(tensor)
    )
    if not widths:
        raise UsageError(f"{model.name}: its tensors do not tell the width of its activations; use a config.json")
    return widths.most_common(1)[0][0]


def require_transformer(model: Model, what: str) -> None:
    """UsageError for a convolutional network: its activations change from block to block, and it has no heads to cut."""
    if model.sample == "image" and model.geometry is None:
        raise UsageError(
            f"{model.name} is no transformer, and {what} is known for transformers only: use ddp, zero or fsdp"
        )


def is_norm(tensor: Tensor) -> bool:
    """It belongs to a norm."""
    return _NORM.search(tensor.name) is not None


def is_row(tensor: Tensor) -> bool:
    """It is the matrix (or its bias) that ends attention or a feed-forward."""
    return _ROW.search(tensor.name) is not None


def is_attention(tensor: Tensor) -> bool:
    """It belongs to attention, by its name."""
    return _ATTENTION.search(tensor.name) is not None


def is_matrix(tensor: Tensor) -> bool:
    """It is multiplied with: a matrix, or a stack of them (experts)."""
    return len(tensor.shape) in (2, 3)


def is_router(tensor: Tensor) -> bool:
    """It chooses experts; every rank holds it whole."""
    return re.search(r"(mlp|moe|block_sparse_moe)\.(gate|router)\.", tensor.name) is not None


def is_transposed(tensor: Tensor) -> bool:
    """It is stored (in, out), as transformers' Conv1D does."""
    return _TRANSPOSED.search(tensor.name) is not None


def columns(unit: Unit, attention: bool) -> int:
    """How many column-parallel matrices share the input of a block's attention, or of its feed-forward."""
    return sum(
        len(tensor.shape) == 2
        and not is_row(tensor)
        and not is_norm(tensor)
        and not is_router(tensor)
        and is_attention(tensor) == attention
        for tensor in unit.tensors
    )


def cut(tensor: Tensor, dimension: int, ways: int, what: str) -> tuple[int, ...]:
    """A shape with one dimension divided; UsageError where it cannot be."""
    size = tensor.shape[dimension]
    if size % ways:
        raise UsageError(f"{tensor.name} has {size} {what}: tp={ways} does not divide them")
    return tuple(each // ways if i == dimension else each for i, each in enumerate(tensor.shape))


def require_blocks(model: Model, what: str) -> Sequence[str]:
    """A model's blocks; UsageError where it has none."""
    if not model.blocks:
        raise UsageError(f"{model.name} has no repeated blocks (layers.0, layers.1, ...), which {what} needs")
    return model.blocks
