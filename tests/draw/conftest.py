from __future__ import annotations

from collections.abc import Callable

import pytest

from busbw.algorithms.spec import parse_algorithm
from busbw.core.schedule import Schedule


@pytest.fixture(scope="session")
def build() -> Callable[..., Schedule]:
    """(algorithm, collective, N) -> schedule."""

    def make(algorithm: str, collective: str, world_size: int, root: int = 0) -> Schedule:
        return parse_algorithm(algorithm).build(collective, world_size, root)

    return make
