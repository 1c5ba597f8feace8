"""A model from what a user names: a known model, a config.json, safetensors headers, a CSV, a saved model, a module.

Only a module needs torch, and `busbw.pricing.modules` alone imports it.
"""

from __future__ import annotations

import csv
import json
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from busbw.core.dtype import DTYPES, find_dtype
from busbw.core.plan import Model, Tensor
from busbw.errors import FileError, UsageError
from busbw.pricing.family import built_in, from_config

_SAFETENSORS = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "uint8",
}
MOST_HEADER_BYTES = 100_000_000
_ASSUMED = "gradients are taken to arrive in the reverse order of the file's tensors; a module would tell"


def read_model(text: str) -> Model:
    """The model of `gpt2`, a path, or `package.module:function`; UsageError or FileError say what is wrong."""
    path = Path(text)
    if path.is_dir():
        return _from_folder(path)
    if path.suffix in (".json", ".safetensors", ".csv") or path.is_file():
        readers: dict[str, Callable[[Path], Model]] = {".json": _from_json, ".safetensors": _from_safetensors}
        return readers.get(path.suffix, _from_csv)(path)
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", text):
        from busbw.pricing.modules.reader import read_function  # torch is imported in there, when it is called

        return read_function(text)
    return built_in(text)


def from_tensors(name: str, tensors: Iterable[Tensor], source: str, notes: tuple[str, ...] = (_ASSUMED,)) -> Model:
    """A model of which only the tensors are known: repeated blocks by their names, gradients in reverse order."""
    listed = tuple(tensors)
    parameters = [tensor for tensor in listed if not tensor.buffer]
    arrival = tuple(tensor.name for tensor in reversed(parameters) if tensor.trainable and tensor.used)
    return Model(
        name, listed, arrival, find_blocks([tensor.name for tensor in parameters]), None, "token", source, notes
    )


def find_blocks(names: Iterable[str]) -> tuple[str, ...]:
    """Paths of the repeated blocks: the outermost numbered list that holds most parameters (`model.layers.0`, ...)."""
    lists: dict[str, dict[int, int]] = {}
    for name in names:
        match = re.match(r"(.*?\.|)(\d+)\.", name)
        if match:
            blocks = lists.setdefault(match[1], {})
            blocks[int(match[2])] = blocks.get(int(match[2]), 0) + 1
    if not lists:
        return ()
    prefix = max(lists, key=lambda each: (sum(lists[each].values()), -len(each)))
    return tuple(f"{prefix}{index}" for index in sorted(lists[prefix]))


def _from_folder(path: Path) -> Model:
    files = sorted(path.glob("*.safetensors"))
    if (path / "config.json").is_file():
        try:
            return _from_json(path / "config.json")
        except UsageError:
            if not files:
                raise
    if not files:
        raise FileError(f"{path}: neither a config.json nor .safetensors files in it")
    tensors = [tensor for file in files for tensor in _header(file)]
    return from_tensors(path.name, tensors, f"headers of {len(files)} safetensors files in {path}")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: not a text file") from error


def _from_json(path: Path) -> Model:
    try:
        data = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: not JSON: {error}") from error
    if not isinstance(data, dict):
        raise FileError(f"{path}: neither a transformers config.json nor a saved model")
    if data.get("type") == "model":
        try:
            return Model.from_json(data)
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(f"{path}: not a saved model: {type(error).__name__}: {error}") from error
    if "model_type" not in data:
        raise FileError(f"{path}: no model_type in it: neither a transformers config.json nor a saved model")
    name = path.parent.name if path.name == "config.json" and path.parent.name else path.stem
    try:
        model = from_config(name, data)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise FileError(f"{path}: not a usable config: {error}") from error
    return _sourced(model, f"shape table from {path}")


def _sourced(model: Model, source: str) -> Model:
    return replace(model, source=source)


def _from_safetensors(path: Path) -> Model:
    return from_tensors(path.stem, _header(path), f"header of {path}")


def _header(path: Path) -> list[Tensor]:
    """The tensors of a safetensors file from its JSON header: 8 bytes of length (little-endian), then the JSON."""
    try:
        with path.open("rb") as file:
            head = file.read(8)
            length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
            if not 2 <= length <= MOST_HEADER_BYTES:
                raise FileError(f"{path}: not a safetensors file: its header would be {length} bytes long")
            header: Any = json.loads(file.read(length))
        found = [
            (
                int(entry["data_offsets"][0]),
                Tensor(str(name), tuple(map(int, entry["shape"])), _dtype_of(entry["dtype"])),
            )
            for name, entry in header.items()
            if name != "__metadata__"
        ]
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise FileError(f"{path}: not a safetensors header: {type(error).__name__}: {str(error)[:100]}") from error
    if not found:
        raise FileError(f"{path}: its header names no tensor")
    return [tensor for _, tensor in sorted(found, key=lambda pair: _natural(pair[1].name))]


def _natural(name: str) -> list[tuple[int, str]]:
    """A key under which `h.2` stands before `h.10`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _dtype_of(text: object) -> str:
    word = _SAFETENSORS.get(str(text))
    if word is None:
        raise ValueError(f"dtype {text!r}: known are {', '.join(_SAFETENSORS)}")
    return word


def _from_csv(path: Path) -> Model:
    """Rows of name, shape, dtype; further columns `buffer`, `trainable`, `used` (1 or 0) and `arrival` (a number)."""
    rows = list(csv.reader(_read(path).splitlines()))
    if rows and [cell.strip().lower() for cell in rows[0][:2]] == ["name", "shape"]:
        columns = [cell.strip().lower() for cell in rows[0]]
        body = list(enumerate(rows[1:], start=2))
    else:
        columns, body = ["name", "shape", "dtype"], list(enumerate(rows, start=1))
    tensors: list[Tensor] = []
    order: dict[str, float] = {}
    for line, row in body:
        if not row or row[0].lstrip().startswith("#"):
            continue
        cells = dict(zip(columns, (cell.strip() for cell in row), strict=False))
        tensor = _row(path, line, cells)
        if any(tensor.name == other.name for other in tensors):
            raise FileError(f"{path}:{line}: tensor {tensor.name!r} stands twice")
        tensors.append(tensor)
        if cells.get("arrival"):
            order[tensor.name] = _number(path, line, cells["arrival"])
    if not any(not tensor.buffer for tensor in tensors):
        raise FileError(f"{path}: no row of name,shape,dtype in it")
    model = from_tensors(path.stem, tensors, f"tensors of {path}", () if order else (_ASSUMED,))
    if order:
        missing = [name for name in model.arrival if name not in order]
        if missing:
            raise FileError(f"{path}: {missing[0]!r} has no arrival, and others have: give it to all or none")
        model = replace(model, arrival=tuple(sorted(model.arrival, key=lambda name: order[name])))
    return model


def _row(path: Path, line: int, cells: dict[str, str]) -> Tensor:
    where = f"{path}:{line}"
    name, shape = cells.get("name", ""), cells.get("shape", "")
    if not name:
        raise FileError(f"{where}: a row needs a name")
    sizes = [word for word in re.split(r"[x*,;\s()\[\]]+", shape) if word]
    if not all(word.isdigit() and len(word) < 16 for word in sizes):
        raise FileError(f"{where}: shape {shape!r} must be numbers such as 768x2304 (empty for a scalar)")
    try:
        dtype = find_dtype(cells.get("dtype") or "float32").name
    except UsageError as error:
        raise FileError(f"{where}: {error}") from error
    flags = {}
    for key, default in (("buffer", False), ("trainable", True), ("used", True)):
        word = cells.get(key, "")
        if word not in ("", "0", "1"):
            raise FileError(f"{where}: {key} {word!r} must be 0 or 1")
        flags[key] = default if word == "" else word == "1"
    if flags["buffer"]:
        flags["trainable"] = flags["used"] = False
    return Tensor(name, tuple(int(word) for word in sizes), dtype, **flags)


def _number(path: Path, line: int, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise FileError(f"{path}:{line}: arrival {text!r} must be a number") from error


def to_csv(model: Model) -> str:
    """The model's tensors as the CSV that is read here, with the order in which gradients arrive."""
    order = {name: index for index, name in enumerate(model.arrival)}
    lines = ["name,shape,dtype,buffer,trainable,used,arrival"]
    for t in model.tensors:
        flags = f"{int(t.buffer)},{int(t.trainable)},{int(t.used)}"
        lines.append(f"{t.name},{'x'.join(map(str, t.shape))},{t.dtype},{flags},{order.get(t.name, '')}")
    return "\n".join(lines) + "\n"


assert set(_SAFETENSORS.values()) <= set(DTYPES)
