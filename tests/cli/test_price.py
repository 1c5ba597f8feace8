from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.cli import main
from busbw.pricing import price

RATES = "alpha=5us,bandwidth=20GB/s"


def test_the_posts_statements_and_their_corrections(seed_files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["price", "gpt2", "--plan", "ddp", "--world", "8", "--profile", str(seed_files[0].parent)]) == 0
    out = capsys.readouterr().out
    assert "148 tensors, 124.4 M parameters (float32)" in out
    assert "98 of the 148 tensors hold 0.098 % of the bytes and cost 6.00 ms to 6.59 ms one by one" in out
    assert "all 148 pay 9.06 ms to 9.95 ms of latency" in out
    rows = {(line[:28].strip(), line[29:38].strip()): line for line in out.splitlines()}
    one = rows["in one call", "bfloat16"].split()
    assert one[5:8] == ["248.9", "24.6", "ms"]
    assert rows["in one call", "float32"].split()[5:8] == ["497.8", "49.1", "ms"]
    assert "under autocast gradients stay float32, twice the bytes of bfloat16" in out


def test_json_has_the_bill_and_what_rests_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["price", "gpt2", "--plan", "ddp", "-N", "8", "--profile", RATES, "--compute-ms", "100", "--json"]
    assert main(words) == 0
    data = json.loads(capsys.readouterr().out)
    line = data["lines"][0]
    assert line["collective"] == "all_reduce"
    assert (line["world_size"], line["size_bytes"], line["dtype"], line["count"]) == (8, 9446400, "float32", 1)
    assert (line["phase"], line["name"], line["group"]) == ("backward", "bucket 0", "world")
    assert line["sent_bytes_per_rank"] == 2 * 7 * 9446400 // 8
    assert line["seconds"] == pytest.approx(14 * 5e-6 + 1.75 * 9446400 / 20e9)
    assert line["overlappable"] is True
    assert set(data["steps"]) == {"constructor", "first", "second", "steady"}
    assert data["timeline"]["step_s"] >= 0.1
    assert {point["bucket_cap_mb"] for point in data["bucket_curve"]} >= {1, 25, 500}
    assert data["suggestions"][0]["change"] == "hook=bf16"
    assert [way["how"] for way in data["sync"]][:1] == ["tensor by tensor"]


def test_two_plans_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["price", "llama3-8b", "--plan", "fsdp2", "-N", "64", "--compare", "zero3", "--profile", RATES]) == 0
    out = capsys.readouterr().out
    (row,) = (line for line in out.splitlines() if line.startswith("  calls a steady step"))
    assert row.split()[-2] == str(2 * 32 + 1 + 33)


def test_against_a_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "capture.json"
    path.write_text(json.dumps(price("gpt2", "ddp", 8).to_json()))
    assert main(["price", "gpt2", "--plan", "ddp", "-N", "8", "--against", str(path)]) == 0
    assert "agrees with the plan, call by call: constructor, first, second, steady" in capsys.readouterr().out
    assert main(["price", "gpt2", "--plan", "ddp,hook=bf16", "-N", "8", "--against", str(path)]) == 1
    assert "changed" in capsys.readouterr().out
    path.write_text("{}")
    assert main(["price", "gpt2", "-N", "8", "--against", str(path)]) == 2
    assert "not a bill" in capsys.readouterr().err


def test_a_model_is_saved_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("m.json", "m.csv"):
        path = str(tmp_path / name)
        assert main(["price", "resnet18", "--save-model", path]) == 0
        first = capsys.readouterr().out.splitlines()[1:]
        assert main(["price", path]) == 0
        bill = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("# plan")]
        assert bill[2:8] == [line for line in first if not line.startswith("# plan")][1:7]


def test_every_word_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["price", "list", "--plan", "list"]) == 0
    out = capsys.readouterr().out
    for word in ("llama3-405b", "deepseek-v3", "fsdp2", "zero_redundancy_optimizer", "bucket_cap_mb=none", "muon"):
        assert word in out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["gtp2"], "did you mean gpt2"),
        (["gpt2", "--plan", "tp=5"], "8 is not divisible by it"),
        (["gpt2", "--compute-ms", "5"], "need --profile"),
        (["gpt2", "--profile", RATES, "--tflops", "0"], "--tflops 0: must be a number above 0"),
        (["gpt2", "--step", "third"], "--step 'third': choose from constructor, first"),
        (["gpt2", "--rank", "8"], "rank 8: must be from 0 to 7"),
        (["gpt2", "--accumulate", "0"], "accumulate 0: must be a whole number of 1 or more"),
        (["resnet50", "--sequence", "8"], "works on images"),
        (["gpt2", "--dtype", "fp12"], "unknown dtype 'fp12'"),
        (["gpt2", "--hosts", "3"], "--hosts 3"),
        (["no/such/config.json"], "cannot be read"),
    ],
)
def test_mistakes_are_one_line(words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["price", *words]) == 2
    err = capsys.readouterr().err
    assert why in err
    assert err.count("\n") == 1


def test_a_thousand_tensors_on_a_thousand_ranks_without_torch(tmp_path: Path) -> None:
    rows = "\n".join(f"layers.{i // 10}.t{i % 10}.weight,{1000 + i}x333,float32" for i in range(1000))
    path = tmp_path / "big.csv"
    path.write_text(rows + "\n")
    code = (
        "import sys, time\nfrom busbw.pricing import price\nstart = time.process_time()\n"
        f"for plan in ('ddp', 'fsdp2', 'zero3'):\n    price({str(path)!r}, plan, 1024)\n"
        "assert not {'torch', 'torch.distributed'} & set(sys.modules)\nprint((time.process_time() - start) / 3)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert float(done.stdout) < 1.0
