"""`busbw topo`: read or show a machine."""

from __future__ import annotations

import argparse
import json
import sys

from busbw.cli.saving import refuse_other_kinds
from busbw.errors import FileError
from busbw.topologies import Description, all_presets, describe_file, describe_this, is_file, read_spec
from busbw.topologies.page import page, to_json
from busbw.topologies.writing import to_toml, write_topology


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What machine, and how to print it."""
    parser.add_argument(
        "machine",
        nargs="?",
        default="this",
        metavar="MACHINE",
        help="a preset such as 'cluster(hosts=64, host=dgx-h100)', a file (NCCL's topology XML, nvidia-smi topo -m, rocm-smi "
        "--showtopo, our TOML, an NCCL log), - for standard input, or this (the default)",
    )
    parser.add_argument("--list", action="store_true", help="the presets with their parameters")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="as JSON")
    shown.add_argument("--toml", action="store_true", help="as TOML, to be edited and read again")
    parser.add_argument("-o", "--output", metavar="FILE", help="save as TOML")


def run(args: argparse.Namespace) -> int:
    """Read, print, save; 2 when it is no machine."""
    if args.list:
        sys.stdout.write(_presets())
        return 0
    if args.output is not None:
        refuse_other_kinds(args.output, b"busbw_topology", "machine of ours in TOML")
    said = _described(args.machine)
    if said is None:
        machine = read_spec(args.machine)
    else:
        try:
            machine = said.topology()
        except FileError as error:
            if args.output or args.toml or not said.summary() or not said.stands_alone:
                raise
            return _alone(said, error, args.json)
    if args.output:
        write_topology(machine, args.output)
    if args.json:
        json.dump(to_json(machine, said.to_json() if said else None), sys.stdout, indent=1)
        sys.stdout.write("\n")
    elif args.toml:
        sys.stdout.write(to_toml(machine))
    else:
        sys.stdout.write(page(machine, said.summary() if said else ()))
        if args.output:
            sys.stdout.write(f"saved as {args.output}\n")
    return 0


def _described(machine: str) -> Description | None:
    """What a file, or this machine, says; None for a preset."""
    if machine == "this":
        return describe_this()
    return describe_file(machine) if is_file(machine) else None


def _alone(said: Description, error: FileError, as_json: bool) -> int:
    """A file that says much and is no machine: graphs, a log."""
    if as_json:
        json.dump({"said": said.to_json(), "no_topology": str(error)}, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.write("\n".join([*said.summary(), "", f"no machine: {error}"]) + "\n")
    return 0


def _presets() -> str:
    lines = []
    for preset in all_presets().values():
        lines.append(f"{preset.name}: {preset.summary}" + (f" [{preset.source}]" if preset.source else ""))
        for parameter in preset.parameters:
            choices = f" ({', '.join(parameter.choices)})" if parameter.choices else ""
            lines.append(f"    {parameter.name}={parameter.text or '...'}  {parameter.help}{choices}")
    return "\n".join(lines) + "\n"
