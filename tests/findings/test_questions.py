"""Twenty-three things that people asked: the same cause as the maintainers', or the fact that is missing."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from busbw.cli import main

spec = importlib.util.spec_from_file_location("questions", Path(__file__).with_name("questions.py"))
assert spec is not None
assert spec.loader is not None
questions = sys.modules["questions"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(questions)

BESIDE = Path(__file__).resolve().parents[3]
ASKED: list[dict[str, Any]] = questions.load(BESIDE)

pytestmark = pytest.mark.skipif(
    not ASKED, reason="the questions do not lie beside this checkout (../shared/data/logs/questions)"
)


def told(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> list[dict[str, Any]]:
    assert main(["explain", "--json", *arguments]) == 0
    findings: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return findings


@pytest.mark.parametrize("asked", ASKED, ids=[f"{i}-{asked['right_answer']['cause']}" for i, asked in enumerate(ASKED)])
def test_the_maintainers_cause_is_found(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    answer = questions.ANSWERS[asked["right_answer"]["cause"]]
    findings = told(capsys, questions.arguments(asked))
    found = questions.matching(answer, findings)
    assert found, [(f["law"], f["verdict"], f["causes"]) for f in findings]
    for finding in found:
        if finding["verdict"] == "cannot_tell" and answer.law is None:
            assert finding["next"], finding["statement"]


@pytest.mark.parametrize(
    "asked",
    [asked for asked in ASKED if questions.ANSWERS[asked["right_answer"]["cause"]].counterfacts],
    ids=lambda asked: f"{asked['source']}",
)
def test_a_counterfact_clears_it(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    answer = questions.ANSWERS[asked["right_answer"]["cause"]]
    for counterfact in answer.counterfacts:
        findings = told(capsys, [*without(questions.arguments(asked), counterfact), "--fact", counterfact])
        assert questions.matching(answer, findings) == [], counterfact


def without(arguments: list[str], fact: str) -> list[str]:
    """The options without the one that the fact replaces."""
    name = fact.split("=")[0]
    option = {"op": "--op", "hosts": "--hosts"}.get(name)
    kept, index = [], 0
    while index < len(arguments):
        flag, value = arguments[index : index + 2]
        same = flag == "--fact" and value.split("=")[0] == name
        if not (same or flag == option or (name == "hosts" and flag == "--setup")):
            kept += [flag, value]
        index += 2
    return kept


NUMBERS = {
    # source: numbers that the maintainers gave, as they have to stand in a statement
    "NVIDIA/nccl-tests#212": ("367", "480", "274"),
    "NVIDIA/nccl-tests#119": ("92.0 to 98.0", "96.4"),
    "NVIDIA/nccl-tests#130": ("2 at k=2", "1.5 at 3", "1.33 at 4", "1.14 at 8"),
    "NVIDIA/nccl-tests#267": ("46.0 to 49.0",),
    "NVIDIA/nccl#812": ("92.0 to 98.0", "60.0"),
    "NVIDIA/nccl-tests#290": ("476", "46.0 to 49.0", "368 to 392"),
    "NVIDIA/nccl#281": ("50 %", "95 %"),
}


@pytest.mark.parametrize(
    "asked", [asked for asked in ASKED if asked["source"] in NUMBERS], ids=lambda asked: asked["source"]
)
def test_the_numbers_of_the_answer_are_there(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    findings = told(capsys, questions.arguments(asked))
    text = " ".join(finding["statement"] + " " + finding["advice"] for finding in findings)
    for number in NUMBERS[asked["source"]]:
        assert number in text, text
