"""What a probe's file defines, and the registry of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from busbw.core.finding import Facts, Finding
from busbw.host.files import Host
from busbw.registry import Registry


@dataclass(frozen=True, slots=True)
class Seen:
    """What a probe saw: findings, and facts that `busbw explain` takes."""

    findings: tuple[Finding, ...] = ()
    facts: Facts = field(default_factory=Facts)
    nothing: str = ""
    """Why there was nothing to look at; "" where there was."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One question about the host. Each file of `busbw.doctor` defines one, named PROBE."""

    name: str
    asks: str
    """The question, in one sentence."""
    looks_at: str
    """The files and commands that it reads."""
    look: Callable[[Host], Seen]


PROBES: Registry[Probe] = Registry("busbw.doctor", "PROBE", "probe")
"""Every probe by name."""
