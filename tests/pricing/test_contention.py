"""What rows that were taken beside computation say of a step that overlaps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.cli import main
from busbw.core.call import Call
from busbw.core.measurement import Beside, Measurement, Run, Slowdown
from busbw.formats.busbw_jsonl import measurement_record, run_record
from busbw.pricing.contention import measured_contention


def row(size_bytes: int, calls: float = 0.0, products: float = 0.0) -> Measurement:
    found = Measurement(Call("all_reduce", size_bytes, 8, "float32", "sum"), 1e-4 + size_bytes / 1e10)
    if not calls:
        return found
    beside = Beside("GEMM 8 test", found.time_s, Slowdown(calls, calls, calls), Slowdown(products, products, products))
    return replace(found, time_s=found.time_s * calls, beside=beside, labels={"beside": beside.what})


def test_a_hidden_second_costs_what_both_slowdowns_say() -> None:
    """Calls 1.5 times as long, products 1.25: in 1.5 s computation gets 1.2 s of its work done, so 0.3 s are lost."""
    found = measured_contention([row(2**20), row(2**20, 1.5, 1.25), row(64, 9.0, 9.0)])
    assert found is not None
    assert found.share == pytest.approx(0.3)
    assert "calls took 1.50 and products 1.25 times as long (1 rows" in found.words
    assert measured_contention([row(2**20)]) is None


def test_the_timeline_uses_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.jsonl"
    rows = [row(4**k) for k in range(6, 15)] + [row(2**22, 1.5, 1.25)]
    path.write_text("".join(json.dumps(each) + "\n" for each in [run_record(Run()), *map(measurement_record, rows)]))
    words = ["price", "gpt2", "--plan", "ddp", "--world", "8", "--profile", str(path), "--compute-ms", "500", "--json"]
    assert main(words) == 0
    timeline = json.loads(capsys.readouterr().out)["timeline"]
    hidden = timeline["communication_s"] - timeline["exposed_s"]
    assert timeline["contention_s"] == pytest.approx(0.3 * hidden)
    assert main([*words, "--contention", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["timeline"]["contention_s"] == 0
