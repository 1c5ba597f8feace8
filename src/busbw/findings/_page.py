"""Findings as a page: the verdict first, then what is wrong, what to keep in mind, the laws, with numbers and next steps."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from busbw.core.finding import FACT_KINDS, Fact, Facts, Finding, Number
from busbw.core.measurement import Results

WIDTH = 110
_SHOWN = {"wrong": 4, "problem": 4, "notice": 2, "fact": 2}
"""Numbers that are printed without `verbose`; the statement has the values, these add the places."""
_NEEDS = 6
_WORDS = {"holds": "holds", "fails": "FAILS", "cannot_tell": "cannot tell"}
_SECTIONS = (
    ("wrong", "Broken"),
    ("problem", "What costs time"),
    ("notice", "Read the numbers with this in mind"),
    ("fact", "Laws, checked"),
)


def page(findings: Sequence[Finding], results: Sequence[Results], facts: Facts, verbose: bool = False) -> str:
    """The page as text; `verbose` adds every number with its place, and the facts."""
    lines = [_title(results), *_known(facts), ""]
    lines += _verdict(findings)
    for severity, heading in _SECTIONS:
        chosen = [finding for finding in findings if finding.severity == severity and not _said(finding, verbose)]
        if not chosen:
            continue
        lines += ["", heading, "-" * len(heading)]
        for number, finding in enumerate(chosen):
            if number and severity != "fact":
                lines.append("")
            lines += _entry(finding, verbose, short=severity == "fact")
    missing = list(dict.fromkeys(name for finding in findings for name in finding.needs))
    missing = missing if verbose else missing[:_NEEDS]
    if missing:
        lines += ["", "Facts that would help", "---------------------"]
        for name in missing:
            kind = FACT_KINDS[name]
            lines += _wrapped(f"{name}: {kind.how or kind.meaning}", "  ", "      ")
        lines.append("  Give them as --fact NAME=VALUE, or hand over the log: --nccl-log FILE.")
    return "\n".join(lines) + "\n"


def _title(results: Sequence[Results]) -> str:
    rows = [row for part in results for row in part.measurements]
    if not rows:
        return "No rows; facts and words only."
    ops = ", ".join(sorted({row.call.collective for row in rows}))
    worlds = ", ".join(str(n) for n in sorted({row.call.world_size for row in rows}))
    return f"{len(rows)} row{'s' if len(rows) > 1 else ''}: {ops}; N = {worlds}."


def _known(facts: Facts) -> Iterator[str]:
    if facts.known:
        words = [f"{name} {fact_text(name, fact)}" for name, fact in facts.known.items()]
        yield from _wrapped(f"Known: {', '.join(words)}.", "", "  ")


def fact_text(name: str, fact: Fact) -> str:
    """The value of a fact as a person writes it."""
    if FACT_KINDS[name].kind in ("rate", "size", "count"):
        unit = {"rate": "B/s", "size": "B", "count": ""}[FACT_KINDS[name].kind]
        return Number(name, float(fact.value), unit, "").text
    return "on" if fact.value is True else "off" if fact.value is False else str(fact.value)


def verdict(findings: Sequence[Finding]) -> list[str]:
    """What a reader has to know first: whether it is good, and the worst that was found; one sentence each."""
    good = next((finding for finding in findings if finding.law == "is_it_good"), None)
    worst = next(
        (finding for finding in findings if finding.severity in ("wrong", "problem") and finding is not good), None
    )
    parts = [(finding.headline or finding.statement) for finding in (good, worst) if finding is not None]
    if not parts:
        parts = [
            findings[0].headline or findings[0].statement if findings else "nothing to say: too few rows and facts"
        ]
    return [part if part.endswith(".") else f"{part}." for part in parts]


def _verdict(findings: Sequence[Finding]) -> Iterator[str]:
    for number, part in enumerate(verdict(findings)):
        yield from _wrapped(("Verdict: " if number == 0 else "First of all: ") + part, "", "  ")


def _said(finding: Finding, verbose: bool) -> bool:
    """Whether the verdict on top has said it all."""
    return finding.law == "is_it_good" and not verbose and not finding.advice and not finding.next


def _entry(finding: Finding, verbose: bool, short: bool) -> Iterator[str]:
    end = "" if finding.statement.endswith((".", "?")) else "."
    yield from _wrapped(f"[{_WORDS[finding.verdict]}] {finding.statement}{end}", "* ", "  ")
    if finding.numbers and (verbose or not short):
        shown = finding.numbers if verbose else finding.numbers[: _SHOWN[finding.severity]]
        more = f"; and {len(finding.numbers) - len(shown)} more (-v)" if len(shown) < len(finding.numbers) else ""
        yield from _wrapped("numbers: " + "; ".join(_number(number) for number in shown) + more, "    ", "      ")
    if finding.causes and (len(finding.causes) > 1 or finding.causes[0].text not in finding.statement):
        holds = finding.verdict == "holds"
        label = "cause: " if len(finding.causes) == 1 else "why: " if holds else "causes that fit alike: "
        yield from _wrapped(
            label + ("; and " if holds else "; or ").join(cause.text for cause in finding.causes), "    ", "      "
        )
    for cause in finding.ruled_out:
        yield from _wrapped(f"ruled out, {cause.code.replace('-', ' ')}: {cause.text}", "    ", "      ")
    if finding.next and (verbose or not short or finding.verdict == "cannot_tell"):
        yield from _wrapped(f"next: {finding.next}", "    ", "      ")
    if finding.advice and (verbose or not short or finding.severity != "fact"):
        yield from _wrapped(f"do: {finding.advice}", "    ", "      ")


def _number(number: Number) -> str:
    return f"{number.name} {number.text}" + (f" ({place_text(number)})" if number.source else "")


def place_text(number: Number) -> str:
    """Where a number came from: files without their folders; other words (`50 GB/s on paper`) as they are."""
    places = number.source.split(", ")
    return ", ".join(re.sub(r"^\S*/(?=[^/\s]*:\d+( to \d+)?$)", "", place) for place in places)


def _wrapped(text: str, first: str, later: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )
