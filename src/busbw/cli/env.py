"""`busbw env`: what a bug report should say of this machine; from an allow-list, so it holds no secrets."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys

from busbw.bench.environment import environment

_LIBRARIES = (
    "torch",
    "mpi4py",
    "mpich",
    "numpy",
    "altair",
    "vl-convert-python",
    "tqdm",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options."""


def run(args: argparse.Namespace) -> int:
    """Print it as JSON."""
    libraries: dict[str, str | None] = {}
    for name in _LIBRARIES:
        try:
            libraries[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            libraries[name] = None
    json.dump({**environment(), "libraries": libraries}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0
