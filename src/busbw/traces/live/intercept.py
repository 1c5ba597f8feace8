"""Sees every c10d call of this process, whoever makes it: Python, DDP's C++ reducer, FSDP, DTensor, compiled graphs.

Kernels for the c10d operators are registered at the dispatch key BackendSelect, with the key set, and redispatch
below it. That key comes before every backend's own, so one registration serves gloo, NCCL and any other; redispatching
releases the interpreter's lock while a backend works. (A kernel at the CPU key that calls the operator again holds it,
and gloo's own threads then wait for each other: 5 of 6 runs hung.)

Functional collectives (`_c10d_functional`) reach these operators, so a call is never seen twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from busbw.traces.live._ops import OPS, ArgumentPlaces, Op
from busbw.traces.live.recorder import Recorder

_lock = threading.Lock()
_recorders: tuple[Recorder, ...] = ()
_library: Any = None


def attach(recorder: Recorder) -> None:
    """Let a recorder see all calls from now on."""
    global _recorders
    with _lock:
        _recorders = (*_recorders, recorder)
        recorder.start()
        if _library is None:
            _register()


def detach(recorder: Recorder) -> None:
    """Stop it; with the last one, calls cost again what they cost before."""
    global _recorders, _library
    with _lock:
        if recorder not in _recorders:
            return
        _recorders = tuple(each for each in _recorders if each is not recorder)
        recorder.stop()
        if not _recorders and _library is not None:
            _library._destroy()
            _library = None


def _register() -> None:
    global _library
    import torch
    import torch.distributed

    _library = torch.library.Library("c10d", "IMPL")
    key = torch._C.DispatchKey.BackendSelect
    below = torch._C._dispatch_keyset_full_after(key)
    for op in OPS.values():
        packet = getattr(torch.ops.c10d, op.name, None)
        if packet is not None and hasattr(packet, "default"):  # else this version of torch does not have it
            _library.impl(op.name, _kernel(op, packet.default, below), "BackendSelect", with_keyset=True)


def _kernel(op: Op, overload: Any, below: Any) -> Callable[..., Any]:
    at = ArgumentPlaces(op, [argument.name for argument in overload._schema.arguments])
    go_on = overload._handle.redispatch_boxed

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        timed = None
        for recorder in _recorders:
            try:
                record = recorder.called(op, at, args)
                if record is not None:
                    timed = [*(timed or ()), (recorder, record)]
            except Exception as error:
                recorder.failed(error)
        if timed is None:
            return go_on(keyset & below, *args, **kwargs)
        result = go_on(keyset & below, *args, **kwargs)
        for recorder, record in timed:
            try:
                recorder.issued(record, op, at, args, result)
            except Exception as error:
                recorder.untimed(error)
        return result

    return kernel
