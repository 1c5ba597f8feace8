"""Rewrites the tables of docs/findings.md and docs/questions.md: python benchmarks/explain/docs.py [--count 200 --seed 1].

Without --count the confusion matrix stays as it is; without the questions beside the checkout so does their table.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from busbw.core.finding import FACT_KINDS  # noqa: E402
from busbw.findings import LAWS  # noqa: E402
from busbw.findings.machines import MACHINES  # noqa: E402


def laws() -> str:
    """Every law: what is checked, how it is decided, where the rule is from."""
    lines = ["| finding | checks whether | how it is decided | sources |", "|---|---|---|---|"]
    for law in LAWS:
        lines.append(f"| `{law.name}` | {law.claim} | {law.rule} | {law.sources or '-'} |")
    return "\n".join(lines)


def facts() -> str:
    """Every fact and how to get it."""
    lines = ["| fact | kind | meaning | how to get it |", "|---|---|---|---|"]
    lines += [
        f"| `{name}` | {kind.kind} | {kind.meaning} | {kind.how.replace('|', chr(92) + '|') or '-'} |"
        for name, kind in FACT_KINDS.items()
    ]
    return "\n".join(lines)


def machines() -> str:
    """Every machine."""
    lines = [
        "| machine | GPUs a host | link | wire | ring | NVLS, by N | NICs | source |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for m in MACHINES:
        nvls = ", ".join(f"{n}: {value:.0f}" for n, value in m.nvls.items())
        by_world = ", ".join(f"N={n}: {value}" for n, value in m.by_world.items())
        ring = by_world or (f"{m.ring:.0f}" if m.ring else f"{0.8 * m.wire:.0f} (80 %)")
        nics = f"{m.nics} x {m.nic_Gbps:.0f} Gb/s" if m.nics else ""
        lines.append(f"| `{m.name}` | {m.gpus} | {m.link} | {m.wire:.0f} | {ring} | {nvls} | {nics} | {m.source} |")
    return "\n".join(lines)


def put(path: Path, name: str, text: str) -> None:
    """Replace the block between its marks."""
    page = path.read_text()
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    assert pattern.search(page), (path, name)
    path.write_text(pattern.sub(lambda match: f"{match[1]}{text}\n{match[2]}", page, count=1))


def main() -> None:
    """Rewrite what can be rewritten here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=0, help="instances of each world")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    page = ROOT / "docs" / "findings.md"
    put(page, "facts", facts())
    put(page, "laws", laws())
    put(page, "machines", machines())
    if (ROOT.parent / "shared" / "data" / "logs" / "questions").is_dir():
        from questions import table

        put(ROOT / "docs" / "questions.md", "questions", table())
    if args.count:
        from confusion import score

        made = f"`python benchmarks/explain/confusion.py --count {args.count} --seed {args.seed}`:"
        put(page, "confusion", f"{made}\n\n{score(args.seed, args.count).table()}")


if __name__ == "__main__":
    main()
