"""Models from torch modules: the one place of pricing that imports torch, inside functions; never torch.distributed."""

from __future__ import annotations

from busbw.pricing.modules.reader import describe, read_function

__all__ = ["describe", "read_function"]
