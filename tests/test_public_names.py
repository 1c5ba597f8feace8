from __future__ import annotations

import re

import pytest

import busbw


def test_all_is_sorted_and_complete() -> None:
    assert busbw.__all__ == sorted(busbw.__all__)
    assert dir(busbw) == busbw.__all__


@pytest.mark.parametrize("name", busbw.__all__)
def test_every_public_name_loads_under_its_own_name(name: str) -> None:
    value = getattr(busbw, name)
    if name == "__version__":
        assert re.fullmatch(r"\d+\.\d+\.\d+\S*", value)
    else:
        assert value.__name__ == name
        assert value.__module__.startswith("busbw.")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        busbw.nonsense  # noqa: B018
