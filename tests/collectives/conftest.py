"""`run` applies a collective's postcondition to small inputs, so that a test can write the outputs down by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from busbw.core.collective import COLLECTIVES, Place

Outputs = list[list[int]]


def apply_postcondition(name: str, inputs: Outputs, count: int, root: int = 0) -> Outputs:
    """Each rank's output, with sum as the reduction. `inputs[rank]` is what that rank holds before."""
    collective = COLLECTIVES.get(name)
    outputs = []
    for rank in range(len(inputs)):
        place = Place(count, len(inputs), rank, root)
        assert collective.send_count(place) == len(inputs[rank])
        output: list[int] = []
        for piece in collective.postcondition(place):
            for offset in range(piece.length):
                output.append(sum(inputs[source][start + offset] for source, start in piece.sources))
        outputs.append(output)
    return outputs


@pytest.fixture
def run() -> Callable[..., Outputs]:
    """Apply a collective: run(name, inputs, count, root)."""
    return apply_postcondition
