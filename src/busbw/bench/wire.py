"""The words that ranks and supervisor exchange: one JSON object a line, over a Unix or a TCP socket.

On one host the socket is an abstract Unix one: no port is opened and no file left behind, and the kernel says whose
process is at the other end. Across hosts it is TCP, and the first word must carry the run's token.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from typing import Any

BEAT_S = 0.25
"""A rank says where it is this often."""
SILENCE_S = 2.0
"""A rank that has said nothing for this long is dead or stopped."""
MOST_LINE_BYTES = 256 << 20
"""The longest line either side accepts."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the supervisor listens: an abstract Unix name, or host, port and token."""

    unix: str = ""
    host: str = ""
    port: int = 0
    token: str = ""

    @classmethod
    def fresh(cls) -> Address:
        """A Unix name that nobody else has."""
        return cls(unix=f"busbw-{os.getuid()}-{secrets.token_hex(8)}")

    def to_text(self) -> str:
        """As one word, for an environment variable."""
        return f"unix:{self.unix}" if self.unix else f"tcp:{self.port}:{self.token}:{self.host}"

    @classmethod
    def from_text(cls, text: str) -> Address:
        """The inverse of `to_text`."""
        kind, _, rest = text.partition(":")
        if kind == "unix":
            return cls(unix=rest)
        port, token, host = rest.split(":", 2)
        return cls(host=host, port=int(port), token=token)


def encode(word: dict[str, Any]) -> bytes:
    """One word as a line."""
    return json.dumps(word, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """The inverse of `encode`; ValueError when it is not one."""
    word = json.loads(line)
    if not isinstance(word, dict) or not isinstance(word.get("say"), str):
        raise ValueError(f"not a word: {line[:80]!r}")
    return word
