"""The priced bill is what torch really calls: a few cases of benchmarks/pricing/exactness.py, which runs all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def test_a_tied_gpt_under_ddp_with_small_buckets(root: Path) -> None:
    pytest.importorskip("torch")
    script = root / "benchmarks" / "pricing" / "exactness.py"
    words = ["--only", "gpt_tied", "--plan", "bucket_cap_mb=0.01", "--world", "8", "--json"]
    done = subprocess.run(
        [sys.executable, str(script), *words], capture_output=True, text=True, timeout=150, check=True
    )
    rows = json.loads(done.stdout)
    assert len(rows) == 5
    assert [(row["label"], row["verdict"], row["why"]) for row in rows if row["verdict"] != "agrees"] == []
    assert sum(row["calls"] for row in rows) > 100
