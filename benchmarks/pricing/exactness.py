"""Is the priced bill what really runs? Call by call, byte by byte: constructor, first, second and steady step.

    python benchmarks/pricing/exactness.py --write docs/pricing-exactness.md

For every model and plan a training program runs under `busbw.capture`, on gloo with 2, 3 and 4 ranks and on torch's
fake process group with 8 and 64; another process, in which torch is never imported, prices the same. Models are handed
over as files that `describe` wrote, or as transformers' config.json. `--only MODEL`, `--plan TEXT`, `--world 2,8`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

DDP: dict[str, dict[str, Any]] = {
    "ddp": {},
    "ddp,bucket_cap_mb=0.01": {"bucket_cap_mb": 0.01},
    "ddp,bucket_cap_mb=0.003,gradient_as_bucket_view": {"bucket_cap_mb": 0.003, "gradient_as_bucket_view": True},
    "ddp,find_unused_parameters,bucket_cap_mb=0.01": {"find_unused_parameters": True, "bucket_cap_mb": 0.01},
    "ddp,find_unused_parameters": {"find_unused_parameters": True},
    "ddp,static_graph,bucket_cap_mb=0.01": {"static_graph": True, "bucket_cap_mb": 0.01},
    "ddp,broadcast_buffers=false": {"broadcast_buffers": False},
    "ddp,hook=bf16,bucket_cap_mb=0.01": {"hook": "bf16", "bucket_cap_mb": 0.01},
    "ddp,hook=fp16": {"hook": "fp16"},
}
FSDP2: dict[str, dict[str, Any]] = {
    "fsdp2": {},
    "fsdp2,reshard_after_forward=true": {"reshard_after_forward": True},
    "fsdp2,reshard_after_forward=false": {"reshard_after_forward": False},
    "fsdp2,reshard_after_forward=2": {"reshard_after_forward": 2},
    "fsdp2,wrap=none": {"wrap": "none"},
    "fsdp2,param_dtype=bf16": {"param_dtype": "bfloat16"},
    "fsdp2,param_dtype=bf16,reduce_dtype=fp32": {"param_dtype": "bfloat16", "reduce_dtype": "float32"},
}
FSDP1: dict[str, dict[str, Any]] = {
    "fsdp1": {},
    "fsdp1,use_orig_params": {"use_orig_params": True},
    "fsdp1,strategy=shard_grad_op": {"strategy": "SHARD_GRAD_OP"},
    "fsdp1,strategy=no_shard": {"strategy": "NO_SHARD"},
    "fsdp1,wrap=none": {"wrap": "none"},
    "fsdp1,param_dtype=bf16": {"param_dtype": "bfloat16"},
    "fsdp1,param_dtype=bf16,reduce_dtype=fp32,use_orig_params": {
        "param_dtype": "bfloat16", "reduce_dtype": "float32", "use_orig_params": True},
}  # fmt: skip


def cases() -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """(plan, program, its options, pricing's settings)."""
    for plan, options in DDP.items():
        yield plan, "ddp", options, {}
    for plan in ("ddp", "ddp,bucket_cap_mb=0.01"):
        yield plan, "ddp", {**DDP[plan], "accumulate": 3}, {"accumulate": 3}
    yield "zero_redundancy_optimizer", "ddp", {"sharded": "parameters"}, {}
    yield "zero_redundancy_optimizer,parameters_as_bucket_view", "ddp", {"sharded": "view"}, {}
    for plan, options in FSDP2.items():
        yield plan, "fsdp2", options, {}
    yield "fsdp2", "fsdp2", {"accumulate": 2}, {"accumulate": 2}
    yield "fsdp2", "fsdp2", {"clip": True}, {"clip": True}
    yield "hsdp=2xK", "fsdp2", {"replicas": 2}, {}
    yield "hsdp=2xK,param_dtype=bf16,reduce_dtype=fp32", "fsdp2", {
        "replicas": 2, "param_dtype": "bfloat16", "reduce_dtype": "float32"}, {}  # fmt: skip
    for plan, options in FSDP1.items():
        yield plan, "fsdp1", options, {}
    yield "fsdp1", "fsdp1", {"accumulate": 2}, {"accumulate": 2}
    yield "fsdp1,strategy=shard_grad_op", "fsdp1", {"strategy": "SHARD_GRAD_OP", "accumulate": 2}, {"accumulate": 2}
    yield "fsdp1", "fsdp1", {"clip": True}, {"clip": True}


LLAMA = {"micro_batch": 2, "sequence": 8}
TP: list[tuple[str, dict[str, Any]]] = [
    ("tp", {"prepare": True}),
    ("tp,prepare=false", {}),
    ("tp,sp", {"sp": True}),
    ("tp,sp,loss_parallel", {"sp": True, "loss": True}),
]


def llama_cases(world: int) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Plans that cut activations, on the Llama of the zoo."""
    if world in (2, 4):
        for plan, options in TP:
            yield plan, "tp", options, LLAMA
    if world > 2 and world % 2 == 0:
        for plan, options in TP:
            fitting = {**options, "degree": 2, "data": "fsdp2"}
            yield f"fsdp2={world // 2},{plan.replace('tp', 'tp=2', 1)}", "tp", fitting, LLAMA
    if world <= 4:  # the first step's messages have to arrive, which they do not on the fake group
        for micro in (4, 7):
            settings = {**LLAMA, "accumulate": micro}
            yield "pp,schedule=gpipe", "pp", {"schedule": "GPipe", "micro_batches": micro}, settings
            yield "pp,schedule=1f1b", "pp", {"schedule": "1F1B", "micro_batches": micro}, settings
        if world == 2:
            for micro in (4, 6):
                options = {"schedule": "Interleaved1F1B", "micro_batches": micro, "chunks": 2}
                yield "pp,schedule=interleaved", "pp", options, {**LLAMA, "accumulate": micro}
    if world in (2, 4, 8):
        yield "cp,repeat_kv", "cp", {}, LLAMA
        yield f"fsdp2=1,cp={world},repeat_kv", "cp", {"data": "fsdp2"}, LLAMA


def work(models: list[str], plans: str | None, world: int) -> list[dict[str, Any]]:
    """What is to run: one dictionary a case."""
    found = []
    for model in models:
        for plan, program, options, settings in [*cases(), *(llama_cases(world) if model == "llama" else ())]:
            if plans is not None and plans not in plan:
                continue
            if "=2xK" in plan:
                if world % 2:
                    continue
                plan = plan.replace("2xK", f"2x{world // 2}")
            if options.get("reshard_after_forward") == 2 and world % 2:
                continue
            extra = "".join(f", {key}={value}" for key, value in settings.items())
            found.append({"model": model, "plan": plan, "label": plan + extra, "program": program, "options": options,
                          "settings": settings, "world": world})  # fmt: skip
    return found


# --- what runs where torch is ----------------------------------------------------------------------------------------


def run_rank(rank: int, world: int, backend: str, store: str, folder: Path, todo: list[dict[str, Any]]) -> None:
    """One rank: every case in turn, its bills into a file."""
    import torch
    import torch.distributed as dist

    import busbw

    sys.path.insert(0, str(HERE))
    import programs
    import zoo

    torch.set_num_threads(1)
    if backend == "fake":
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    else:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    results: list[dict[str, Any]] = []
    for number, case in enumerate(todo):
        torch.manual_seed(0)
        error = None
        with busbw.capture() as capture:
            if case["program"] == "pp":
                programs.MARK = capture.step
            try:
                module, inputs = zoo.build(case["model"])
                programs.PROGRAMS[case["program"]](module, inputs, **case["options"])
            except Exception as caught:
                error = f"{type(caught).__name__}: {str(caught).strip().splitlines()[0][:160] if str(caught) else ''}"
                if os.environ.get("EXACTNESS_TRACE"):
                    traceback.print_exc()
        results.append({"case": number, "error": error, "bills": None if error else capture.bills.to_json()})
        if backend == "gloo":
            dist.barrier()
    (folder / f"{backend}-{world}-{rank}.json").write_text(json.dumps(results))
    dist.destroy_process_group()


def write_models(models: list[str], folder: Path) -> None:
    """Each model as the file that pricing reads: what `describe` wrote of it, or its config.json."""
    sys.path.insert(0, str(HERE))
    import zoo

    from busbw.pricing.readers import read_model

    for name in models:
        if name in zoo.CONFIGS:
            words = dict(zoo.CONFIGS[name][2])
            (folder / f"{name}.json").write_text(json.dumps(words))
            continue
        (folder / f"{name}.json").write_text(json.dumps(read_model(f"zoo:{name}").to_json()))


# --- what runs where torch is not ------------------------------------------------------------------------------------


def compare(
    folder: Path, todo: list[dict[str, Any]], backend: str, world: int, ranks: list[int]
) -> list[dict[str, Any]]:
    """Price every case, and compare with what was captured; torch is never imported here."""
    from busbw.core.bill import Bills
    from busbw.errors import BusbwError
    from busbw.pricing import price
    from busbw.pricing.against import differences
    from busbw.pricing.readers import read_model

    captured = {}
    for rank in ranks:
        path = folder / f"{backend}-{world}-{rank}.json"
        captured[rank] = json.loads(path.read_text()) if path.exists() else []
    models: dict[str, Any] = {}
    rows = []
    for number, case in enumerate(todo):
        row = {**case, "backend": backend, "verdict": "agrees", "why": "", "calls": 0}
        for rank in ranks:
            results = captured[rank]
            if number >= len(results):
                row.update(verdict="did not run", why="the job ended before")
                break
            if results[number]["error"]:
                row.update(verdict="does not run", why=results[number]["error"])
            try:
                model = models.setdefault(case["model"], read_model(str(folder / f"{case['model']}.json")))
                priced = price(model, case["plan"], world, rank=rank, settings=case["settings"])
            except BusbwError as error:
                if row["verdict"] == "agrees":
                    row.update(verdict="not priced", why=str(error))
                break
            if results[number]["error"]:
                break
            bills = Bills.from_json(results[number]["bills"])
            names = [*sorted({*priced.steps, *bills.steps} - {"steady"}), "steady"]
            found = differences(priced, bills, names)
            row["calls"] += sum(bill.totals().calls for bill in bills.steps.values())
            if found:
                row.update(verdict="differs", why="; ".join(f"rank {rank} {d.step}: {d.what}" for d in found[:3]))
                break
        rows.append(row)
    assert "torch" not in sys.modules
    return rows


# --- the table -------------------------------------------------------------------------------------------------------


def run_world(models: list[str], plans: str | None, world: int, folder: Path) -> list[dict[str, Any]]:
    """One world: on gloo up to 4 ranks, on the fake group above (its first and its last rank)."""
    todo = work(models, plans, world)
    backend, ranks = ("gloo", list(range(world))) if world <= 4 else ("fake", [0, world - 1])
    (folder / "todo.json").write_text(json.dumps(todo))
    store = folder / f"store-{world}"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
               "PYTHONWARNINGS": "ignore", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # fmt: skip
    runs = []
    for rank in ranks:
        if (folder / f"{backend}-{world}-{rank}.json").exists():
            continue
        words = ["rank", str(rank), str(world), backend, str(store), str(folder)]
        runs.append(subprocess.Popen([sys.executable, __file__, *words], env=environ,
                                     stderr=None if os.environ.get("EXACTNESS_TRACE") else subprocess.DEVNULL))  # fmt: skip
    for run in runs:
        run.wait()
    words = ["compare", str(folder), backend, str(world), ",".join(map(str, ranks))]
    done = subprocess.run([sys.executable, __file__, *words], env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
        raise SystemExit(done.returncode)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def main() -> None:
    if sys.argv[1:2] == ["rank"]:
        rank, world, backend, store, folder = sys.argv[2:]
        todo = json.loads((Path(folder) / "todo.json").read_text())
        run_rank(int(rank), int(world), backend, store, Path(folder), todo)
        return
    if sys.argv[1:2] == ["compare"]:
        folder, backend, world, ranks = sys.argv[2:]
        todo = json.loads((Path(folder) / "todo.json").read_text())
        json.dump(compare(Path(folder), todo, backend, int(world), [int(r) for r in ranks.split(",")]), sys.stdout)
        return
    if sys.argv[1:2] == ["models"]:
        write_models(sys.argv[3].split(","), Path(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="these models, comma-separated")
    parser.add_argument("--plan", help="plans that hold this text")
    parser.add_argument("--world", default="2,3,4,8,64")
    parser.add_argument("--write", metavar="FILE", help="the table, in Markdown")
    parser.add_argument("--captures", metavar="DIR", help="keep what was captured there, and use what is there already")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    sys.path.insert(0, str(HERE))
    started = time.time()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if args.captures:
            Path(args.captures).mkdir(parents=True, exist_ok=True)
            for path in Path(args.captures).glob("*-*-*.json"):
                shutil.copy(path, folder)
        names = _names() if args.only is None else args.only.split(",")
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
        subprocess.run([sys.executable, __file__, "models", temporary, ",".join(names)], env=environ, check=True)
        rows = []
        for world in map(int, args.world.split(",")):
            rows += run_world(names, args.plan, world, folder)
            if args.captures:
                for path in folder.glob("*-*-*.json"):
                    shutil.copy(path, args.captures)
            sys.stderr.write(f"N = {world}: {time.time() - started:.0f} s\n")
    if args.json:
        json.dump(rows, sys.stdout)
        return
    if args.write:
        from table import page

        Path(args.write).write_text(page(rows, _versions()))
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
        if row["verdict"] not in ("agrees",) and not args.write:
            print(f"{row['verdict']:<12} {row['model']:<10} {row['label']} N={row['world']}: {row['why'][:400]}")
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())), file=sys.stderr)


def _versions() -> tuple[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("torch"), version("transformers")
    except PackageNotFoundError:
        return version("torch"), ""


def _names() -> list[str]:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import zoo\ntry:\n import transformers; t=True\nexcept ImportError:\n t=False\nprint(','.join(zoo.names(t)))"
    done = subprocess.run([sys.executable, "-c", code, str(HERE)], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1].split(",")


if __name__ == "__main__":
    main()
