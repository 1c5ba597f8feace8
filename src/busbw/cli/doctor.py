"""`busbw doctor`: what on this host costs collectives time?"""

from __future__ import annotations

import argparse
import json
import sys

from busbw.doctor import Host, examine, page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to look, and how to print."""
    parser.add_argument(
        "--root",
        default="/",
        metavar="DIR",
        help="a copy of another host's /sys, /proc and saved commands/ (no command runs; see docs/doctor.md)",
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON, with facts that busbw explain takes")


def run(args: argparse.Namespace) -> int:
    """Look, print; 1 when something hurts."""
    report = examine(Host(args.root))
    if args.json:
        json.dump(report.to_json(), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.write(page(report))
    return 1 if report.hurts else 0
