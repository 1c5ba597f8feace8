"""What torch's traces call things: collectives, element types, shapes; shared by the readers of its files."""

from __future__ import annotations

import re
from typing import Any

from busbw.core.call import UNKNOWN_COLLECTIVE
from busbw.core.collective import COLLECTIVES

_COLLECTIVE = (
    ("reducescatter", "reduce_scatter"), ("allreduce", "all_reduce"), ("allgather", "all_gather"),
    ("alltoallv", "all_to_all_v"), ("alltoall", "all_to_all"), ("broadcast", "broadcast"), ("gather", "gather"),
    ("scatter", "scatter"), ("reduce", "reduce"), ("send", "send_recv_one_way"), ("recv", "send_recv_one_way"),
    ("barrier", "barrier"),
)  # fmt: skip
_DTYPES = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "longint": "int64",
    "int": "int32", "byte": "uint8", "unsignedchar": "uint8", "char": "int8", "signedchar": "int8", "bool": "uint8",
    "float8_e4m3fn": "float8_e4m3", "float8_e5m2": "float8_e5m2",
}  # fmt: skip


def collective_of(name: str) -> str:
    """Our collective of a name such as `c10d::allreduce_`, `nccl:_all_gather_base` or `send 0->1`."""
    plain = re.sub(
        r"[^a-z]", "", name.lower().partition(":")[2] if name.startswith(("gloo:", "nccl:")) else name.lower()
    )
    plain = plain.removeprefix("cd")  # c10d::
    return next((ours for theirs, ours in _COLLECTIVE if theirs in plain), UNKNOWN_COLLECTIVE)


def dtype_of(word: Any) -> str | None:
    """Our element type of `Float`, `c10::BFloat16`, `long int`; None for what is not one."""
    plain = str(word or "").lower().replace("c10::", "").replace(" ", "")
    return _DTYPES.get(plain)


def elements_of(shape: Any) -> int | None:
    """Elements of a shape, or of all shapes in a list; None where there is neither."""
    if not isinstance(shape, list) or not shape:
        return None
    if all(isinstance(length, int) for length in shape):
        product = 1
        for length in shape:
            product *= length
        return product
    parts = [elements_of(each) for each in shape]
    return None if any(part is None for part in parts) else sum(part for part in parts if part is not None)


def whole_elements(collective: str, given: int, taken: int, n: int) -> int:
    """Elements of the whole tensor from those of one rank's input and output, which may be 0 where it has none."""
    return {
        "all_gather": taken,
        "reduce_scatter": given,
        "gather": max(given * n, taken),
        "scatter": max(given, taken * n),
        "all_to_all": given,
        "all_to_all_v": given,
        "barrier": 0,
    }.get(collective, max(given, taken))


def sent_by(collective: str, size_bytes: int, n: int, place: int, name: str, root: int = 0) -> int:
    """Bytes that a rank sends in the optimal form; 0 where the collective or N is not known."""
    if collective == "send_recv_one_way":
        return size_bytes if name.lower().startswith("send") else 0
    if collective == UNKNOWN_COLLECTIVE or n < 1:
        return 0
    return COLLECTIVES.get(collective).sent_bytes(size_bytes, n, place, root)
