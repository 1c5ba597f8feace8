from __future__ import annotations

import pytest

from busbw.bench.wire import Address, decode, encode


@pytest.mark.parametrize("address", [Address(unix="busbw-0-x"), Address(host="::1", port=5, token="ab")])
def test_an_address_survives_being_text(address: Address) -> None:
    assert Address.from_text(address.to_text()) == address


def test_a_word_is_one_line() -> None:
    line = encode({"say": "row", "text": "a\nb"})
    assert line.count(b"\n") == 1
    assert decode(line) == {"say": "row", "text": "a\nb"}


@pytest.mark.parametrize("line", [b"[]", b'{"says": "x"}', b'{"say": 1}', b"{", b"\xff"])
def test_what_is_no_word_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's and ours alike
        decode(line)
