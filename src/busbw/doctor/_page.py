"""The report as a page: what hurts first, each with its numbers and the way out."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator

from busbw.core.finding import Finding, Number
from busbw.doctor._report import Report, word

WIDTH = 110
_NUMBERS = 3


def page(report: Report) -> str:
    """The page as text."""
    here = [finding for finding in report.findings if finding.law == "inventory" and finding.severity == "fact"]
    rest = [finding for finding in report.findings if finding not in here]
    groups = (
        ("What hurts", [each for each in rest if each in report.hurts]),
        (
            "Could be better, or is so by choice",
            [each for each in rest if each not in report.hurts and each.verdict == "fails"],
        ),
        ("Cannot be told from here", [each for each in rest if each.verdict == "cannot_tell"]),
        ("Fine", [each for each in rest if each.verdict == "holds"]),
    )
    lines = [line for finding in here for line in _wrapped(f"{finding.statement}.", "", "  ")]
    lines += _verdict(report)
    for heading, findings in groups:
        if not findings:
            continue
        lines += ["", heading, "-" * len(heading)]
        for finding in findings:
            lines += _entry(finding, short=heading == "Fine")
    if report.nothing:
        reasons: dict[str, list[str]] = {}
        for probe, reason in report.nothing:
            reasons.setdefault(reason, []).append(probe)
        text = "; ".join(f"{', '.join(probes)} ({reason})" for reason, probes in reasons.items())
        lines += ["", *_wrapped(f"Nothing to look at: {text}.", "", "  ")]
    if report.denied:
        some = ", ".join(report.denied[:3]) + (", ..." if len(report.denied) > 3 else "")
        text = (
            f"{len(report.denied)} paths need root ({some}): sudo busbw doctor reads them, and changes nothing either."
        )
        lines += ["", *_wrapped(text, "", "  ")]
    if report.facts.known:
        words = " ".join(f"--fact {shlex.quote(word(name, fact))}" for name, fact in sorted(report.facts.known.items()))
        lines += ["", "For busbw explain:", *_wrapped(words, "  ", "  ")]
    return "\n".join(lines) + "\n"


def _verdict(report: Report) -> list[str]:
    hurts = report.hurts
    if hurts:
        first = hurts[0].headline or hurts[0].statement
        more = f"; and {len(hurts) - 1} more" if len(hurts) > 1 else ""
        return _wrapped(
            f"Verdict: {len(hurts)} thing{'s' if len(hurts) > 1 else ''} that hurt{'' if len(hurts) > 1 else 's'}: {first}{more}.",
            "",
            "  ",
        )
    unknown = sum(1 for finding in report.findings if finding.verdict == "cannot_tell")
    return [f"Verdict: nothing that hurts was found{f'; {unknown} cannot be told from here' if unknown else ''}."]


def _entry(finding: Finding, short: bool) -> Iterator[str]:
    yield from _wrapped(f"{finding.statement}{'' if finding.statement.endswith('.') else '.'}", "* ", "  ")
    if short:
        return
    if finding.numbers:
        yield from _wrapped("numbers: " + "; ".join(map(_number, finding.numbers[:_NUMBERS])), "    ", "      ")
    if len(finding.causes) > 1:
        yield from _wrapped("fit as well: " + "; or ".join(cause.text for cause in finding.causes), "    ", "      ")
    if finding.next:
        yield from _wrapped(f"next: {finding.next}", "    ", "      ")
    if finding.advice:
        yield from _wrapped(f"do: {finding.advice}", "    ", "      ")


def _number(number: Number) -> str:
    return f"{number.name} {number.text} ({number.source})"


def _wrapped(text: str, first: str, later: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )
