"""What all probes saw, as a report: JSON for programs, and facts for `busbw explain`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from busbw.core.finding import FACT_KINDS, SEVERITIES, Fact, Facts, Finding, parse_facts
from busbw.errors import FileError

VERSION = 1
_VERDICTS = ("fails", "cannot_tell", "holds")


@dataclass(frozen=True, slots=True)
class Report:
    """Findings, the most important first; facts; probes that had nothing to look at, and paths that need more rights."""

    host: str
    root: str
    findings: tuple[Finding, ...]
    facts: Facts
    nothing: tuple[tuple[str, str], ...] = ()
    """Probe and reason."""
    denied: tuple[str, ...] = ()

    @property
    def hurts(self) -> list[Finding]:
        """The findings that cost time, or break data."""
        return [each for each in self.findings if each.verdict == "fails" and each.severity in ("wrong", "problem")]

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; `version` is that of its layout."""
        return {
            "version": VERSION,
            "host": self.host,
            "root": self.root,
            "hurts": bool(self.hurts),
            "facts": {
                name: {"value": fact.value, "as": word(name, fact), "source": fact.source}
                for name, fact in sorted(self.facts.known.items())
            },
            "findings": [finding.to_json() for finding in self.findings],
            "nothing_to_look_at": dict(self.nothing),
            "denied": list(self.denied),
        }


def importance(finding: Finding) -> tuple[int, int, float]:
    """What hurts comes first, then what is unknown; the larger loss before the smaller."""
    return SEVERITIES.index(finding.severity), _VERDICTS.index(finding.verdict), -finding.weight


def word(name: str, fact: Fact) -> str:
    """The fact as `busbw explain --fact` reads it, without losing a bit: acs=on, nic_rate=400Gb/s."""
    value, kind = fact.value, FACT_KINDS[name].kind
    if isinstance(value, bool):
        return f"{name}={'on' if value else 'off'}"
    if kind == "rate" and isinstance(value, int | float):
        return f"{name}={value * 8 / 1e9:g}Gb/s"
    if kind in ("size", "count") and isinstance(value, int | float):
        return f"{name}={value:.0f}"
    return f"{name}={value}"


def facts_of_report(text: str, name: str) -> Facts:
    """The facts of a report that was saved with `busbw doctor --json`; names that are not known here are left out."""
    try:
        known = json.loads(text)["facts"]
        words = [(key, str(entry["as"]), str(entry["source"])) for key, entry in known.items()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{name}: not a report of busbw doctor --json ({type(error).__name__})") from error
    facts = Facts()
    for key, said, source in words:
        if key in FACT_KINDS:
            facts = facts.or_else(parse_facts([said], f"{name}: {source}"))
    return facts
