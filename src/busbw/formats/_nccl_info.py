"""What NCCL's own log lines (NCCL_DEBUG=INFO) say about the calls: algorithm, protocol, channels and transport."""

from __future__ import annotations

import re
from collections.abc import Iterable

from busbw.formats._lines import whole_number

_ALGORITHMS = ("Tree", "Ring", "CollnetDirect", "CollnetChain", "NVLS", "NVLSTree", "PAT")
_PROTOCOLS = ("LL", "LL128", "Simple")
_BY_NAME = {name.lower(): name for name in (*_ALGORITHMS, *_PROTOCOLS)}

_CHOICE = re.compile(
    r"(\w+): (\d{1,19}) Bytes -> Algo (\w+) proto (\w+)(?:.*?channel\{Lo\.\.Hi\}=\{(\d{1,9})\.\.(\d{1,9})\})?"
)
_VIA = re.compile(r"(NET|P2P|SHM|CollNet|NVLS|direct)\b(?:/([A-Za-z_][\w -]*))?(?:/\d+)?(/GDRDMA)?")
MOST_SAID = 4096
_FUNCTIONS = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "AlltoAll": "all_to_all",
    "Gather": "gather",
    "Scatter": "scatter",
}


def algorithm_name(text: str) -> str:
    """NCCL's own spelling of an algorithm (`RING`, `ring`, `1` -> `Ring`); other text as it stands."""
    return _named(text, _ALGORITHMS)


def protocol_name(text: str) -> str:
    """NCCL's own spelling of a protocol (`SIMPLE`, `2` -> `Simple`); other text as it stands."""
    return _named(text, _PROTOCOLS)


def _named(text: str, names: tuple[str, ...]) -> str:
    number = whole_number(text)
    if number is not None and 0 <= number < len(names):
        return names[number]
    return _BY_NAME.get(text.lower(), text[:40])


class NcclInfo:
    """Gathered over one run."""

    __slots__ = ("_seen", "choices", "transports")

    def __init__(self) -> None:
        self.choices: dict[tuple[str, int], dict[tuple[str, str, str], None]] = {}
        self.transports: dict[str, None] = {}
        self._seen: set[str] = set()

    def add(self, text: str) -> None:
        """One line of NCCL's log. Most say what others have said before: those cost next to nothing."""
        if "-> Algo" in text:
            said = text.rpartition("NCCL INFO ")[2]
        elif " via " in text:
            said = text.rpartition(" via ")[2][:40]
        else:
            return
        if said in self._seen:
            return
        if len(self._seen) < MOST_SAID:
            self._seen.add(said)
        if "-> Algo" in said:
            match = _CHOICE.match(said)
            if match is not None and len(self.choices) < MOST_SAID:
                function, size, algorithm, protocol, low, high = match.groups()
                channels = "" if low is None else str(int(high) - int(low) + 1)
                choice = (algorithm_name(algorithm), protocol_name(protocol), channels)
                self.choices.setdefault((_FUNCTIONS.get(function, function), int(size)), {})[choice] = None
            return
        match = _VIA.match(said)
        if match is not None and len(self.transports) < 64:
            kind, what, gdr = match.groups()
            words = (kind, what if kind != "P2P" else "", (gdr or "")[1:])
            self.transports["/".join(word for word in words if word)] = None

    def labels(self, collective: str, size: int) -> dict[str, str]:
        """What is known about a call that was logged with this size: algorithm, protocol, channels, transport."""
        found: dict[str, str] = {}
        choices = self.choices.get((collective, size))
        if choices:
            for name, values in zip(("algorithm", "protocol", "channels"), zip(*choices, strict=True), strict=True):
                value = _joined(values)
                if value:
                    found[name] = value
        if self.transports:
            found["transport"] = _joined(sorted(self.transports))
        return found

    def largest(self, collective: str) -> int:
        """The largest size that was logged for a collective; 0 when none was."""
        return max((size for name, size in self.choices if name == collective), default=0)

    def __bool__(self) -> bool:
        return bool(self.choices or self.transports)


def _joined(values: Iterable[str]) -> str:
    return "+".join(dict.fromkeys(value for value in values if value))
