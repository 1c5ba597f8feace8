"""How well `busbw fit` predicts rows that it has not seen, file by file, beside log-log interpolation and a plain line.

    python benchmarks/fit_scores.py [FILE...]

Without files: the public logs and the seed data in ../shared/data, where they lie beside the checkout. Each file is
fitted by itself (those of the seed data together, since they are one machine). Prints the tables of docs/fitting.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from busbw.costs.holdout import Prediction, hold_out, score
from busbw.errors import BusbwError
from busbw.formats import read_results
from busbw.units import MIB

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
LEAST_SIZES = 8
"""Curves of fewer sizes are in the table of the seed data only: interpolation between them says little."""


def main(arguments: Sequence[str]) -> int:
    if arguments:
        table("files", [(Path(name).name, predictions([name])) for name in arguments])
        return 0
    if not DATA.is_dir():
        print(f"{DATA} does not lie beside this checkout; name files instead", file=sys.stderr)
        return 2
    for kind in ("nccl-tests", "osu"):
        files = [path for path in sorted((DATA / "logs" / kind).iterdir()) if path.name != "index.jsonl"]
        table(kind, [(path.name, predictions([str(path)])) for path in files])
    seed = predictions([str(path) for path in sorted((DATA / "seed").glob("*.csv"))], least=0)
    table(
        "seed data",
        [(name, [row for row in seed if row.collective == name]) for name in sorted({r.collective for r in seed})],
    )
    print("\nSeed data, each size left out, median over its four inner sizes (error of time, %):\n")
    print("| curve | fit | plain line | log-log |\n|---|---|---|---|")
    curves = sorted({(row.collective, row.world_size) for row in seed})
    for name, n in curves:
        rows = [row for row in seed if (row.kind, row.collective, row.world_size) == ("size", name, n)]
        if rows:
            values = (of_time(rows, way) for way in ("fit_s", "line_s", "interpolated_s"))
            print(f"| {name} N={n} | {' | '.join(f'{100 * value:.1f}' for value in values)} |")
    return 0


def predictions(paths: Iterable[str], least: int = LEAST_SIZES) -> list[Prediction]:
    """Of all rows in these files; none where one cannot be read."""
    try:
        found = hold_out([row for path in paths for row in read_results(path).measurements])
    except BusbwError:
        return []
    curves = {(row.kind, row.collective, row.world_size, row.settings): 0 for row in found}
    for row in found:
        curves[row.kind, row.collective, row.world_size, row.settings] += 1
    enough = {key for key, count in curves.items() if key[0] != "size" or count + 2 >= least}
    return [row for row in found if (row.kind, row.collective, row.world_size, row.settings) in enough]


def of_time(rows: Sequence[Prediction], way: str) -> float:
    return median(abs(getattr(row, way) / row.seconds - 1) for row in rows)


def table(title: str, files: Sequence[tuple[str, list[Prediction]]]) -> None:
    """One line a file: median errors in %, fit / log-log / line; and how many held-out rows lay in the interval."""
    sides = {
        "time up to 1 MiB": lambda row: row.kind == "size" and row.size_bytes <= MIB,
        "busbw above 1 MiB": lambda row: row.kind == "size" and row.size_bytes > MIB,
        "64 MiB -> 512 MiB": lambda row: row.kind == "large",
        "N 2, 4 -> 8": lambda row: row.kind == "worlds",
    }
    print(f"\n{title}: median errors in %, fit / log-log / line\n")
    print(f"| file | {' | '.join(sides)} | in 95 % interval |\n|{'---|' * (len(sides) + 2)}")
    for name, rows in files:
        if rows:
            cells = (errors([row for row in rows if chosen(row)]) for chosen in sides.values())
            print(f"| {name} | {' | '.join(cells)} | {100 * sum(row.inside for row in rows) / len(rows):.0f} |")
    every = [row for _, rows in files for row in rows]
    if not every:
        return
    cells = (errors([row for row in every if chosen(row)]) for chosen in sides.values())
    print(f"| **all rows** | {' | '.join(cells)} | {100 * sum(row.inside for row in every) / len(every):.0f} |")
    by_curve = [
        [each for _, rows in files for each in score([row for row in rows if chosen(row)]) if each.curves == 1]
        for chosen in sides.values()
    ]
    cells = (
        " / ".join(
            f"{100 * median(getattr(each, way) for each in curves):.1f}" for way in ("fit", "interpolated", "line")
        )
        if curves
        else ""
        for curves in by_curve
    )
    print(f"| **median over curves** | {' | '.join(cells)} | |")
    beaten = (f"{sum(each.fit <= each.interpolated for each in curves)} of {len(curves)}" for curves in by_curve)
    print(f"| **curves where the fit beats log-log** | {' | '.join(beaten)} | |")


def errors(rows: Sequence[Prediction]) -> str:
    if not rows:
        return ""
    ways = ("fit_s", "interpolated_s", "line_s")
    return " / ".join(f"{100 * median(row.error(getattr(row, way)) for row in rows):.1f}" for way in ways)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
