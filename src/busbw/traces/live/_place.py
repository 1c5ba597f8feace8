"""Where in the program a call stands: its module, its line, its reduction, found by one walk up the stack.

The stack costs nothing until a call happens, where hooks on modules would cost every forward pass of every module
(5 us each). torch's own frames are known by their code objects; each is classified once.
"""

from __future__ import annotations

import os
import weakref
from types import CodeType, FrameType
from typing import Any

Spot = tuple[bool, Any, str, CodeType | None, int, Any, bool]
"""(inside a module's forward, that module or None, name, code and instruction of the call site, reduction operator,
inside a pipeline schedule's step)"""

_SKIP, _USER, _MODULE, _REDUCE, _SHARDED, _HANDLE, _BUCKET, _BATCH, _SCHEDULE, _OPERATOR = range(10)
_WRAPPERS = ("typing_extensions.py", f"{os.sep}contextlib.py", f"{os.sep}functools.py")  # decorators' frames
_PREFIXES = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod.")


class Places:
    """Finds the spot of a call. One for a recorder; `modules` are named from the outermost module that calls."""

    def __init__(self, own: str) -> None:
        import torch

        self._call_impl = torch.nn.Module._call_impl.__code__
        self._torch = os.path.dirname(torch.__file__) + os.sep
        self._own = own + os.sep
        self._roles: dict[int, int] = {}  # by id: hashing a code object costs up to 0.4 us
        self.redop_arguments: dict[int, str] = {}
        """id of a code object -> the local variable that holds the reduction operator of the call that it makes."""
        self._kept: list[CodeType] = []  # and an id means its object only as long as that lives
        self._names: weakref.WeakKeyDictionary[Any, dict[int, str]] = weakref.WeakKeyDictionary()

    def find(self, frame: FrameType | None, deep: bool) -> Spot:
        """Walk up from `frame` to the module and the call site; not beyond the call site unless `deep`."""
        roles = self._roles
        code: CodeType | None = None
        at = 0
        name, redop, scheduled = "", None, False
        while frame is not None:
            this = frame.f_code
            role = roles.get(id(this))
            if role is None:
                role = self._meet(this)
            if role == _USER:
                if code is None:
                    code, at = this, frame.f_lasti
                    if not deep:
                        break
            elif role == _MODULE:
                if code is not None:
                    return (True, frame.f_locals["self"], name, code, at, redop, scheduled)
                # A module of torch's own called it (DDP, FSDP, a parallel layer): its caller's line is the call site.
                found = frame.f_locals["self"]
                return (True, found, name, *self._site(frame.f_back), redop, scheduled)
            elif role != _SKIP:
                if role == _REDUCE:
                    if redop is None:
                        redop = frame.f_locals.get(self.redop_arguments[id(this)])
                elif role == _SCHEDULE:
                    scheduled = True
                elif role == _OPERATOR:
                    if redop is None:
                        redop = _said_to_operator(frame)
                elif not name:
                    name = self._told(role, frame)
            frame = frame.f_back
        return (False, None, name, code, at, redop, scheduled)

    def name(self, module: Any, frame: FrameType | None) -> str:
        """The path of a module from the outermost module that is being called; its class where it has none there."""
        root = None
        while frame is not None:
            if frame.f_code is self._call_impl:
                root = frame.f_locals["self"]
            frame = frame.f_back
        if root is not None and id(module) not in self._names.get(root, ()):
            self._names[root] = {id(each): _clean(path) for path, each in root.named_modules()}
        for candidate in (root, *self._names):  # in a backward pass no frame tells the root
            path = None if candidate is None else self._names[candidate].get(id(module))
            if path is not None:
                return path or type(module).__name__
        return type(module).__name__

    def _site(self, frame: FrameType | None) -> tuple[CodeType | None, int]:
        while frame is not None:
            role = self._roles.get(id(frame.f_code))
            if role is None:
                role = self._meet(frame.f_code)
            if role == _USER:
                return frame.f_code, frame.f_lasti
            frame = frame.f_back
        return None, 0

    def _told(self, role: int, frame: FrameType) -> str:
        """The name that a frame of FSDP, of a DDP hook or of a pipeline schedule knows."""
        held = frame.f_locals
        if role == _SHARDED:
            path = getattr(held.get("self"), "_module_fqn", None)
            return "" if path is None else _clean(path) or "root"
        if role == _HANDLE:
            handle = held.get("handle", held.get("self"))
            module = getattr(handle, "_fully_sharded_module", None)
            return "" if module is None else self.name(module, frame)
        if role == _BUCKET:
            index = getattr(held.get("bucket"), "index", None)
            return f"bucket {index()}" if callable(index) else ""
        action = str(held.get("comp_type") or "").rpartition(".")[2]  # SEND_F, RECV_B, ...
        if action[-2:] in ("_F", "_B"):
            return f"{'fwd' if action.endswith('F') else 'bwd'}_{action[:-2].lower()}"
        return str(held.get("desc") or "")

    def _meet(self, code: CodeType) -> int:
        self._kept.append(code)
        role = self._roles[id(code)] = self._classify(code)
        return role

    def _classify(self, code: CodeType) -> int:
        if code is self._call_impl:
            return _MODULE
        file = code.co_filename
        if "bucket" in code.co_varnames[: code.co_argcount] and "reducer" not in file:
            return _BUCKET if not file.startswith(self._own) else _SKIP
        if not file.startswith(self._torch):
            return _SKIP if file.startswith((self._own, "<")) or file.endswith(_WRAPPERS) else _USER
        part = file[len(self._torch) :].replace(os.sep, "/")
        if part in ("distributed/distributed_c10d.py", "distributed/_functional_collectives.py"):
            argument = next((name for name in ("op", "reduceOp", "reduce_op") if name in code.co_varnames), None)
            if argument is not None:
                self.redop_arguments[id(code)] = argument
                return _REDUCE
        if part == "_ops.py" and code.co_name == "__call__":
            return _OPERATOR
        if part.endswith("_fsdp_param_group.py"):
            return _SHARDED
        if part in ("distributed/fsdp/_flat_param.py", "distributed/fsdp/_runtime_utils.py"):
            return _HANDLE if {"handle", "self"} & set(code.co_varnames[: code.co_argcount]) else _SKIP
        if part == "distributed/pipelining/schedules.py":
            if "desc" in code.co_varnames[: code.co_argcount] or code.co_name == "_perform_action":
                return _BATCH
            if code.co_name == "step":
                return _SCHEDULE
        return _SKIP


def site_words(code: CodeType | None, at: int) -> str:
    """`train.py:12 main` of a code object and an instruction in it; empty for None."""
    if code is None:
        return ""
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if number is not None and start <= at < end:
            line = number
            break
    return f"{code.co_filename}:{line} {code.co_name}"


def _said_to_operator(frame: FrameType) -> str | None:
    """The reduction in a call of `_c10d_functional.all_reduce(tensor, "sum", group)`, as compiled graphs make it."""
    held = frame.f_locals
    if "_c10d_functional" not in str(held.get("self")):
        return None
    return next((word for word in held.get("args", ())[1:2] if isinstance(word, str)), None)


def _clean(path: str) -> str:
    """A module's path without what wrappers put in."""
    for prefix in _PREFIXES:
        path = f"{path}.".replace(prefix, "").removesuffix(".")
    return path.removeprefix("module.") if path != "module" else ""
