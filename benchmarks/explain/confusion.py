"""Confusion matrix of `explain` on generated machines: python benchmarks/explain/confusion.py [--count 200] [--seed 1].

For each known world: how often its fault was named, and how often each other fault was, wrongly.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "tests" / "findings")]

from worlds import World, worlds  # noqa: E402

from busbw.core.finding import Finding  # noqa: E402
from busbw.findings import explain  # noqa: E402

DIAGNOSES = (
    "redirect",
    "socket",
    "launch",
    "linear",
    "jump",
    "straggler",
    "slow member",
    "slow nic",
    "network",
    "switch",
    "drop",
    "first row",
    "broken",
    "low",
)


def diagnoses(findings: Iterable[Finding]) -> dict[str, Finding]:
    """Faults that the findings blame (a verdict of "cannot tell" blames nothing)."""
    blamed: dict[str, Finding] = {}
    for finding in findings:
        key = (finding.law, finding.verdict)
        name = {
            ("one_way_two_way", "fails"): "redirect",
            ("socket_link", "holds"): "socket",
            ("launch_per_call", "holds"): "launch",
            ("latency_grows_with_n", "holds"): "linear",
            ("straggler", "fails"): "straggler",
            ("slow_nic", "fails"): "slow nic",
            ("network_path", "fails"): "network",
            ("protocol_switch", "fails"): "switch",
            ("drop_at_large", "fails"): "drop",
            ("first_row", "fails"): "first row",
            ("wrong_values", "fails"): "broken",
            ("failed_run", "fails"): "broken",
            ("is_it_good", "fails"): "low",
        }.get(key)
        if finding.law == "slow_member":
            name = "slow member"
        if finding.law == "latency_grows_with_n" and "jump" in finding.statement:
            name = "jump"
        if name is not None:
            blamed.setdefault(name, finding)
    return blamed


@dataclass
class Score:
    """Counts over many worlds."""

    count: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)
    cells: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    wrong: list[tuple[World, str]] = field(default_factory=list)

    def add(self, world: World) -> None:
        """Explain one world and count."""
        blamed = diagnoses(explain(world.results, world.facts))
        self.count[world.name] += 1
        for name in blamed:
            self.cells[world.name][name] += 1
        extra = set(blamed) - world.allowed - {world.truth}
        found = not world.truth or (world.truth in blamed and world.detail in blamed[world.truth].statement + " ")
        if found and not (extra and not world.truth):
            self.right[world.name] += 1
        else:
            self.wrong.append((world, f"missed {world.truth!r}" if not found else f"said {sorted(extra)}"))
        if extra:
            self.false[world.name] += 1
            self.wrong.append((world, f"also said {sorted(extra)}"))

    @property
    def right_share(self) -> float:
        """Of all worlds, those whose fault was named (or where rightly none was)."""
        return sum(self.right.values()) / sum(self.count.values())

    @property
    def false_share(self) -> float:
        """Of all worlds, those in which something was blamed that is not the matter."""
        return sum(self.false.values()) / sum(self.count.values())

    def table(self) -> str:
        """The matrix as Markdown: per cent of each world's instances."""
        used = [name for name in DIAGNOSES if any(cells[name] for cells in self.cells.values())]
        lines = [f"| world | right | false blame | {' | '.join(used)} |", f"|---|---|---|{'---|' * len(used)}"]
        for name, count in self.count.items():
            cells = [
                f"{100 * self.cells[name][used_name] / count:.0f}" if self.cells[name][used_name] else ""
                for used_name in used
            ]
            lines.append(
                f"| {name} | {100 * self.right[name] / count:.1f} | {100 * self.false[name] / count:.1f} | {' | '.join(cells)} |"
            )
        lines.append(
            f"| **all** | **{100 * self.right_share:.1f}** | **{100 * self.false_share:.1f}** | {' | ' * (len(used) - 1)} |"
        )
        return "\n".join(lines)


def score(seed: int, count: int) -> Score:
    """The score over `count` instances of each world."""
    total = Score()
    for world in worlds(seed, count):
        total.add(world)
    return total


def main() -> None:
    """Print the matrix and what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-v", action="store_true")
    args = parser.parse_args()
    total = score(args.seed, args.count)
    print(total.table())
    if args.v:
        for world, what in total.wrong:
            print(world.name, what)


if __name__ == "__main__":
    main()
