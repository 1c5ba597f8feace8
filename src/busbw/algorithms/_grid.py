"""Rings along the rows and the columns of a grid of ranks: what hierarchical and torus_2d share.

The grid has `outer` rows of `inner` ranks: rank h inner + l stands in row h, at place l. All-reduce sums within the
rows first, so that each rank has one of `inner` segments, sums each segment along its column, and gathers within the
rows again: 2(N-1)/N S sent by each rank in all, of which only 2(H-1)/N S along the columns.
"""

from __future__ import annotations

import numpy as np

from busbw.algorithms._patterns import ring_pass
from busbw.core.schedule import Ints, Phase


class Grid:
    """N ranks as `outer` x `inner`; with `transposed`, the first rings run where neighbours are `outer` ranks apart."""

    def __init__(self, outer: int, inner: int, *, transposed: bool = False, backwards: bool = False) -> None:
        ranks = np.arange(outer * inner).reshape(outer, inner)
        self.rows: Ints = ranks.T.copy() if transposed else ranks
        if backwards:
            self.rows = self.rows[::-1, ::-1].copy()
        self.outer, self.inner = self.rows.shape
        self.columns: Ints = self.rows.T.copy()

    def all_reduce(self) -> tuple[Phase, ...]:
        """Chunks: N; segment l is slots l H to (l+1) H - 1, H the number of rows."""
        segments = np.broadcast_to(np.arange(self.inner) * self.outer, self.rows.shape)
        chunks = np.arange(self.inner)[:, None] * self.outer + np.arange(self.outer)
        return self._phases(
            [
                (self.rows, segments, self.outer, 1, True, "rows: reduce-scatter"),
                (self.columns, chunks, 1, 1, True, "columns: reduce-scatter"),
                (self.columns, chunks, 1, 1, False, "columns: all-gather"),
                (self.rows, segments, self.outer, 1, False, "rows: all-gather"),
            ]
        )

    def reduce_scatter(self) -> tuple[Phase, ...]:
        """Chunk k is rank k's; the segment of a column is every `inner`-th slot."""
        first, stride = self._shards()
        return self._phases(
            [
                (self.rows, first, self.outer, stride, True, "rows: reduce-scatter"),
                (self.columns, self.columns, 1, 1, True, "columns: reduce-scatter"),
            ]
        )

    def all_gather(self) -> tuple[Phase, ...]:
        """The same backwards."""
        first, stride = self._shards()
        return self._phases(
            [
                (self.columns, self.columns, 1, 1, False, "columns: all-gather"),
                (self.rows, first, self.outer, stride, False, "rows: all-gather"),
            ]
        )

    def _shards(self) -> tuple[Ints, int]:
        """The first slot of each column's shards, for every row; and how far apart they are."""
        lowest = self.rows.min(axis=0)
        stride = int(abs(self.rows[1, 0] - self.rows[0, 0])) if self.outer > 1 else 1
        return np.broadcast_to(lowest, self.rows.shape), stride

    @staticmethod
    def _phases(passes: list[tuple[Ints, Ints, int, int, bool, str]]) -> tuple[Phase, ...]:
        return tuple(
            ring_pass(groups, first, count, lag=int(reduces), reduces=reduces, label=label, stride=stride)
            for groups, first, count, stride, reduces, label in passes
            if groups.shape[1] > 1
        )
