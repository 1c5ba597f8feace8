"""Which of the questions that people asked are answered: python benchmarks/explain/questions.py > table.md.

Reads ../shared/data/logs/questions beside the checkout; each is given to `busbw explain` as its asker put it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import sys
from pathlib import Path
from typing import Any

from busbw.cli import main

ROOT = Path(__file__).resolve().parents[2]
_PATH = ROOT / "tests" / "findings" / "questions.py"
_SPEC = importlib.util.spec_from_file_location("asked_questions", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
asked_questions = sys.modules["asked_questions"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(asked_questions)


def told(arguments: list[str]) -> list[dict[str, Any]]:
    """The findings of one command line."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main(["explain", "--json", *arguments])
    assert status == 0, arguments
    findings: list[dict[str, Any]] = json.loads(out.getvalue())
    return findings


def table() -> str:
    """The table as Markdown."""
    lines = ["| asked in | question | their cause | our finding | how | cleared by |", "|---|---|---|---|---|---|"]
    answered = 0
    loaded = asked_questions.load(ROOT.parent)
    for asked in loaded:
        cause = asked["right_answer"]["cause"]
        answer = asked_questions.ANSWERS[cause]
        found = asked_questions.matching(answer, told(asked_questions.arguments(asked)))
        answered += bool(found)
        ours = found[0]["law"] if found else "nothing"
        how = asked_questions.how(answer, found[0]) if found else "not answered"
        cleared = ", ".join(f"`{fact}`" for fact in answer.counterfacts)
        lines.append(f"| {asked['source']} | {asked['question']} | {cause} | `{ours}` | {how} | {cleared} |")
    return "\n".join([f"{answered} of {len(loaded)} are answered.", "", *lines])


if __name__ == "__main__":
    print(table())
