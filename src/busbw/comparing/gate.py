"""check(): gates for CI. Every row of a range has to pass, not their average; JSON and JUnit say which did not."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from busbw.comparing.comparison import CANNOT_TELL, SLOWER, Comparison, change_text
from busbw.comparing.matching import Work, work_of
from busbw.comparing.rules import Rule
from busbw.comparing.two_runs import compare
from busbw.core.measurement import Measurement, Results
from busbw.errors import UsageError
from busbw.units import GB, format_rate

__all__ = ["Gate", "Outcome", "check"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One thing that was checked: by which rule, which row, whether it passed, and its numbers in a sentence."""

    rule: str
    row: str
    passed: bool
    message: str
    busbw_GBps: float | None = None  # noqa: N815
    least_busbw_GBps: float | None = None  # noqa: N815

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {
            "rule": self.rule,
            "row": self.row,
            "passed": self.passed,
            "message": self.message,
            "busbw_GBps": self.busbw_GBps,
            "least_busbw_GBps": self.least_busbw_GBps,
        }


@dataclass(frozen=True, slots=True)
class Gate:
    """All outcomes; it passes when each of them does."""

    outcomes: tuple[Outcome, ...]
    comparison: Comparison | None = None
    """With the baseline, where there is one."""

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return all(outcome.passed for outcome in self.outcomes)

    @property
    def exit_status(self) -> int:
        """0 or 1."""
        return 0 if self.passed else 1

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary (docs/comparing.md lists the keys)."""
        return {
            "passed": self.passed,
            "failed": sum(not outcome.passed for outcome in self.outcomes),
            "outcomes": [outcome.to_json() for outcome in self.outcomes],
            "comparison": None if self.comparison is None else self.comparison.to_json(),
        }

    def junit(self, name: str) -> str:
        """JUnit XML: one suite for each rule, one case for each row."""
        suites = ElementTree.Element("testsuites", name="busbw check")
        by_rule: dict[str, list[Outcome]] = defaultdict(list)
        for outcome in self.outcomes:
            by_rule[outcome.rule].append(outcome)
        for rule, outcomes in by_rule.items():
            failed = sum(not outcome.passed for outcome in outcomes)
            suite = ElementTree.SubElement(
                suites, "testsuite", name=_xml(rule), tests=str(len(outcomes)), failures=str(failed), errors="0"
            )
            for outcome in outcomes:
                case = ElementTree.SubElement(
                    suite, "testcase", classname=_xml(f"{name} {rule}"), name=_xml(outcome.row)
                )
                if not outcome.passed:
                    ElementTree.SubElement(case, "failure", message=_xml(outcome.message))
                else:
                    ElementTree.SubElement(case, "system-out").text = _xml(outcome.message)
        ElementTree.indent(suites)
        # Written by hand: ElementTree would name the locale's encoding, and the file is UTF-8.
        return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _xml(text: str) -> str:
    """Without the characters that XML cannot hold: controls, and bytes of a name that are no text."""
    return "".join(
        char
        if (char >= " " or char in "\t\n") and not "\ud800" <= char <= "\udfff" and char not in "\ufffe\uffff"
        else "?"
        for char in text
    )


def check(
    results: Results | Sequence[Results],
    rules: Iterable[Rule | str] = (),
    *,
    baseline: Results | Sequence[Results] | None = None,
    min_change: float = 0.01,
    resolution: float = 0.05,
    across: Iterable[str] = (),
    spread: float | None = None,
    fail_on_unknown: bool = False,
) -> Gate:
    """Check every row: against rules (`40GB/s@all_reduce,N=8:>=256MiB`), a baseline, or both.

    A row of several launches stands for their median. Rows with wrong results fail under any rule. A rule that no row
    falls under fails. With a baseline (see `compare`) a row fails when it is slower, when the baseline has it and the
    results do not, and with `fail_on_unknown` when its change cannot be told. Raises UsageError without rules and
    baseline, and for a rule that cannot be read.
    """
    parsed = [Rule.parse(rule) if isinstance(rule, str) else rule for rule in rules]
    if not parsed and baseline is None:
        raise UsageError("there is nothing to check against: give --min-busbw RULE or --baseline FILE")
    files = [results] if isinstance(results, Results) else list(results)
    by_work: dict[Work, list[Measurement]] = defaultdict(list)
    for file in files:
        for row in file.measurements:
            by_work[work_of(row)].append(row)
    outcomes = [*_wrong(by_work)]
    for rule in parsed:
        outcomes += _by_rule(rule, by_work)
    comparison = None
    if baseline is not None:
        comparison = compare(
            baseline, files, min_change=min_change, resolution=resolution, across=across, spread=spread
        )
        outcomes += _by_baseline(comparison, fail_on_unknown)
    return Gate(tuple(outcomes), comparison)


def _wrong(by_work: dict[Work, list[Measurement]]) -> list[Outcome]:
    found = []
    for work, rows in by_work.items():
        wrong = sum(row.wrong or 0 for row in rows)
        failed = any(mark.code == "validation_failed" for row in rows for mark in row.marks)
        if wrong or failed:
            count = f"{wrong} elements of" if wrong else "the tool's own check failed:"
            found.append(Outcome("right results", work.text(), False, f"{count} its results are wrong"))
    return found


def _by_rule(rule: Rule, by_work: dict[Work, list[Measurement]]) -> list[Outcome]:
    outcomes = []
    without_rate = 0
    for work, rows in by_work.items():
        if not rule.covers(work.call):
            continue
        logs = sorted(math.log(row.time_s) for row in rows if row.time_s > 0)
        middle = len(logs) // 2
        busbw = None
        if logs:
            busbw = work.call.busbw_Bps(math.exp((logs[middle] + logs[~middle]) / 2))
        if busbw is None:
            without_rate += 1
            continue
        of = f" (median of {len(logs)})" if len(logs) > 1 else ""
        passed = busbw >= rule.busbw_Bps
        outcomes.append(
            Outcome(
                rule.text,
                work.text(),
                passed,
                f"busbw {format_rate(busbw)}{of} is {'at least' if passed else 'below'} {format_rate(rule.busbw_Bps)}",
                busbw / GB,
                rule.busbw_Bps / GB,
            )
        )
    if not outcomes:
        why = f"; {without_rate} that it covers have no busbw" if without_rate else ""
        outcomes.append(Outcome(rule.text, "no row", False, f"no row of {len(by_work)} falls under the rule{why}"))
    return outcomes


def _by_baseline(comparison: Comparison, fail_on_unknown: bool) -> list[Outcome]:
    rule = "not slower than the baseline"
    outcomes = []
    parts = [(row.work.text(), row.ratio) for row in comparison.rows]
    parts += [(f"{curve.name} ({curve.rows} rows together)", curve.ratio) for curve in comparison.curves]
    for text, ratio in parts:
        bad = ratio.verdict == SLOWER or (fail_on_unknown and ratio.verdict == CANNOT_TELL)
        word = f"{ratio.verdict}; no change below {change_text(ratio.reach)} could be told"
        outcomes.append(
            Outcome(
                rule, text, not bad, f"time x {ratio.ratio:.3f} (95 %: {ratio.low:.3f} to {ratio.high:.3f}): {word}"
            )
        )
    outcomes += [
        Outcome(rule, item.work.text(), False, "the baseline has this row and the results do not")
        for item in comparison.unmatched
        if item.side == "A"
    ]
    outcomes += [
        Outcome(rule, item.work.text(), False, f"cannot be compared: {item.reason}") for item in comparison.refused
    ]
    return outcomes
