"""What a finding's file defines, and the registry of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from busbw.core.finding import Facts, Finding
from busbw.findings._evidence import Evidence
from busbw.registry import Registry


@dataclass(frozen=True, slots=True)
class Law:
    """One law or diagnosis. Each file of `busbw.findings` defines one, named LAW."""

    name: str
    claim: str
    """What is checked, in one sentence that can hold or fail."""
    rule: str
    """How it is decided: which rows, which thresholds."""
    find: Callable[[Evidence, Facts], Iterable[Finding]]
    """Nothing where it has no object; `cannot_tell` where it has one and the rows do not decide."""
    sources: str = ""
    """Where the rule or its numbers come from."""


LAWS: Registry[Law] = Registry("busbw.findings", "LAW", "finding", skip=("machines",))
"""Every law and diagnosis by name."""
