from __future__ import annotations

import numpy as np
import pytest

from busbw.core.dtype import DTYPES, find_dtype
from busbw.errors import UsageError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("float", "float32"),
        ("half", "float16"),
        ("double", "float64"),
        ("bf16", "bfloat16"),
        ("BFloat16", "bfloat16"),
        ("int", "int32"),
        ("char", "int8"),
        ("fp8", "float8_e4m3"),
        ("f8e5m2", "float8_e5m2"),
        ("uint64", "uint64"),
    ],
)
def test_names_of_nccl_tests_and_torch(text: str, name: str) -> None:
    assert find_dtype(text).name == name


def test_an_unknown_dtype_gets_the_choices() -> None:
    with pytest.raises(UsageError, match="unknown dtype 'float31': choose from float32, float16, bfloat16"):
        find_dtype("float31")


@pytest.mark.parametrize("name", [name for name in DTYPES if hasattr(np, name)])
def test_sizes_and_exact_limits_are_those_of_the_type(name: str) -> None:
    dtype, scalar = DTYPES[name], getattr(np, name)
    assert dtype.itemsize == np.dtype(name).itemsize
    limit = dtype.exact_limit
    assert int(scalar(limit)) == limit
    assert int(scalar(limit) - scalar(1)) == limit - 1
    if dtype.family == "float":
        assert int(scalar(limit + 1)) != limit + 1  # it is the largest such limit


@pytest.mark.parametrize(
    ("name", "significand_bits"), [("bfloat16", 8), ("float8_e4m3", 4), ("float8_e5m2", 3), ("float16", 11)]
)
def test_a_floats_exact_limit_is_two_to_its_significand(name: str, significand_bits: int) -> None:
    assert DTYPES[name].exact_limit == 2**significand_bits


def test_no_alias_means_two_types() -> None:
    names = [name for dtype in DTYPES.values() for name in (dtype.name, *dtype.aliases)]
    assert len(names) == len(set(names))
